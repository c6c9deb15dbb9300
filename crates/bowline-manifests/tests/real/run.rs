//! The operator as its service account, from its start to its stop.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bowline_cache::{CacheOptions, SelectionSettings};
use bowline_clock::Task;
use bowline_runtime::leader_election::LeaderElectionConfig;
use bowline_runtime::{Manager, ManagerError};
use http::{Request, StatusCode};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::DeleteParams;
use kube::client::Body;

use crate::arm::{Arm, PATIENCE};
use crate::installation::{Installation, Mode};
use crate::operator::{Game, operator};
use crate::roles::{self, BoundRule};
use crate::tasks::{GAME, Tasks, create_game};

/// Requests that were answered with 403, as method and path.
#[derive(Clone, Debug, Default)]
struct Forbidden(Arc<Mutex<Vec<String>>>);

impl Forbidden {
    fn lines(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().expect("no holder panics")
    }
}

/// An operator that runs as its service account.
struct Run {
    manager: Manager,
    task: Task<Result<(), ManagerError>>,
    forbidden: Forbidden,
}

impl Run {
    /// Starts the operator with the arguments of its deployment.
    async fn start(arm: &Arm, installation: &Installation) -> Self {
        let Installation { name, namespace, vault, .. } = installation;
        let forbidden = Forbidden::default();
        let client = recorded(arm.client_of(namespace, name).await, &forbidden);
        let lease = installation.argument("--leader-election-id").expect("there is an election");
        // Shorter than the defaults, because a real server runs in real time.
        let election = LeaderElectionConfig::new(namespace, lease).retry_period(Duration::from_millis(500));
        let namespaces = installation.argument("--namespace");
        let namespaces: Vec<_> = namespaces.iter().flat_map(|it| it.split(',')).map(str::to_owned).collect();
        let namespaces = namespaces.into_iter().map(|namespace| (namespace, SelectionSettings::new()));
        let cache = CacheOptions::new().namespaces(namespaces);
        let manager = Manager::builder(&arm.spawner(), client)
            .cluster(|cluster| cluster.cache(cache))
            .leader_election(election)
            .build()
            .expect("the options are valid");
        operator(&manager, vault).expect("the operator is valid");
        let running = manager.clone();
        let task = arm.spawner().spawn("operator", async move { running.run().await });
        Self { manager, task, forbidden }
    }

    /// Stops it as a signal would.
    async fn stop(self) -> Vec<String> {
        self.manager.request_stop();
        self.task.await.expect("it is not aborted").expect("it stops");
        std::mem::take(&mut *self.forbidden.lines())
    }
}

/// A client that records the requests which the server forbids.
fn recorded(client: Client, forbidden: &Forbidden) -> Client {
    let forbidden = forbidden.clone();
    let send = move |request: Request<Body>| {
        let (client, forbidden) = (client.clone(), forbidden.clone());
        async move {
            let line = format!("{} {}", request.method(), request.uri().path());
            let response = client.send(request).await?;
            if response.status() == StatusCode::FORBIDDEN {
                forbidden.lines().push(line);
            }
            Ok::<_, kube::Error>(response)
        }
    };
    Client::new(tower::service_fn(send), "default")
}

/// Installs the operator, and runs it over the life of its objects.
async fn lives_with_its_roles(arm: Arm, mode: Mode) {
    let installation = Installation::new(&arm, mode).await;
    installation.apply(&arm).await;
    roles::wait_allowed(&arm, &installation).await;
    let elsewhere = arm.new_namespace().await;
    let namespaces = match mode {
        Mode::All => vec![elsewhere.clone()],
        Mode::Limited => installation.namespaces.clone(),
    };

    let run = Run::start(&arm, &installation).await;
    let tasks = Tasks::create(&arm, &namespaces).await;
    let is_done = async || tasks.open(&arm).await.is_empty().then_some(());
    let done = arm.within(PATIENCE, is_done).await;
    assert!(done.is_some(), "not done: {:?}; {:?}", tasks.open(&arm).await, run.forbidden);
    let lease = installation.argument("--leader-election-id").expect("there is an election");
    let holder = async || {
        let lease = arm.find::<Lease>(&installation.namespace, &lease).await.expect("there is one");
        lease.spec.and_then(|spec| spec.holder_identity).filter(|holder| !holder.is_empty())
    };
    assert!(holder().await.is_some(), "it leads");
    if mode == Mode::Limited {
        create_game(&arm, &elsewhere).await;
    }
    tasks.delete(&arm).await;
    let is_clean = async || tasks.left(&arm).await.is_empty().then_some(());
    let clean = arm.within(PATIENCE, is_clean).await;
    assert!(clean.is_some(), "left: {:?}; {:?}", tasks.left(&arm).await, run.forbidden);
    if mode == Mode::Limited {
        let game = arm.find::<Game>(&elsewhere, GAME).await.expect("it stays");
        assert_eq!((game.status, game.metadata.finalizers), (None, None), "it works in its namespaces only");
        arm.api::<Game>(&elsewhere).delete(GAME, &DeleteParams::default()).await.expect("deleted");
    }
    let forbidden = run.stop().await;
    assert_eq!(forbidden, [""; 0]);
    assert_eq!(holder().await, None, "the lease is released");
}

#[test]
fn an_operator_for_all_namespaces_lives_with_its_roles() {
    Arm::run(|arm| lives_with_its_roles(arm, Mode::All));
}

#[test]
fn an_operator_limited_to_namespaces_lives_with_its_roles() {
    Arm::run(|arm| lives_with_its_roles(arm, Mode::Limited));
}

/// Whether the operator of these tests needs a rule on this server, which has neither the admission plugin
/// `OwnerReferencesPermissionEnforcement` nor a reader of metrics.
fn is_used(rule: &BoundRule) -> bool {
    let is_unused = |resource: &&str| resource.ends_with("/finalizers") || resource.ends_with("reviews");
    !rule.resources().iter().all(is_unused)
}

/// Installs the operator without one of its rules, and runs it until the server forbids something.
async fn is_refused_without(arm: &Arm, mode: Mode, number: usize) {
    let installation = Installation::new(arm, mode).await;
    installation.apply(arm).await;
    roles::wait_allowed(arm, &installation).await;
    let rule = BoundRule::all(&installation).swap_remove(number);
    rule.remove(arm, &installation).await;

    let run = Run::start(arm, &installation).await;
    let namespaces = match mode {
        Mode::All => vec![arm.new_namespace().await],
        Mode::Limited => installation.namespaces.clone(),
    };
    let tasks = Tasks::create(arm, &namespaces).await;
    let is_refused = async || (!run.forbidden.lines().is_empty()).then_some(());
    arm.until(&format!("a refusal without {rule:?}"), is_refused).await;
    assert_ne!(tasks.open(arm).await, [""; 0]);
    let forbidden = run.stop().await;
    tasks.abandon(arm).await;

    let place = rule.namespace().map(|namespace| format!("/namespaces/{namespace}/")).unwrap_or_default();
    let resources = rule.resources();
    let plurals: Vec<_> = resources.iter().filter_map(|resource| resource.split('/').next()).collect();
    let is_of_rule = |line: &String| {
        line.contains(&place) && plurals.iter().any(|plural| line.contains(&format!("/{plural}")))
    };
    assert!(forbidden.iter().all(is_of_rule), "without {rule:?}: {forbidden:?}");
}

async fn needs_each_rule(arm: Arm, mode: Mode) {
    let rules = BoundRule::all(&Installation::new(&arm, mode).await);
    let used: Vec<_> = (0..rules.len()).filter(|number| is_used(&rules[*number])).collect();
    assert!(used.len() >= 8, "{rules:?}");
    for number in used {
        is_refused_without(&arm, mode, number).await;
    }
}

#[test]
fn without_any_one_of_its_rules_an_operator_for_all_namespaces_is_refused() {
    Arm::run_if_real(|arm| needs_each_rule(arm, Mode::All));
}

#[test]
fn without_any_one_of_its_rules_an_operator_limited_to_namespaces_is_refused() {
    Arm::run_if_real(|arm| needs_each_rule(arm, Mode::Limited));
}
