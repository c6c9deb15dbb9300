//! The description of an operator, and the permissions in it.

use std::collections::BTreeSet;

use bowline_runtime::finalizer::{self, Cleanup};
use bowline_runtime::leader_election::LeaderElectionConfig;
use bowline_runtime::{
    Action, ConnectionConfig, Context, Manager, OperatorDescription, Permission, Request, Result, Verb,
    Watch, handler, source,
};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};

use crate::world::World;

async fn by_request(_: Context, _: Request) -> Result<Action> {
    Ok(Action::done())
}

fn lines(permissions: &[Permission]) -> BTreeSet<String> {
    permissions.iter().map(|permission| format!("{permission} | {}", permission.reason)).collect()
}

#[test]
fn declarations_of_controllers_imply_permissions() {
    World::run(1, |world| async move {
        let manager = world.manager();
        let reconciler = finalizer::with_cleanup(
            "example.com/cleanup",
            |_: Context, _: std::sync::Arc<Deployment>| async { Ok::<_, std::io::Error>(Action::done()) },
            |_: Context, _: std::sync::Arc<Deployment>| async { Ok::<_, std::io::Error>(Cleanup::Done) },
        );
        manager
            .controller::<Deployment>()
            .owns::<ReplicaSet>()
            .watches(Watch::new(source::metadata::<Node>(), handler::map(|_: &_| Vec::<Request>::new())))
            .reads::<Secret>()
            .writes::<ConfigMap>([Verb::Apply, Verb::DeleteAllOf])
            .permits(Permission::to::<Pod>([Verb::Create]).subresource("eviction"))
            .register(reconciler.unwrap())
            .unwrap();
        manager.writes::<Pod>([Verb::Delete]);
        let expected = [
            "get, list, watch deployments.apps | controller deployment: watches Deployment",
            "patch, update deployments.apps/status | controller deployment: reconciles Deployment",
            "update deployments.apps/finalizers | controller deployment: reconciles Deployment",
            "patch deployments.apps | controller deployment: writes the finalizer example.com/cleanup",
            "get, list, watch replicasets.apps | controller deployment: watches ReplicaSet",
            "create, patch, update replicasets.apps | controller deployment: owns ReplicaSet",
            "get, list, watch nodes | controller deployment: watches Node",
            "get, list secrets | controller deployment: reads Secret",
            "deletecollection, patch configmaps | controller deployment: writes ConfigMap",
            "create pods/eviction | controller deployment: declares a permission",
            "delete pods | manager: writes Pod",
            "create, patch events.events.k8s.io | events",
        ];
        let expected: BTreeSet<_> = expected.into_iter().map(str::to_owned).collect();
        let permissions = manager.cluster().permissions();
        assert_eq!(lines(&permissions), expected);
        let declared = permissions.iter().filter(|permission| permission.is_declared).count();
        assert_eq!(declared, 4, "what the author declared beside kinds");
    });
}

#[test]
fn a_late_watch_an_election_and_the_installation_of_crds_add_permissions() {
    World::run(1, |world| async move {
        let election = LeaderElectionConfig::new("operators", "games");
        let manager = world.builder().leader_election(election).install_crds(true).build().unwrap();
        let controller = manager.controller::<ConfigMap>().register(by_request).unwrap();
        controller.watch(Watch::new(source::kind::<Secret>(), handler::object())).unwrap();
        let all = lines(&manager.cluster().permissions());
        for expected in [
            "get, list, watch secrets | controller configmap: watches Secret",
            "create leases.coordination.k8s.io in operators | leader election",
            "get, update leases.coordination.k8s.io (games) in operators | leader election",
            "create, get, update customresourcedefinitions.apiextensions.k8s.io | installation of CRDs",
        ] {
            assert!(all.contains(expected), "{expected} is not in {all:#?}");
        }
    });
}

#[test]
fn permissions_of_a_further_cluster_are_its_own() {
    World::run(1, |world| async move {
        let manager = world.manager();
        let hub = manager.add_cluster("hub", manager.connect(world.client.clone()).unwrap()).unwrap();
        let secrets = Watch::new(source::kind::<Secret>().in_cluster(&hub), handler::object());
        manager.controller::<ConfigMap>().watches(secrets).register(by_request).unwrap();
        let description = manager.describe().unwrap();
        let [hub] = &description.clusters[..] else { panic!("one further cluster") };
        assert_eq!(hub.name, "hub");
        assert!(hub.permissions.iter().any(|permission| permission.resource == "secrets"));
        assert!(!description.permissions.iter().any(|permission| permission.resource == "secrets"));
    });
}

#[tokio::test]
async fn a_manager_without_a_connection_describes_and_does_not_start() {
    let scope = bowline_clock::Clock::real().scope("operator");
    let described = std::sync::Arc::new(std::sync::Mutex::new(None));
    let slot = described.clone();
    let manager = Manager::builder(&scope.spawner(), ConnectionConfig::refused())
        .run_instead("describe", |manager| async move {
            *slot.lock().unwrap() = Some(manager.describe()?);
            Ok(())
        })
        .build()
        .unwrap();
    manager.controller::<Deployment>().owns::<ReplicaSet>().register(by_request).unwrap();
    let error = manager.client().get::<Pod>(&bowline_cache::ObjectKey::new("a", "b")).await.unwrap_err();
    assert!(error.to_string().contains("no connection to an API server"), "{error}");
    manager.run().await.unwrap();
    let description: OperatorDescription = described.lock().unwrap().take().expect("it was described");
    let [controller] = &description.controllers[..] else { panic!("one controller") };
    let watched: Vec<_> = controller.watches.iter().map(|watch| watch.source.as_str()).collect();
    assert_eq!((controller.name.as_str(), watched), ("deployment", vec!["Deployment", "ReplicaSet"]));
    let text = serde_json::to_string(&description).unwrap();
    assert_eq!(serde_json::from_str::<OperatorDescription>(&text).unwrap(), description);
}
