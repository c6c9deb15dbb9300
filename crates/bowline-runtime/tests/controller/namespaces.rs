//! Controllers whose cache holds only some namespaces.

use std::sync::Arc;

use bowline_cache::{ALL_OTHER_NAMESPACES, CacheOptions, Kind, KindOptions, ObjectKey, SelectionSettings};
use bowline_runtime::{
    Action, CachedNamespaces, ClientError, Context, Error, ErrorPredicates as _, ReconcileOutcome, Request,
    Result, Watch, handler, ownership::OwnerExt as _, source,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret, Service};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::world::World;

/// The options of `-n default,team`.
fn restricted() -> CacheOptions {
    CacheOptions::new()
        .namespaces([("default", SelectionSettings::new()), ("team", SelectionSettings::new())])
}

async fn create_namespace(world: &World, name: &str) {
    let namespace =
        serde_json::from_value::<Namespace>(json!({"metadata": {"name": name}})).expect("a namespace");
    Api::all(world.client.clone()).create(&PostParams::default(), &namespace).await.expect("created");
}

async fn create_map_in(world: &World, namespace: &str, name: &str) {
    let map = serde_json::from_value::<ConfigMap>(json!({"metadata": {"name": name}})).expect("a config map");
    let maps = Api::namespaced(world.client.clone(), namespace);
    maps.create(&PostParams::default(), &map).await.expect("created");
}

const ELSEWHERE: &str = "get configmaps (v1) elsewhere/a: configmaps (v1) in namespace elsewhere is not cached: the cache \
                         has namespace default, namespace team; cache that namespace too, or read it live";

#[test]
fn a_request_outside_the_cached_namespaces_fails_once_in_each_form_of_a_reconciler() {
    World::run_with(1, restricted(), |world| async move {
        create_namespace(&world, "elsewhere").await;
        create_map_in(&world, "elsewhere", "a").await;
        let by_object = async |_: Context, _: Arc<ConfigMap>| Ok::<_, Error>(Action::done());
        let by_request = async |context: Context, request: Request| {
            context.client().find::<ConfigMap>(request.key()).await?;
            Ok::<_, Error>(Action::done())
        };
        let object = world.cluster.controller::<ConfigMap>().named("object").build(by_object).unwrap();
        let request = world.cluster.controller::<ConfigMap>().named("request").build(by_request).unwrap();
        for controller in [object, request] {
            controller.start().unwrap();
            controller.wait_ready().await.unwrap();
            controller.trigger(Request::new("elsewhere", "a"));
            world.settle().await;
            let mut runs = world.cluster.history().runs();
            runs.retain(|run| &*run.controller == controller.name());
            let outcomes: Vec<_> = runs.into_iter().map(|run| run.outcome).collect();
            assert_eq!(outcomes, [ReconcileOutcome::Terminal(ELSEWHERE.to_owned())], "{}", controller.name());
        }
    });
}

#[test]
fn a_request_that_a_handler_makes_outside_the_cached_namespaces_is_not_retried() {
    World::run_with(2, restricted(), |world| async move {
        create_namespace(&world, "elsewhere").await;
        let elsewhere = handler::map(|secret: &Secret| [Request::new("elsewhere", &secret.name_any())]);
        let controller = world
            .cluster
            .controller::<ConfigMap>()
            .watches(Watch::new(source::kind::<Secret>(), elsewhere))
            .build(async |_: Context, _: Arc<ConfigMap>| Ok::<_, Error>(Action::done()))
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        let secret = serde_json::from_value::<Secret>(json!({"metadata": {"name": "a"}})).unwrap();
        let secrets = Api::default_namespaced(world.client.clone());
        secrets.create(&PostParams::default(), &secret).await.unwrap();
        world.settle().await;
        let line = format!("elsewhere/a: failed for good: {ELSEWHERE} (Secret default/a created)");
        assert_eq!(world.history(), [line]);
    });
}

#[test]
fn a_child_outside_the_cached_namespaces_fails_once() {
    World::run_with(3, restricted(), |world| async move {
        create_namespace(&world, "elsewhere").await;
        let ensure = async |context: Context, _: Request| {
            let map: ConfigMap =
                serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "elsewhere"}}))?;
            context.client().ensure(map, |_| {}).await?;
            Ok::<_, Error>(Action::done())
        };
        let controller = world.cluster.controller::<Secret>();
        let controller =
            controller.watches(Watch::new(source::kind::<ConfigMap>(), handler::object())).build(ensure);
        let controller = controller.unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        controller.trigger(Request::new("default", "parent"));
        world.settle().await;
        let line = format!("default/parent: failed for good: {ELSEWHERE} (manual generic)");
        assert_eq!(world.history(), [line]);
    });
}

#[test]
fn an_error_of_the_caller_that_wraps_it_is_terminal_too() {
    #[derive(Debug, thiserror::Error)]
    #[error("cannot read the settings")]
    struct Wrapped(#[source] ClientError);

    World::run_with(4, restricted(), |world| async move {
        let kind = Kind::<ConfigMap>::typed();
        world.cluster.client().declare(&kind);
        let key = ObjectKey::new("elsewhere", "a");
        let error = world.cluster.client().get::<ConfigMap>(&key).await.unwrap_err();
        assert!(!error.is_retryable());
        assert!(error.is_terminal());
        assert!(Wrapped(error).is_terminal());
        let error = world.cluster.cache().get(&kind, &key).await.unwrap_err();
        assert!(error.is_terminal());
        // Others of the cache may end.
        let error = world.cluster.cache().get(&kind, &ObjectKey::new("", "a")).await.unwrap_err();
        assert!(!error.is_terminal());
    });
}

#[test]
fn a_client_says_which_namespaces_it_reads_from_the_cache() {
    let of_secrets =
        KindOptions::new(Kind::<Secret>::typed()).namespaces([("vault", SelectionSettings::new())]);
    let of_all_others =
        [("vault", SelectionSettings::new().labels("app")), (ALL_OTHER_NAMESPACES, SelectionSettings::new())];
    let of_services = KindOptions::new(Kind::<Service>::typed()).namespaces(of_all_others);
    World::run_with(6, restricted().kind(of_secrets).kind(of_services), |world| async move {
        let client = world.cluster.client();
        let maps = Kind::<ConfigMap>::typed();
        assert_eq!(client.cached_namespaces(&maps), CachedNamespaces::None, "nobody declared it");
        client.declare(&maps);
        let only = |names: &[&str]| CachedNamespaces::Only(names.iter().map(ToString::to_string).collect());
        assert_eq!(client.cached_namespaces(&maps), only(&["default", "team"]));
        assert_eq!(client.cached_namespaces(&maps).to_string(), "default, team");
        assert!(client.cached_namespaces(&maps).contains("team"));
        assert!(!client.cached_namespaces(&maps).contains("elsewhere"));
        assert_eq!(client.live().cached_namespaces(&maps), CachedNamespaces::None);

        client.declare(&Kind::<Secret>::typed());
        assert_eq!(client.cached_namespaces(&Kind::<Secret>::typed()), only(&["vault"]));
        client.declare(&Kind::<Service>::typed());
        assert_eq!(client.cached_namespaces(&Kind::<Service>::typed()), CachedNamespaces::All);
        client.declare(&Kind::<ClusterRole>::typed());
        assert_eq!(client.cached_namespaces(&Kind::<ClusterRole>::typed()), CachedNamespaces::All);
        client.declare(&Kind::packed::<Pod>());
        assert_eq!(client.cached_namespaces(&Kind::<Pod>::typed()), only(&["default", "team"]));
    });
}

/// Lets a cluster role have a config map in each of two namespaces.
async fn spread(context: Context, role: Arc<ClusterRole>) -> Result<Action> {
    for namespace in ["default", "team"] {
        let mut map = role.child::<ConfigMap>(role.name_any())?;
        map.metadata.namespace = Some(namespace.to_owned());
        context.client().ensure(map, |_| {}).await?;
    }
    Ok(Action::done())
}

#[test]
fn a_cluster_scoped_parent_owns_children_in_the_cached_namespaces() {
    World::run_with(5, restricted(), |world| async move {
        create_namespace(&world, "team").await;
        let controller = world.cluster.controller::<ClusterRole>().owns::<ConfigMap>().build(spread);
        let controller = controller.unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        let role = serde_json::from_value(json!({"metadata": {"name": "parent"}})).unwrap();
        let roles = Api::<ClusterRole>::all(world.client.clone());
        roles.create(&PostParams::default(), &role).await.unwrap();
        world.settle().await;
        for namespace in ["default", "team"] {
            let maps = Api::<ConfigMap>::namespaced(world.client.clone(), namespace);
            let first = maps.get("parent").await.expect("it was created");
            maps.delete("parent", &DeleteParams::default()).await.unwrap();
            world.settle().await;
            let second = maps.get("parent").await.expect("it came back");
            assert_ne!(first.metadata.uid, second.metadata.uid);
        }
        let deleted = |namespace: &str| format!("parent: done (ConfigMap {namespace}/parent deleted)");
        let mut history = world.history();
        history.retain(|line| line.contains("deleted"));
        assert_eq!(history, [deleted("default"), deleted("team")]);
        assert!(world.cluster.history().runs().iter().all(|run| !run.outcome.is_failure()));
    });
}
