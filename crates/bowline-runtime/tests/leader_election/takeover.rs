//! When a leader dies, another one leads: not before the lease ended, and not later than was promised.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_apiserver::{ApiServer, Call, Hook, HookFuture, Verb, Verdict};
use bowline_clock::{Clock, Instant, Simulation};
use kube::Client;

use crate::{SECOND, candidate};

const LEASE: Duration = Duration::from_secs(15);
const RETRY: Duration = Duration::from_secs(2);
/// Timers are no finer than a millisecond, and a few of them come one after the other.
const TIMERS: Duration = Duration::from_millis(8);

/// A server whose requests take some time, and when they were done: a read is answered then, a write is committed then and
/// answered as much later.
#[derive(Clone)]
struct Paced {
    clock: Clock,
    latency: Duration,
    reads: Arc<Mutex<Vec<Instant>>>,
    writes: Arc<Mutex<Vec<Instant>>>,
}

impl Hook for Paced {
    fn before<'a>(&'a self, call: &'a Call) -> HookFuture<'a, Verdict> {
        Box::pin(async move {
            self.clock.sleep(self.latency).await;
            if call.verb == Verb::Get {
                self.reads.lock().expect("nobody panics with it").push(self.clock.now());
            }
            Verdict::Proceed
        })
    }

    fn committed<'a>(&'a self, _: &'a Call) -> HookFuture<'a, Verdict> {
        Box::pin(async move {
            self.writes.lock().expect("nobody panics with it").push(self.clock.now());
            self.clock.sleep(self.latency).await;
            Verdict::Proceed
        })
    }
}

/// How one takeover went.
#[derive(Debug)]
struct Takeover {
    latency: Duration,
    /// From the last renewal until the other one saw it.
    unseen: Duration,
    /// From when the other one saw it until it wrote its own name.
    waited: Duration,
    /// From when the other one saw it until it led.
    led: Duration,
}

async fn takeover(clock: Clock) -> Takeover {
    let between = |from: u64, to: u64| Duration::from_millis(clock.rng().range(from..to));
    let latency = between(0, 500);
    let server = Paced { clock: clock.clone(), latency, reads: Arc::default(), writes: Arc::default() };
    let api = ApiServer::builder().clock(clock.clone()).hook(server.clone()).build();
    let client = Client::new(api.expect("defaults are valid"), "default");
    let (first, second) = (candidate(&client, &clock, "a"), candidate(&client, &clock, "b"));
    let fence = first.fence().clone();
    let (leads, led) = tokio::sync::oneshot::channel();
    let leader = clock.scope("leader");
    leader.spawn("a", async move {
        let leadership = first.acquire().await;
        leads.send(()).expect("somebody waits for it");
        leadership.hold().await;
    });
    led.await.expect("the first one leads");
    let (death, timer) = (between(15_000, 40_000), clock.clone());
    let others = clock.scope("death");
    others.spawn("kill", async move {
        timer.sleep(death).await;
        leader.abort();
    });
    clock.sleep(between(0, 5000)).await;
    let leadership = second.acquire().await;
    let now = clock.now();
    assert!(!fence.is_open(), "two lead at once");
    leadership.abandon();
    let writes = server.writes.lock().expect("nobody panics with it").clone();
    let [.., renewal, takeover] = writes[..] else { panic!("{writes:?}") };
    let reads = server.reads.lock().expect("nobody panics with it").clone();
    let seen = reads.into_iter().find(|read| *read > renewal).expect("it looked before it took it");
    Takeover { latency, unseen: seen.since(renewal), waited: takeover.since(seen), led: now.since(seen) }
}

#[test]
fn another_one_leads_when_the_lease_of_one_that_died_has_ended_and_soon_after() {
    let mut takeovers = Vec::new();
    for seed in 0..200 {
        let result = Arc::new(Mutex::new(None));
        let slot = result.clone();
        Simulation::new(seed).run(|clock| async move {
            *slot.lock().expect("nobody panics with it") = Some(takeover(clock).await);
        });
        let takeover = result.lock().unwrap().take().unwrap();
        let Takeover { latency, unseen, waited, led } = takeover;
        // It sends its own name only when the lease looked the same for its duration; that takes as long as a request.
        assert!(waited >= LEASE + latency, "seed {seed}: {takeover:?}");
        assert!(unseen <= RETRY * 6 / 5 + latency + TIMERS, "seed {seed}: {takeover:?}");
        // The read that shows that it ended, and the write with its answer.
        assert!(led <= LEASE + RETRY / 5 + latency * 3 + TIMERS, "seed {seed}: {takeover:?}");
        takeovers.push(takeover);
    }
    // The bounds are no wider than they must be: each is nearly reached.
    let early = takeovers.iter().map(|t| t.waited.saturating_sub(LEASE + t.latency)).min().unwrap();
    assert!(early < SECOND / 20, "{early:?}");
    let unseen = takeovers.iter().map(|t| t.unseen.saturating_sub(t.latency)).max().unwrap();
    assert!(unseen > RETRY, "{unseen:?}");
    let late = takeovers.iter().map(|t| t.led.saturating_sub(LEASE + t.latency * 3)).max().unwrap();
    assert!(late > RETRY / 5 * 4 / 5, "{late:?}");
}
