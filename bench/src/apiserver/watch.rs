//! `apiserver-watch`: from the moment that an update is sent until a watcher has its event.

use bowline_clock::{Clock, Instant};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::client::{Asked, Client, Connection, string};
use super::load::{Failure, Run, Values};
use super::object::{Objects, namespace};
use super::write::revision;
use super::{EVENT_MS, row};
use crate::report::Row;

const WATCHERS: [usize; 2] = [1, 100];
const PERCENTILES: [usize; 2] = [50, 90];

/// So many updates are made before those that count.
const WARMING: usize = 100;

pub(super) fn rows(n: usize) -> Vec<Row> {
    let variants = WATCHERS.into_iter().flat_map(|watchers| PERCENTILES.map(|p| variant(watchers, p, n)));
    variants.map(|variant| row(&variant, EVENT_MS, Some(0.25))).collect()
}

fn variant(watchers: usize, percentile: usize, n: usize) -> String {
    format!("watchers={watchers} p{percentile} n={n}")
}

pub(super) async fn run(run: &Run) -> Result<Values, Failure> {
    let client = run.client()?;
    run.make_namespaces(&client).await?;
    let mut values = Values::default();
    for watchers in WATCHERS {
        let mut latencies = latencies(run, &client, watchers).await?;
        latencies.sort_by(f64::total_cmp);
        for percentile in PERCENTILES {
            let latency = at_percentile(&latencies, percentile).ok_or("there was no event")?;
            values.put(&variant(watchers, percentile, run.n), EVENT_MS, latency);
        }
    }
    Ok(values)
}

/// Updates one object `n` times, each time when all watchers have seen the last, and gives the milliseconds from each
/// sending to each receiving.
async fn latencies(run: &Run, client: &Client, watchers: usize) -> Result<Vec<f64>, Failure> {
    let (namespace, name) = (namespace(0), format!("watched-{watchers}"));
    let collection = format!("/api/v1/namespaces/{namespace}/configmaps");
    let mut writer = client.connect().await?;
    let created = writer.ask(Asked::post(&collection, body(&name, 0))).await?;
    let from = revision(&created).ok_or("a ConfigMap without a revision")?;
    let clock = run.scope.spawner().clock().clone();
    let scope = run.scope.scope("watchers");
    let (sender, mut arrivals) = mpsc::unbounded_channel();
    for _ in 0..watchers {
        let mut connection = client.connect().await?;
        let path = format!("{collection}?watch=true&resourceVersion={from}");
        let response = connection.start(Asked::get(path)).await?;
        let watch = follow(connection, response.into_body(), clock.clone(), sender.clone());
        scope.spawn("watcher", watch);
    }
    drop(sender);

    let path = format!("{collection}/{name}");
    let mut latencies = Vec::with_capacity(run.n * watchers);
    let warming = WARMING.min(run.n);
    for change in 1..=warming + run.n {
        let asked = Asked::put(&path, body(&name, change));
        let sent = clock.now();
        writer.ask(asked).await?;
        let seen = seen_by_all(&mut arrivals, change, watchers).await?;
        if change > warming {
            latencies.extend(seen.into_iter().map(|arrival| arrival.since(sent).as_secs_f64() * 1e3));
        }
    }
    Ok(latencies)
}

fn body(name: &str, change: usize) -> Vec<u8> {
    Objects::default().config_map(name, None, change)
}

/// When each of the watchers got the event of this change.
async fn seen_by_all(
    arrivals: &mut UnboundedReceiver<(usize, Instant)>,
    change: usize,
    watchers: usize,
) -> Result<Vec<Instant>, Failure> {
    let mut seen = Vec::with_capacity(watchers);
    while seen.len() < watchers {
        let (of, arrival) = arrivals.recv().await.ok_or("all watches ended")?;
        if of != change {
            return Err(format!("an event of change {of} while waiting for {change}").into());
        }
        seen.push(arrival);
    }
    Ok(seen)
}

/// Tells when which event was there, until the watch ends. The connection is held as long.
async fn follow(
    connection: Connection,
    mut body: Incoming,
    clock: Clock,
    arrivals: UnboundedSender<(usize, Instant)>,
) {
    let mut lines = Lines::default();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(bytes) = frame.into_data() else { continue };
        let arrival = clock.now();
        lines.push(&bytes, |line| {
            if let Some(change) = change(line) {
                // Nobody waits for it when the run is over.
                let _ = arrivals.send((change, arrival));
            }
        });
    }
    drop(connection);
}

/// The change that an event of an object tells of.
fn change(line: &[u8]) -> Option<usize> {
    string(line, "web.toml")?.strip_prefix("change=")?.get(..8)?.parse().ok()
}

/// Events come as lines, but not every piece of a body is one.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    fn push(&mut self, mut bytes: &[u8], mut line: impl FnMut(&[u8])) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            if self.0.is_empty() {
                line(&bytes[..end]);
            } else {
                self.0.extend_from_slice(&bytes[..end]);
                line(&self.0);
                self.0.clear();
            }
            bytes = &bytes[end + 1..];
        }
        self.0.extend_from_slice(bytes);
    }
}

/// The value that so many percent are not above.
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
    fn lines_are_put_together_from_pieces() {
        let mut lines = Lines::default();
        let mut push = |text: &str| {
            let mut whole = Vec::new();
            lines.push(text.as_bytes(), |line| whole.push(String::from_utf8_lossy(line).into_owned()));
            whole
        };
        assert_eq!(push("on"), Vec::<String>::new());
        assert_eq!(push("e\ntwo\nthr"), ["one", "two"]);
        assert_eq!(push("ee\n"), ["three"]);
    }

    #[test]
    fn an_event_tells_its_change() {
        let event = [br#"{"type":"MODIFIED","object":"#.to_vec(), body("a", 42), b"}".to_vec()].concat();
        assert_eq!(change(&event), Some(42));
        assert_eq!(change(br#"{"type":"BOOKMARK"}"#), None);
    }
}
