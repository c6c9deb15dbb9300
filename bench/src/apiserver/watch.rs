//! `apiserver-watch`: from the send of an update until a watcher has its event.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use std::time::Duration;

use bowline_clock::{Clock, Instant, Scope, Spawner};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::bare::{Bare, Listener};
use super::client::{Asked, Client, Connection};
use super::load::{Failure, Run, Values};
use super::object::{Objects, namespace};
use super::watched::{Chunked, Streamed, Watched};
use super::write::revision;
use super::{EVENT_MS, Maker, row, row_against};
use crate::report::Row;

/// Kinds of watchers.
#[derive(Clone, Copy)]
enum Watchers {
    One,
    /// Each has its own connection.
    Apart,
    /// They share one connection per core, as the clients of one HTTP/2 process do.
    Shared,
    /// Each has its own connection, but there is no server: one thread only sends the events.
    Bare,
}

impl Watchers {
    const ALL: [Self; 4] = [Self::One, Self::Apart, Self::Shared, Self::Bare];

    /// The name of the watched object.
    fn object(self) -> &'static str {
        match self {
            Self::One => "watched-by-one",
            Self::Apart | Self::Bare => "watched-by-each",
            Self::Shared => "watched-by-all",
        }
    }

    fn count(self) -> usize {
        if matches!(self, Self::One) { 1 } else { MANY }
    }

    fn variant(self, percentile: usize, n: usize) -> String {
        let name = match self {
            Self::One => "watchers=1",
            Self::Apart => "watchers=100",
            Self::Shared => "watchers=100 http2",
            Self::Bare => "watchers=100 bare",
        };
        format!("{name} p{percentile} n={n}")
    }

    fn row(self, percentile: usize, n: usize) -> Row {
        let variant = self.variant(percentile, n);
        match self {
            Self::One | Self::Apart | Self::Shared => row(&variant, EVENT_MS, Some(0.25)),
            Self::Bare => row_against(&variant, &Self::Apart.variant(percentile, n), EVENT_MS, None),
        }
    }
}

/// Number of watchers where it is not one.
const MANY: usize = 100;

const PERCENTILES: [usize; 2] = [50, 90];

/// Number of warm-up updates.
const WARMING: usize = 100;

pub(super) fn rows(n: usize) -> Vec<Row> {
    let rows = Watchers::ALL.into_iter().flat_map(|watchers| PERCENTILES.map(|p| watchers.row(p, n)));
    rows.collect()
}

pub(super) async fn run(run: &Run) -> Result<Values, Failure> {
    let client = run.client()?;
    run.make_namespaces(&client).await?;
    let mut values = Values::default();
    for watchers in Watchers::ALL {
        if matches!(watchers, Watchers::Bare) && run.maker != Maker::Bowline {
            continue;
        }
        let mut latencies = latencies(run, &client, watchers).await?;
        latencies.sort_by(f64::total_cmp);
        for percentile in PERCENTILES {
            let latency = at_percentile(&latencies, percentile).ok_or("there was no event")?;
            values.put(&watchers.variant(percentile, run.n), EVENT_MS, latency);
        }
    }
    Ok(values)
}

/// Updates one object `n` times, each time after all watchers have the previous event, and returns the milliseconds
/// from each send to each arrival.
async fn latencies(run: &Run, client: &Client, watchers: Watchers) -> Result<Vec<f64>, Failure> {
    let (collection, name) = (format!("/api/v1/namespaces/{}/configmaps", namespace(0)), watchers.object());
    let measurement = Measurement::new(run, watchers.count());
    if matches!(watchers, Watchers::Bare) {
        let listener = Listener::bind()?;
        measurement.watch(&Watch::Bare(listener.address()?))?;
        let accepting = measurement.scope.spawn_blocking("accepting", || listener.accept(MANY));
        return measurement.latencies(Changing::Bare(accepting.await??), name).await;
    }
    let mut writer = client.connect().await?;
    let created = writer.ask(Asked::post(&collection, body(name, 0))).await?;
    let from = revision(&created).ok_or("a ConfigMap without a revision")?;
    let watched = format!("{collection}?watch=true&resourceVersion={from}");
    measurement.watch(&match watchers {
        Watchers::Shared => Watch::Shared(client.clone(), watched),
        _ => Watch::Alone(client.clone(), watched),
    })?;
    measurement.latencies(Changing::Server(writer, format!("{collection}/{name}")), name).await
}

fn body(name: &str, change: usize) -> Vec<u8> {
    Objects::default().config_map(name, None, change)
}

/// Watched objects.
#[derive(Clone)]
enum Watch {
    Alone(Client, String),
    /// Many watches on one connection.
    Shared(Client, String),
    Bare(SocketAddr),
}

/// The source of changes.
enum Changing {
    /// The connection of the writer, and the path of the object.
    Server(Connection, String),
    Bare(Bare),
}

impl Changing {
    async fn change(&mut self, object: Vec<u8>) -> Result<(), Failure> {
        match self {
            Self::Server(writer, path) => writer.ask(Asked::put(&*path, object)).await.map(drop),
            Self::Bare(bare) => bare.send(&object),
        }
    }
}

/// Watchers and their arrivals.
struct Measurement {
    scope: Scope,
    clock: Clock,
    watchers: usize,
    n: usize,
    arrivals: Arc<Arrivals>,
}

impl Measurement {
    fn new(run: &Run, watchers: usize) -> Self {
        let clock = run.scope.spawner().clock().clone();
        let arrivals = Arc::new(Arrivals::new(clock.clone(), watchers));
        arrivals.expect(watchers);
        Self { scope: run.scope.scope("watchers"), clock, watchers, n: run.n, arrivals }
    }

    /// Starts all watchers on one thread per core, each with a fixed share: work stealing would add wake-ups.
    fn watch(&self, watch: &Watch) -> Result<(), Failure> {
        let readers = available_parallelism()?.get().min(self.watchers);
        for reader in 0..readers {
            let watchers = (reader..self.watchers).step_by(readers);
            let (watch, arrivals, spawner) = (watch.clone(), self.arrivals.clone(), self.scope.spawner());
            self.scope.spawn_blocking("reader", move || {
                if let Err(failure) = read(&watch, watchers, &arrivals, &spawner) {
                    arrivals.fail(failure.to_string());
                }
            });
        }
        Ok(())
    }

    /// Makes all changes in order, each after all watchers have the previous one.
    async fn latencies(&self, mut changing: Changing, name: &str) -> Result<Vec<f64>, Failure> {
        // Waits for the first events.
        self.arrivals.complete().await?;
        let mut latencies = Vec::with_capacity(self.n * self.watchers);
        let warming = WARMING.min(self.n);
        for change in 1..=warming + self.n {
            let object = body(name, change);
            self.arrivals.expect(self.watchers);
            let sent = self.clock.now();
            changing.change(object).await?;
            self.arrivals.complete().await?;
            if change > warming {
                latencies.extend(self.arrivals.since(sent));
            }
        }
        Ok(latencies)
    }
}

/// Reads the events of these watchers on this thread until the scope ends.
fn read(
    watch: &Watch,
    watchers: impl Iterator<Item = usize>,
    arrivals: &Arc<Arrivals>,
    spawner: &Spawner,
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut shared = match watch {
            Watch::Shared(client, path) => Some((client.share().await?, path)),
            Watch::Alone(..) | Watch::Bare(_) => None,
        };
        for watcher in watchers {
            let watched = match (watch, &mut shared) {
                (_, Some((shared, path))) => Watched::Shared(Streamed::new(shared.follow(path).await?)),
                (Watch::Alone(client, path) | Watch::Shared(client, path), None) => {
                    Watched::Alone(Box::new(Chunked::begin(client.follow(path).await?).await?))
                }
                (Watch::Bare(address), None) => {
                    Watched::Bare(Box::new(Chunked::begin(TcpStream::connect(address).await?).await?))
                }
            };
            arrivals.put(watcher, arrivals.clock.now());
            spawner.spawn("watcher", follow(watched, watcher, arrivals.clone()));
        }
        spawner.cancellation().cancelled().await;
        Ok(())
    })
}

/// Records the arrival of each event, until the watch ends, which is an error.
async fn follow(mut watch: Watched, watcher: usize, arrivals: Arc<Arrivals>) {
    let mut changes = Changes::default();
    loop {
        let read = watch.read().await;
        let arrival = arrivals.clock.now();
        let seen = read.and_then(|()| {
            watch.lines(|line| {
                if changes.see(line)? {
                    arrivals.put(watcher, arrival);
                }
                Ok(())
            })
        });
        if let Err(failure) = seen {
            return arrivals.fail(format!("watcher {watcher}: {failure}"));
        }
    }
}

/// The arrival of the latest change at each watcher. Watchers write it to shared memory: a message per arrival would
/// cost as much as reading an event.
struct Arrivals {
    clock: Clock,
    began: Instant,
    /// Nanoseconds since the start.
    nanoseconds: Vec<AtomicU64>,
    /// Number of watchers without the event.
    missing: AtomicUsize,
    changed: Notify,
    failure: Mutex<Option<String>>,
}

impl Arrivals {
    fn new(clock: Clock, watchers: usize) -> Self {
        Self {
            began: clock.now(),
            clock,
            nanoseconds: (0..watchers).map(|_| AtomicU64::new(0)).collect(),
            missing: AtomicUsize::new(0),
            changed: Notify::new(),
            failure: Mutex::default(),
        }
    }

    /// Prepares for the next change.
    fn expect(&self, watchers: usize) {
        self.missing.store(watchers, Ordering::Relaxed);
    }

    fn put(&self, watcher: usize, arrival: Instant) {
        let nanos = u64::try_from(arrival.duration_since(self.began).as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds[watcher].store(nanos, Ordering::Relaxed);
        // With the last event, the waiting task has seen all earlier writes.
        if self.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.changed.notify_one();
        }
    }

    fn fail(&self, why: String) {
        self.failure().get_or_insert(why);
        self.changed.notify_one();
    }

    /// Waits until all watchers have the change.
    async fn complete(&self) -> Result<(), Failure> {
        loop {
            if let Some(why) = self.failure().take() {
                return Err(why.into());
            }
            if self.missing.load(Ordering::Acquire) == 0 {
                return Ok(());
            }
            self.changed.notified().await;
        }
    }

    /// The milliseconds from `sent` to each arrival.
    fn since(&self, sent: Instant) -> impl Iterator<Item = f64> {
        let sent = sent.duration_since(self.began);
        let nanos = self.nanoseconds.iter().map(|arrival| arrival.load(Ordering::Relaxed));
        nanos.map(move |nanos| Duration::from_nanos(nanos).saturating_sub(sent).as_secs_f64() * 1e3)
    }

    fn failure(&self) -> MutexGuard<'_, Option<String>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Text before the number of a change, in an event of an object.
const BEFORE_CHANGE: &[u8] = br#""web.toml":"change="#;

/// Checks that one watcher gets each change once, in order.
#[derive(Default)]
struct Changes {
    last: usize,
    /// Position of the number in the last event, where the next search starts.
    at: usize,
}

impl Changes {
    /// Whether this is the event of the next change; `false` for events without an object.
    fn see(&mut self, line: &[u8]) -> Result<bool, Failure> {
        let is_there = line.get(self.at..).is_some_and(|rest| rest.starts_with(BEFORE_CHANGE));
        if !is_there {
            let found = line.windows(BEFORE_CHANGE.len()).position(|window| window == BEFORE_CHANGE);
            let Some(at) = found else { return Ok(false) };
            self.at = at;
        }
        let number = line[self.at..].get(BEFORE_CHANGE.len()..).and_then(|rest| rest.get(..8));
        let change: usize = str::from_utf8(number.ok_or("an event is cut")?)?.parse()?;
        if change != self.last + 1 {
            return Err(format!("an event of change {change} after that of {}", self.last).into());
        }
        self.last = change;
        Ok(true)
    }
}

/// The value of this percentile.
fn at_percentile(sorted: &[f64], percentile: usize) -> Option<f64> {
    let rank = (sorted.len() * percentile).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_value_that_was_measured() {
        let ten: Vec<_> = (1..=10).map(f64::from).collect();
        assert_eq!(at_percentile(&ten, 50), Some(5.0));
        assert_eq!(at_percentile(&ten, 90), Some(9.0));
        assert_eq!(at_percentile(&[7.0], 50), Some(7.0));
        assert_eq!(at_percentile(&[], 50), None);
    }

    #[test]
    fn an_event_tells_its_change() {
        let event =
            |change| [br#"{"type":"MODIFIED","object":"#.to_vec(), body("a", change), b"}".to_vec()].concat();
        let longer = |change| [b" ".to_vec(), event(change)].concat();
        let mut changes = Changes::default();
        assert!(changes.see(&event(1)).unwrap());
        assert!(!changes.see(br#"{"type":"BOOKMARK"}"#).unwrap());
        assert!(changes.see(&event(2)).unwrap());
        assert!(changes.see(&longer(3)).unwrap(), "it need not stand at the same place");
    }

    #[test]
    fn an_event_that_comes_twice_or_is_left_out_is_a_failure() {
        for wrong in [1, 3] {
            let mut changes = Changes::default();
            assert!(changes.see(&body("a", 1)).unwrap());
            let failure = changes.see(&body("a", wrong)).unwrap_err();
            assert_eq!(failure.to_string(), format!("an event of change {wrong} after that of 1"));
        }
    }

    #[tokio::test]
    async fn a_change_is_seen_when_the_last_watcher_has_seen_it() {
        let clock = Clock::real();
        let arrivals = Arrivals::new(clock.clone(), 2);
        arrivals.expect(2);
        arrivals.put(1, clock.now());
        let early = clock.timeout(Duration::ZERO, arrivals.complete()).await;
        assert!(early.is_err());
        arrivals.put(0, clock.now());
        arrivals.complete().await.unwrap();
        assert_eq!(arrivals.since(arrivals.began).filter(|latency| *latency > 0.0).count(), 2);
        arrivals.expect(2);
        arrivals.fail("its watch ended".to_owned());
        assert_eq!(arrivals.complete().await.unwrap_err().to_string(), "its watch ended");
    }
}
