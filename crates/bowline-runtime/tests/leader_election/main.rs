//! Leader election on the embedded server, on simulated time: who leads, from when to when, and what the fence lets pass.

mod durations;
mod hooks;
mod stop;
mod takeover;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_apiserver::{ApiServer, Call, Hook, HookFuture, Verb, Verdict};
use bowline_clock::{Clock, Instant, Simulation};
use bowline_machinery::Status;
use bowline_runtime::Metrics;
use bowline_runtime::leader_election::{Elector, LeaderElection, Lost};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};

const SECOND: Duration = Duration::from_secs(1);

/// What the server did with requests about leases, and whether it answers them.
#[derive(Clone, Default)]
struct Server {
    is_away: Arc<AtomicBool>,
    calls: Arc<Mutex<Vec<String>>>,
    /// Updates are not found until the lease is read.
    is_lost: Arc<AtomicBool>,
    /// Writes of config maps take as long as it says.
    write: Arc<Mutex<Option<(Clock, Duration)>>>,
    /// When set, requests may take seconds.
    slow: Arc<Mutex<Option<Clock>>>,
    pace: Arc<Mutex<Option<Pace>>>,
    /// When set, updates are refused like this.
    refusal: Arc<Mutex<Option<Status>>>,
}

/// How long requests of a kind take until they are looked at, and after they were committed.
#[derive(Clone)]
struct Pace {
    clock: Clock,
    verb: Verb,
    before: Duration,
    after: Duration,
}

impl Hook for Server {
    fn before<'a>(&'a self, call: &'a Call) -> HookFuture<'a, Verdict> {
        Box::pin(async move {
            self.calls.lock().expect("nobody panics with it").push(format!("{:?}", call.verb));
            self.dawdle().await;
            if let Some(pace) = self.pace_of(call) {
                pace.clock.sleep(pace.before).await;
            }
            match call.verb {
                Verb::Get => self.is_lost.store(false, Ordering::SeqCst),
                Verb::Update if self.is_lost.load(Ordering::SeqCst) => {
                    return Verdict::Fail(Status::failure(404, "NotFound", "there is no such lease"));
                }
                _ => {}
            }
            let refusal = self.refusal.lock().expect("nobody panics with it").clone();
            if let Some(refusal) = refusal.filter(|_| call.verb == Verb::Update) {
                return Verdict::Fail(refusal);
            }
            let write = self.write.lock().expect("nobody panics with it").clone();
            if let Some((clock, duration)) = write.filter(|_| call.verb == Verb::Create) {
                clock.sleep(duration).await;
            }
            if self.is_away.load(Ordering::SeqCst) {
                return Verdict::Fail(Status::failure(500, "InternalError", "the server is away"));
            }
            Verdict::Proceed
        })
    }

    fn committed<'a>(&'a self, call: &'a Call) -> HookFuture<'a, Verdict> {
        Box::pin(async move {
            self.dawdle().await;
            if let Some(pace) = self.pace_of(call) {
                pace.clock.sleep(pace.after).await;
            }
            Verdict::Proceed
        })
    }
}

impl Server {
    async fn dawdle(&self) {
        let slow = self.slow.lock().expect("nobody panics with it").clone();
        if let Some(clock) = slow.filter(|clock| clock.rng().range(0..3) == 0) {
            clock.sleep(Duration::from_millis(clock.rng().range(0..6900))).await;
        }
    }

    fn pace_of(&self, call: &Call) -> Option<Pace> {
        self.pace.lock().expect("nobody panics with it").clone().filter(|pace| pace.verb == call.verb)
    }

    fn set_pace(&self, clock: &Clock, verb: Verb, before: Duration, after: Duration) {
        *self.pace.lock().expect("nobody panics with it") =
            Some(Pace { clock: clock.clone(), verb, before, after });
    }

    fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.calls.lock().expect("nobody panics with it"))
    }
}

fn world(clock: &Clock) -> (Server, Client) {
    let hook = Server::default();
    let server =
        ApiServer::builder().clock(clock.clone()).hook(hook.clone()).build().expect("defaults are valid");
    (hook, Client::new(server, "default"))
}

fn candidate(client: &Client, clock: &Clock, identity: &str) -> Elector {
    LeaderElection::new("default", "operator")
        .identity(identity)
        .build(client.clone(), clock)
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
        let (server, client) = world(&clock);
        let elector = candidate(&client, &clock, "a");
        let leadership = elector.acquire().await;
        assert!(elector.fence().is_open());
        assert_eq!(server.take_calls(), ["Get", "Create"]);
        assert!(clock.timeout(21 * SECOND, leadership.hold()).await.is_err());
        assert_eq!(server.take_calls(), vec!["Update"; 10]);
        assert_eq!(transitions(&lease(&client).await), Some(0));
    });
}

#[test]
fn another_candidate_takes_over_when_the_lease_was_not_renewed_for_its_duration() {
    Simulation::new(2).run(|clock| async move {
        let (_, client) = world(&clock);
        let (first, second) = (candidate(&client, &clock, "a"), candidate(&client, &clock, "b"));
        let _leadership = first.acquire().await;
        let begun = clock.now();
        let _other = second.acquire().await;
        let waited = clock.now().since(begun);
        assert!((15 * SECOND..=18 * SECOND).contains(&waited), "{waited:?}");
        assert!(!first.fence().is_open(), "two lead at once");
        let lease = lease(&client).await;
        assert_eq!(transitions(&lease), Some(1));
        assert_eq!(second.leader().as_deref(), Some("b"));
    });
}

#[test]
fn a_lease_that_is_given_up_is_taken_at_the_next_try() {
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
fn a_lease_that_is_not_to_be_released_stays() {
    Simulation::new(4).run(|clock| async move {
        let (_, client) = world(&clock);
        let elector = LeaderElection::new("default", "operator")
            .identity("a")
            .release_on_stop(false)
            .build(client.clone(), &clock)
            .unwrap();
        elector.acquire().await.release().await;
        assert_eq!((holder(&client).await.as_deref(), elector.fence().is_open()), (Some("a"), false));
    });
}

#[test]
fn a_leader_that_cannot_renew_gives_up_at_its_deadline_and_says_why() {
    Simulation::new(5).run(|clock| async move {
        let (server, client) = world(&clock);
        let elector = candidate(&client, &clock, "a");
        let leadership = elector.acquire().await;
        let begun = clock.now();
        server.is_away.store(true, Ordering::SeqCst);
        let lost = leadership.hold().await;
        assert_eq!(clock.now(), begun + 10 * SECOND);
        assert!(!elector.fence().is_open());
        let Lost::NotRenewed { election, last, .. } = lost else { panic!("{lost}") };
        assert_eq!(election, "default/operator");
        assert!(last.contains("the server is away"), "{last}");
    });
}

#[test]
fn a_leader_outlives_an_api_server_that_is_away_for_less_than_the_deadline() {
    Simulation::new(6).run(|clock| async move {
        let (server, client) = world(&clock);
        let elector = candidate(&client, &clock, "a");
        let leadership = elector.acquire().await;
        server.is_away.store(true, Ordering::SeqCst);
        assert!(clock.timeout(7 * SECOND, leadership.hold()).await.is_err());
        server.is_away.store(false, Ordering::SeqCst);
        assert!(clock.timeout(60 * SECOND, leadership.hold()).await.is_err());
        assert!(elector.fence().is_open());
    });
}

#[test]
fn a_lease_that_somebody_gave_to_another_by_hand_is_lost_at_once() {
    Simulation::new(7).run(|clock| async move {
        let (_, client) = world(&clock);
        let elector = candidate(&client, &clock, "a");
        let leadership = elector.acquire().await;
        let api: Api<Lease> = Api::namespaced(client.clone(), "default");
        let edit = serde_json::json!({"spec": {"holderIdentity": "by-hand"}});
        api.patch("operator", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
        let begun = clock.now();
        let lost = leadership.hold().await;
        assert_eq!(
            lost,
            Lost::Taken { election: "default/operator".to_owned(), holder: "by-hand".to_owned() }
        );
        assert_eq!(clock.now(), begun + 2 * SECOND);
        assert!(!elector.fence().is_open());
    });
}

#[test]
fn a_lease_that_was_labelled_or_deleted_by_hand_is_kept() {
    Simulation::new(8).run(|clock| async move {
        let (_, client) = world(&clock);
        let elector = candidate(&client, &clock, "a");
        let leadership = elector.acquire().await;
        let api: Api<Lease> = Api::namespaced(client.clone(), "default");
        let edit = serde_json::json!({"metadata": {"labels": {"seen": "yes"}}});
        api.patch("operator", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
        assert!(clock.timeout(5 * SECOND, leadership.hold()).await.is_err());
        api.delete("operator", &DeleteParams::default()).await.unwrap();
        assert!(clock.timeout(15 * SECOND, leadership.hold()).await.is_err());
        assert!(elector.fence().is_open());
    });
}

#[test]
fn new_leaders_are_told_of_once_each() {
    Simulation::new(9).run(|clock| async move {
        let (_, client) = world(&clock);
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let hook = told.clone();
        let (first, second) = (candidate(&client, &clock, "a"), candidate(&client, &clock, "b"));
        let second = second.on_new_leader(move |leader| hook.lock().unwrap().push(leader.to_owned()));
        let _leadership = first.acquire().await;
        let _other = second.acquire().await;
        assert_eq!(*told.lock().unwrap(), ["a", "b"]);
    });
}

#[test]
fn beginning_and_ending_to_lead_is_told_once_each_with_the_fence_open_and_closed() {
    Simulation::new(16).run(|clock| async move {
        let (server, client) = world(&clock);
        let metrics = Metrics::new();
        let status = || {
            metrics.encode().lines().find_map(|line| {
                line.strip_prefix("leader_election_master_status{name=\"operator\"} ").map(str::to_owned)
            })
        };
        let told: Arc<Mutex<Vec<&str>>> = Arc::default();
        let (started, stopped) = (told.clone(), told.clone());
        let elector = candidate(&client, &clock, "a")
            .on_started_leading(move || started.lock().unwrap().push("started"))
            .on_stopped_leading(move || stopped.lock().unwrap().push("stopped"))
            .metrics(&metrics);
        assert_eq!(status().as_deref(), Some("0"));
        let leadership = elector.acquire().await;
        assert_eq!((status().as_deref(), &**told.lock().unwrap()), (Some("1"), &["started"][..]));
        leadership.release().await;
        assert_eq!((status().as_deref(), &**told.lock().unwrap()), (Some("0"), &["started", "stopped"][..]));

        let leadership = elector.acquire().await;
        server.is_away.store(true, Ordering::SeqCst);
        leadership.hold().await;
        leadership.release().await;
        assert_eq!(*told.lock().unwrap(), ["started", "stopped", "started", "stopped"]);
        assert_eq!(status().as_deref(), Some("0"));
    });
}

#[test]
fn who_holds_a_lease_and_neither_renews_it_nor_ends_is_not_healthy() {
    Simulation::new(17).run(|clock| async move {
        let (_, client) = world(&clock);
        let (first, second) = (candidate(&client, &clock, "a"), candidate(&client, &clock, "b"));
        assert_eq!(first.check(5 * SECOND), Ok(()));
        let leadership = first.acquire().await;
        assert!(clock.timeout(60 * SECOND, leadership.hold()).await.is_err());
        assert_eq!(first.check(5 * SECOND), Ok(()), "it renews");
        // Nobody polls it any more.
        clock.sleep(17 * SECOND).await;
        assert_eq!(first.check(5 * SECOND), Ok(()), "it may be about to end");
        clock.sleep(6 * SECOND).await;
        let expired = first.check(5 * SECOND).unwrap_err();
        assert!((23 * SECOND..26 * SECOND).contains(&expired.age), "{expired}");
        assert!(
            expired.to_string().starts_with("the lease default/operator is a's, and was not renewed for ")
        );
        let _other = second.acquire().await;
        assert_eq!(second.check(5 * SECOND), Ok(()));
    });
}

#[test]
fn a_lease_that_was_shortened_by_hand_is_not_taken_while_its_holder_believes_to_have_it() {
    Simulation::new(18).run(|clock| async move {
        let (_, client) = world(&clock);
        let (first, second) = (candidate(&client, &clock, "a"), candidate(&client, &clock, "b"));
        let leadership = first.acquire().await;
        let api: Api<Lease> = Api::namespaced(client.clone(), "default");
        let edit = serde_json::json!({"spec": {"leaseDurationSeconds": 1}});
        api.patch("operator", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
        // Its holder cannot renew it: nobody polls it.
        let _other = second.acquire().await;
        assert!(!first.fence().is_open(), "two lead at once");
        assert!(matches!(leadership.hold().await, Lost::NotRenewed { .. }));
    });
}

#[test]
fn a_duration_that_was_edited_by_hand_is_put_right_by_the_holder() {
    Simulation::new(19).run(|clock| async move {
        let (_, client) = world(&clock);
        let elector = candidate(&client, &clock, "a");
        let leadership = elector.acquire().await;
        let api: Api<Lease> = Api::namespaced(client.clone(), "default");
        let edit = serde_json::json!({"spec": {"leaseDurationSeconds": 100_000}});
        api.patch("operator", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
        assert!(clock.timeout(5 * SECOND, leadership.hold()).await.is_err());
        let spec = lease(&client).await.spec.unwrap();
        assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(15), Some(0)));
    });
}

/// What was logged, line by line.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<u8>>>);

/// What is logged meanwhile.
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
fn a_namespace_that_is_not_there_is_complained_about_once_a_minute_with_a_hint() {
    let logged = logged(|| {
        Simulation::new(20).run(|clock| async move {
            let (server, client) = world(&clock);
            let election = LeaderElection::new("nowhere", "operator").identity("a");
            let elector = election.build(client, &clock).unwrap();
            assert!(clock.timeout(150 * SECOND, elector.acquire()).await.is_err());
            assert!(server.take_calls().len() > 100, "it is tried all the time");
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
fn a_write_that_waits_is_given_up_soon_after_the_fence_was_closed_whatever_was_left_before() {
    Simulation::new(12).run(|clock| async move {
        let (server, client) = world(&clock);
        let elector = candidate(&client, &clock, "a");
        let leadership = elector.acquire().await;
        *server.write.lock().unwrap() = Some((clock.clone(), 8 * SECOND));
        let maps: Api<ConfigMap> = Api::namespaced(elector.fence().client(client.clone()), "default");
        let begun = clock.now();
        // A task of its own: nothing that happens here wakes it.
        let scope = clock.scope("writer");
        let write = scope.spawn("write", create(maps, "late"));
        clock.sleep(3 * SECOND / 2).await;
        leadership.release().await;
        assert!(is_refused(&write.await.unwrap()));
        assert_eq!(clock.now(), begun + 2 * SECOND);
    });
}

#[test]
fn a_write_that_takes_longer_than_the_deadline_is_waited_for_while_the_lease_is_renewed() {
    Simulation::new(13).run(|clock| async move {
        let (server, client) = world(&clock);
        let elector = candidate(&client, &clock, "a");
        let leadership = elector.acquire().await;
        *server.write.lock().unwrap() = Some((clock.clone(), 14 * SECOND));
        let maps: Api<ConfigMap> = Api::namespaced(elector.fence().client(client.clone()), "default");
        let scope = clock.scope("writer");
        let write = scope.spawn("write", create(maps, "slow"));
        assert!(clock.timeout(20 * SECOND, leadership.hold()).await.is_err());
        write.await.unwrap().unwrap();
    });
}

#[test]
fn a_write_of_one_term_does_not_pass_in_the_next() {
    Simulation::new(14).run(|clock| async move {
        let (server, client) = world(&clock);
        let elector = candidate(&client, &clock, "a");
        let leadership = elector.acquire().await;
        *server.write.lock().unwrap() = Some((clock.clone(), 5 * SECOND));
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
fn a_renewal_that_fails_for_whatever_reason_is_followed_by_a_look_at_the_lease() {
    Simulation::new(15).run(|clock| async move {
        let (server, client) = world(&clock);
        let elector = candidate(&client, &clock, "a");
        let leadership = elector.acquire().await;
        server.take_calls();
        server.is_lost.store(true, Ordering::SeqCst);
        assert!(clock.timeout(21 * SECOND, leadership.hold()).await.is_err(), "the lease was lost");
        assert_eq!(server.take_calls()[..4], ["Update", "Get", "Update", "Update"]);
    });
}

#[test]
fn candidates_that_are_not_named_are_different_and_named_after_the_host() {
    let clock = Clock::real();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    let (_, client) = world(&clock);
    let candidate = || LeaderElection::new("default", "operator").build(client.clone(), &clock).unwrap();
    let (first, second) = (candidate(), candidate());
    assert_ne!(first.identity(), second.identity());
    let host = hostname::get().unwrap().into_string().unwrap();
    for candidate in [first, second] {
        let random = candidate.identity().strip_prefix(&format!("{host}_")).unwrap().to_owned();
        assert_eq!(random.len(), 32, "{random}");
    }
}

#[test]
fn of_many_candidates_that_freeze_and_thaw_no_two_have_an_open_fence_at_once() {
    for seed in 0..8 {
        Simulation::new(seed).run(|clock| async move {
            let (server, client) = world(&clock);
            *server.slow.lock().unwrap() = Some(clock.clone());
            let electors: Vec<Arc<Elector>> = (0..3)
                .map(|number| {
                    let election = LeaderElection::new("default", "operator").identity(number.to_string());
                    // With hardly any slack, so that a mistake of seconds shows.
                    Arc::new(election.renew_deadline(14 * SECOND).build(client.clone(), &clock).unwrap())
                })
                .collect();
            let scope = clock.scope("candidates");
            for elector in &electors {
                let (candidate, clock) = (elector.clone(), clock.clone());
                scope.spawn(elector.identity(), async move {
                    loop {
                        let leadership = candidate.acquire().await;
                        let patience = Duration::from_millis(clock.rng().range(1000..30_000));
                        let lost = clock.timeout(patience, leadership.hold()).await;
                        // Frozen, in the middle of whatever it was about to do, or stopped in the ordinary way.
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
