//! When a leader dies, another one leads: not before the lease expired, and within the documented time.

use std::future::Ready;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_apiserver::faults::Faults;
use bowline_apiserver::{ApiServer, RequestInfo, Verb};
use bowline_clock::{Clock, Instant, Simulation};
use kube::Client;

use crate::{SECOND, candidate};

const LEASE: Duration = Duration::from_secs(15);
const RETRY: Duration = Duration::from_secs(2);
/// Timers have a resolution of a millisecond, and a few of them run one after the other.
const TIMERS: Duration = Duration::from_millis(8);

/// A rule's function that notes when it is called.
fn note(
    clock: &Clock,
    times: &Arc<Mutex<Vec<Instant>>>,
) -> impl Fn(RequestInfo) -> Ready<()> + Send + Sync + 'static {
    let (clock, times) = (clock.clone(), times.clone());
    move |_| {
        times.lock().expect("nobody panics with it").push(clock.now());
        std::future::ready(())
    }
}

/// The times of one takeover.
#[derive(Debug)]
struct Takeover {
    latency: Duration,
    /// From the last renewal until the other candidate observed it.
    unseen: Duration,
    /// From that observation until the other candidate wrote its own name.
    waited: Duration,
    /// From that observation until the other candidate led.
    led: Duration,
}

async fn takeover(clock: Clock) -> Takeover {
    let between = |from: u64, to: u64| Duration::from_millis(clock.rng().range(from..to));
    let latency = between(0, 500);
    let (reads, writes) = (Arc::default(), Arc::default());
    // A read is done and answered after the latency. A write is committed then, and answered as much later.
    let faults = Faults::new();
    faults.all().delay(latency);
    faults.on(Verb::Get).run(note(&clock, &reads));
    faults.writes().before_response().run(note(&clock, &writes));
    faults.writes().before_response().delay(latency);
    let api = ApiServer::builder().clock(clock.clone()).faults(&faults).build();
    let client = Client::new(api.expect("defaults are valid"), "default");
    let (first, second) = (candidate(&client, &clock, "a"), candidate(&client, &clock, "b"));
    let fence = first.fence().clone();
    let (leads, led) = tokio::sync::oneshot::channel();
    let leader = clock.scope("leader");
    leader.spawn("a", async move {
        let leadership = first.acquire().await;
        leads.send(()).expect("the test waits for it");
        leadership.renew_until_lost().await;
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
    let writes = writes.lock().expect("nobody panics with it").clone();
    let [.., renewal, takeover] = writes[..] else { panic!("{writes:?}") };
    let reads = reads.lock().expect("nobody panics with it").clone();
    let seen = reads.into_iter().find(|read| *read > renewal).expect("it looked before it took it");
    Takeover {
        latency,
        unseen: seen.duration_since(renewal),
        waited: takeover.duration_since(seen),
        led: now.duration_since(seen),
    }
}

#[test]
fn another_candidate_leads_soon_after_a_dead_leaders_lease_expired() {
    let mut takeovers = Vec::new();
    for seed in 0..200 {
        let result = Arc::new(Mutex::new(None));
        let slot = result.clone();
        Simulation::new(seed).run(|clock| async move {
            *slot.lock().expect("nobody panics with it") = Some(takeover(clock).await);
        });
        let takeover = result.lock().unwrap().take().unwrap();
        let Takeover { latency, unseen, waited, led } = takeover;
        // It sends its own name only after the lease was unchanged for its duration; sending takes the latency.
        assert!(waited >= LEASE + latency, "seed {seed}: {takeover:?}");
        assert!(unseen <= RETRY * 6 / 5 + latency + TIMERS, "seed {seed}: {takeover:?}");
        // The read that shows the expiry, and the write with its response.
        assert!(led <= LEASE + RETRY / 5 + latency * 3 + TIMERS, "seed {seed}: {takeover:?}");
        takeovers.push(takeover);
    }
    // The bounds are tight: each is nearly reached.
    let early = takeovers.iter().map(|t| t.waited.saturating_sub(LEASE + t.latency)).min().unwrap();
    assert!(early < SECOND / 20, "{early:?}");
    let unseen = takeovers.iter().map(|t| t.unseen.saturating_sub(t.latency)).max().unwrap();
    assert!(unseen > RETRY, "{unseen:?}");
    let late = takeovers.iter().map(|t| t.led.saturating_sub(LEASE + t.latency * 3)).max().unwrap();
    assert!(late > RETRY / 5 * 4 / 5, "{late:?}");
}
