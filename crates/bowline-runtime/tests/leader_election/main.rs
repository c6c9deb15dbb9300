//! Leader election on the embedded server, on simulated time: terms of leaders, and requests that pass the fence.

mod durations;
mod hooks;
mod stop;
mod takeover;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_apiserver::faults::{Faults, Rule};
use bowline_apiserver::{ApiServer, Verb, Verdict};
use bowline_clock::{Clock, Instant, Simulation};
use bowline_machinery::Status;
use bowline_runtime::Metrics;
use bowline_runtime::leader_election::{LeaderElectionConfig, LeaderElector, LeadershipLost};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};

const SECOND: Duration = Duration::from_secs(1);

/// A server with a fault kit.
fn world(clock: &Clock) -> (Faults, Client) {
    let faults = Faults::new();
    let server =
        ApiServer::builder().clock(clock.clone()).faults(&faults).build().expect("defaults are valid");
    (faults, Client::new(server, "default"))
}

/// The verbs of the requests since this was called last.
fn take_calls(faults: &Faults) -> Vec<String> {
    faults.requests().take().iter().map(|request| format!("{:?}", request.info.verb)).collect()
}

/// From now on the server is away.
fn leave(faults: &Faults) -> Rule {
    faults.all().fail(Status::failure(500, "InternalError", "the server is away"))
}

fn candidate(client: &Client, clock: &Clock, identity: &str) -> LeaderElector {
    LeaderElectionConfig::new("default", "operator")
        .identity(identity)
        .build(clock, client.clone())
        .expect("defaults are valid")
}

async fn holder(client: &Client) -> Option<String> {
    lease(client).await.spec.and_then(|spec| spec.holder_identity)
}

async fn lease(client: &Client) -> Lease {
    Api::namespaced(client.clone(), "default").get("operator").await.expect("there is a lease")
}

fn transitions(lease: &Lease) -> Option<i32> {
    lease.spec.as_ref().and_then(|spec| spec.lease_transitions)
}

#[test]
fn the_first_candidate_leads_and_renews_without_reading() {
    Simulation::new(1).run(|clock| async move {
        let (faults, client) = world(&clock);
        let elector = candidate(&client, &clock, "a");
        let leadership = elector.acquire().await;
        assert!(elector.fence().is_open());
        assert_eq!(take_calls(&faults), ["Get", "Create"]);
        assert!(clock.timeout(21 * SECOND, leadership.renew_until_lost()).await.is_err());
        assert_eq!(take_calls(&faults), vec!["Update"; 10]);
        assert_eq!(transitions(&lease(&client).await), Some(0));
    });
}

#[test]
fn another_candidate_takes_over_after_the_lease_duration_without_a_renewal() {
    Simulation::new(2).run(|clock| async move {
        let (_, client) = world(&clock);
        let (first, second) = (candidate(&client, &clock, "a"), candidate(&client, &clock, "b"));
        let _leadership = first.acquire().await;
        let begun = clock.now();
        let _other = second.acquire().await;
        let waited = clock.now().duration_since(begun);
        assert!((15 * SECOND..=18 * SECOND).contains(&waited), "{waited:?}");
        assert!(!first.fence().is_open(), "two lead at once");
        let lease = lease(&client).await;
        assert_eq!(transitions(&lease), Some(1));
        assert_eq!(second.leader().as_deref(), Some("b"));
    });
}

#[test]
fn a_released_lease_is_taken_at_the_next_attempt() {
    Simulation::new(3).run(|clock| async move {
        let (_, client) = world(&clock);
        let (first, second) = (candidate(&client, &clock, "a"), candidate(&client, &clock, "b"));
        let leadership = first.acquire().await;
        leadership.release().await;
        assert!(!first.fence().is_open());
        let begun = clock.now();
        let _other = second.acquire().await;
        assert_eq!(clock.now(), begun);
    });
}

#[test]
fn a_lease_is_kept_without_release_on_stop() {
    Simulation::new(4).run(|clock| async move {
        let (_, client) = world(&clock);
        let elector = LeaderElectionConfig::new("default", "operator")
            .identity("a")
            .release_on_stop(false)
            .build(&clock, client.clone())
            .unwrap();
        elector.acquire().await.release().await;
        assert_eq!((holder(&client).await.as_deref(), elector.fence().is_open()), (Some("a"), false));
    });
}

#[test]
fn a_leader_that_cannot_renew_stops_at_its_deadline_with_the_reason() {
    Simulation::new(5).run(|clock| async move {
        let (faults, client) = world(&clock);
        let elector = candidate(&client, &clock, "a");
        let leadership = elector.acquire().await;
        let begun = clock.now();
        leave(&faults);
        let lost = leadership.renew_until_lost().await;
        assert_eq!(clock.now(), begun + 10 * SECOND);
        assert!(!elector.fence().is_open());
        let LeadershipLost::NotRenewed { election, last, .. } = lost else { panic!("{lost}") };
        assert_eq!(election, "default/operator");
        assert!(last.contains("the server is away"), "{last}");
    });
}

#[test]
fn a_leader_survives_an_outage_shorter_than_the_deadline() {
    Simulation::new(6).run(|clock| async move {
        let (faults, client) = world(&clock);
        let elector = candidate(&client, &clock, "a");
        let leadership = elector.acquire().await;
        let away = leave(&faults);
        assert!(clock.timeout(7 * SECOND, leadership.renew_until_lost()).await.is_err());
        away.remove();
        assert!(clock.timeout(60 * SECOND, leadership.renew_until_lost()).await.is_err());
        assert!(elector.fence().is_open());
    });
}

#[test]
fn a_lease_reassigned_by_hand_is_lost_at_once() {
    Simulation::new(7).run(|clock| async move {
        let (_, client) = world(&clock);
        let elector = candidate(&client, &clock, "a");
        let leadership = elector.acquire().await;
        let api: Api<Lease> = Api::namespaced(client.clone(), "default");
        let edit = serde_json::json!({"spec": {"holderIdentity": "by-hand"}});
        api.patch("operator", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
        let begun = clock.now();
        let lost = leadership.renew_until_lost().await;
        assert_eq!(
            lost,
            LeadershipLost::Taken { election: "default/operator".to_owned(), holder: "by-hand".to_owned() }
        );
        assert_eq!(clock.now(), begun + 2 * SECOND);
        assert!(!elector.fence().is_open());
    });
}

#[test]
fn a_lease_labelled_or_deleted_by_hand_is_kept() {
    Simulation::new(8).run(|clock| async move {
        let (_, client) = world(&clock);
        let elector = candidate(&client, &clock, "a");
        let leadership = elector.acquire().await;
        let api: Api<Lease> = Api::namespaced(client.clone(), "default");
        let edit = serde_json::json!({"metadata": {"labels": {"seen": "yes"}}});
        api.patch("operator", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
        assert!(clock.timeout(5 * SECOND, leadership.renew_until_lost()).await.is_err());
        api.delete("operator", &DeleteParams::default()).await.unwrap();
        assert!(clock.timeout(15 * SECOND, leadership.renew_until_lost()).await.is_err());
        assert!(elector.fence().is_open());
    });
}

#[test]
fn the_hook_is_called_once_per_new_leader() {
    Simulation::new(9).run(|clock| async move {
        let (_, client) = world(&clock);
        let calls: Arc<Mutex<Vec<String>>> = Arc::default();
        let hook = calls.clone();
        let (first, second) = (candidate(&client, &clock, "a"), candidate(&client, &clock, "b"));
        let second = second.on_new_leader(move |leader| hook.lock().unwrap().push(leader.to_owned()));
        let _leadership = first.acquire().await;
        let _other = second.acquire().await;
        assert_eq!(*calls.lock().unwrap(), ["a", "b"]);
    });
}

#[test]
fn hooks_for_start_and_end_of_a_term_see_an_open_and_a_closed_fence() {
    Simulation::new(16).run(|clock| async move {
        let (faults, client) = world(&clock);
        let metrics = Metrics::new();
        let status = || {
            metrics.encode().lines().find_map(|line| {
                line.strip_prefix("leader_election_master_status{name=\"operator\"} ").map(str::to_owned)
            })
        };
        let calls: Arc<Mutex<Vec<&str>>> = Arc::default();
        let (started, stopped) = (calls.clone(), calls.clone());
        let elector = candidate(&client, &clock, "a")
            .on_started_leading(move || started.lock().unwrap().push("started"))
            .on_stopped_leading(move || stopped.lock().unwrap().push("stopped"))
            .metrics(&metrics);
        assert_eq!(status().as_deref(), Some("0"));
        let leadership = elector.acquire().await;
        assert_eq!((status().as_deref(), &**calls.lock().unwrap()), (Some("1"), &["started"][..]));
        leadership.release().await;
        assert_eq!((status().as_deref(), &**calls.lock().unwrap()), (Some("0"), &["started", "stopped"][..]));

        let leadership = elector.acquire().await;
        leave(&faults);
        leadership.renew_until_lost().await;
        leadership.release().await;
        assert_eq!(*calls.lock().unwrap(), ["started", "stopped", "started", "stopped"]);
        assert_eq!(status().as_deref(), Some("0"));
    });
}

#[test]
fn a_holder_that_neither_renews_nor_ends_is_unhealthy() {
    Simulation::new(17).run(|clock| async move {
        let (_, client) = world(&clock);
        let (first, second) = (candidate(&client, &clock, "a"), candidate(&client, &clock, "b"));
        assert_eq!(first.check(5 * SECOND), Ok(()));
        let leadership = first.acquire().await;
        assert!(clock.timeout(60 * SECOND, leadership.renew_until_lost()).await.is_err());
        assert_eq!(first.check(5 * SECOND), Ok(()), "it renews");
        // The candidate is not polled any more.
        clock.sleep(17 * SECOND).await;
        assert_eq!(first.check(5 * SECOND), Ok(()), "it may be about to end");
        clock.sleep(6 * SECOND).await;
        let expired = first.check(5 * SECOND).unwrap_err();
        assert!((23 * SECOND..26 * SECOND).contains(&expired.age), "{expired}");
        assert!(
            expired
                .to_string()
                .starts_with("the lease default/operator is held by a, which has not renewed it for ")
        );
        let _other = second.acquire().await;
        assert_eq!(second.check(5 * SECOND), Ok(()));
    });
}

#[test]
fn a_lease_shortened_by_hand_is_not_taken_while_its_holder_leads() {
    Simulation::new(18).run(|clock| async move {
        let (_, client) = world(&clock);
        let (first, second) = (candidate(&client, &clock, "a"), candidate(&client, &clock, "b"));
        let leadership = first.acquire().await;
        let api: Api<Lease> = Api::namespaced(client.clone(), "default");
        let edit = serde_json::json!({"spec": {"leaseDurationSeconds": 1}});
        api.patch("operator", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
        // Its holder does not renew it, since it is not polled.
        let _other = second.acquire().await;
        assert!(!first.fence().is_open(), "two lead at once");
        assert!(matches!(leadership.renew_until_lost().await, LeadershipLost::NotRenewed { .. }));
    });
}

#[test]
fn the_holder_corrects_a_duration_edited_by_hand() {
    Simulation::new(19).run(|clock| async move {
        let (_, client) = world(&clock);
        let elector = candidate(&client, &clock, "a");
        let leadership = elector.acquire().await;
        let api: Api<Lease> = Api::namespaced(client.clone(), "default");
        let edit = serde_json::json!({"spec": {"leaseDurationSeconds": 100_000}});
        api.patch("operator", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
        assert!(clock.timeout(5 * SECOND, leadership.renew_until_lost()).await.is_err());
        let spec = lease(&client).await.spec.unwrap();
        assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(15), Some(0)));
    });
}

/// Log output, line by line.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<u8>>>);

/// Runs `work` and returns its log output.
fn logged(work: impl FnOnce()) -> String {
    let logged = Logged::default();
    let writer = logged.clone();
    let lines = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(lines, work);
    let bytes = logged.0.lock().expect("nobody panics with it").clone();
    String::from_utf8(bytes).expect("text is logged")
}

impl io::Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics with it").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_missing_namespace_is_logged_once_a_minute_with_a_hint() {
    let logged = logged(|| {
        Simulation::new(20).run(|clock| async move {
            let (faults, client) = world(&clock);
            let election = LeaderElectionConfig::new("nowhere", "operator").identity("a");
            let elector = election.build(&clock, client).unwrap();
            assert!(clock.timeout(150 * SECOND, elector.acquire()).await.is_err());
            assert!(take_calls(&faults).len() > 100, "it is tried all the time");
        });
    });
    let warnings: Vec<_> = logged.lines().filter(|line| line.contains(" WARN ")).collect();
    assert_eq!(warnings.len(), 3, "{logged}");
    for part in
        ["lease=nowhere/operator", "namespaces \\\"nowhere\\\" not found", "is there such a namespace?"]
    {
        assert!(warnings[0].contains(part), "{part}: {}", warnings[0]);
    }
}

#[test]
fn a_fenced_client_writes_only_while_it_leads() {
    Simulation::new(10).run(|clock| async move {
        let (_, client) = world(&clock);
        let elector = candidate(&client, &clock, "a");
        let maps: Api<ConfigMap> = Api::namespaced(elector.fence().client(client.clone()), "default");
        let map = ConfigMap::default();
        let mut named = map.clone();
        named.metadata.name = Some("first".to_owned());
        let refused = maps.create(&PostParams::default(), &named).await.unwrap_err();
        assert!(format!("{refused:?}").contains("FenceClosed"), "{refused:?}");
        let _leadership = elector.acquire().await;
        maps.create(&PostParams::default(), &named).await.unwrap();
        clock.sleep(10 * SECOND).await;
        assert!(maps.delete("first", &DeleteParams::default()).await.is_err());
        assert!(maps.get("first").await.is_ok(), "reads are not fenced");
    });
}

async fn create(maps: Api<ConfigMap>, name: &'static str) -> kube::Result<ConfigMap> {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    maps.create(&PostParams::default(), &map).await
}

fn is_refused(written: &kube::Result<ConfigMap>) -> bool {
    written.as_ref().is_err_and(|error| format!("{error:?}").contains("FenceClosed"))
}

#[test]
fn a_waiting_write_ends_soon_after_the_fence_closes() {
    Simulation::new(12).run(|clock| async move {
        let (faults, client) = world(&clock);
        let elector = candidate(&client, &clock, "a");
        let leadership = elector.acquire().await;
        faults.on(Verb::Create).delay(8 * SECOND);
        let maps: Api<ConfigMap> = Api::namespaced(elector.fence().client(client.clone()), "default");
        let begun = clock.now();
        // A separate task: nothing else wakes it.
        let scope = clock.scope("writer");
        let write = scope.spawn("write", create(maps, "late"));
        clock.sleep(3 * SECOND / 2).await;
        leadership.release().await;
        assert!(is_refused(&write.await.unwrap()));
        assert_eq!(clock.now(), begun + 2 * SECOND);
    });
}

#[test]
fn a_write_longer_than_the_deadline_completes_while_the_lease_is_renewed() {
    Simulation::new(13).run(|clock| async move {
        let (faults, client) = world(&clock);
        let elector = candidate(&client, &clock, "a");
        let leadership = elector.acquire().await;
        faults.on(Verb::Create).delay(14 * SECOND);
        let maps: Api<ConfigMap> = Api::namespaced(elector.fence().client(client.clone()), "default");
        let scope = clock.scope("writer");
        let write = scope.spawn("write", create(maps, "slow"));
        assert!(clock.timeout(20 * SECOND, leadership.renew_until_lost()).await.is_err());
        write.await.unwrap().unwrap();
    });
}

#[test]
fn a_write_of_one_term_does_not_pass_in_the_next() {
    Simulation::new(14).run(|clock| async move {
        let (faults, client) = world(&clock);
        let elector = candidate(&client, &clock, "a");
        let leadership = elector.acquire().await;
        faults.on(Verb::Create).delay(5 * SECOND);
        let maps: Api<ConfigMap> = Api::namespaced(elector.fence().client(client.clone()), "default");
        let scope = clock.scope("writer");
        let write = scope.spawn("write", create(maps, "late"));
        clock.sleep(SECOND / 2).await;
        leadership.release().await;
        let _leadership = elector.acquire().await;
        assert!(elector.fence().is_open());
        assert!(is_refused(&write.await.unwrap()));
    });
}

#[test]
fn the_lease_is_read_after_any_failed_renewal() {
    Simulation::new(15).run(|clock| async move {
        let (faults, client) = world(&clock);
        let elector = candidate(&client, &clock, "a");
        let leadership = elector.acquire().await;
        let _before = take_calls(&faults);
        // Updates are not found until the lease is read.
        let mut is_lost = true;
        faults.all().decide(move |request| match request.verb {
            Verb::Update if is_lost => {
                Verdict::Fail(Status::failure(404, "NotFound", "there is no such lease"))
            }
            verb => {
                is_lost &= verb != Verb::Get;
                Verdict::Proceed
            }
        });
        assert!(
            clock.timeout(21 * SECOND, leadership.renew_until_lost()).await.is_err(),
            "the lease was lost"
        );
        assert_eq!(take_calls(&faults)[..4], ["Update", "Get", "Update", "Update"]);
    });
}

#[test]
fn default_identities_are_distinct_and_start_with_the_host_name() {
    let clock = Clock::real();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    let (_, client) = world(&clock);
    let candidate =
        || LeaderElectionConfig::new("default", "operator").build(&clock, client.clone()).unwrap();
    let (first, second) = (candidate(), candidate());
    assert_ne!(first.identity(), second.identity());
    let host = hostname::get().unwrap().into_string().unwrap();
    for candidate in [first, second] {
        let random = candidate.identity().strip_prefix(&format!("{host}_")).unwrap().to_owned();
        assert_eq!(random.len(), 32, "{random}");
    }
}

#[test]
fn two_candidates_that_freeze_and_thaw_never_have_an_open_fence_at_once() {
    for seed in 0..8 {
        Simulation::new(seed).run(|clock| async move {
            let (faults, client) = world(&clock);
            // A third of all requests takes seconds before it is done, and a third before it is answered.
            let slow = || faults.all().probability(1.0 / 3.0);
            let timer = clock.clone();
            let dawdle = move |_| timer.sleep(Duration::from_millis(timer.rng().range(0..6900)));
            slow().run(dawdle.clone());
            slow().before_response().run(dawdle);
            let electors: Vec<Arc<LeaderElector>> = (0..3)
                .map(|number| {
                    let election =
                        LeaderElectionConfig::new("default", "operator").identity(number.to_string());
                    // With little slack, so that an error of seconds shows.
                    Arc::new(election.renew_deadline(14 * SECOND).build(&clock, client.clone()).unwrap())
                })
                .collect();
            let scope = clock.scope("candidates");
            for elector in &electors {
                let (candidate, clock) = (elector.clone(), clock.clone());
                scope.spawn(elector.identity(), async move {
                    loop {
                        let leadership = candidate.acquire().await;
                        let patience = Duration::from_millis(clock.rng().range(1000..30_000));
                        let lost = clock.timeout(patience, leadership.renew_until_lost()).await;
                        // Frozen at an arbitrary point, or stopped gracefully.
                        if lost.is_err() && clock.rng().range(0..2) == 0 {
                            leadership.release().await;
                        }
                        clock.sleep(Duration::from_millis(clock.rng().range(0..40_000))).await;
                    }
                });
            }
            let end = clock.now() + 900 * SECOND;
            let mut led = 0;
            while clock.now() < end {
                let open: Vec<_> = electors
                    .iter()
                    .filter(|elector| elector.fence().is_open())
                    .map(|e| e.identity())
                    .collect();
                assert!(open.len() < 2, "seed {seed}: {open:?} at {:?}", clock.now());
                led += open.len();
                clock.sleep(Duration::from_millis(100)).await;
            }
            assert!(led > 500, "seed {seed}: hardly anybody ever led");
            scope.abort();
        });
    }
}

#[test]
fn time_that_counts_suspend_never_goes_back() {
    let clock = Clock::real();
    let first: Instant = clock.now_with_suspend();
    assert!(clock.now_with_suspend() >= first);
}
