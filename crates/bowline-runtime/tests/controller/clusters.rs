//! Controllers that watch several clusters: requests say which one their object is in.

use std::sync::{Arc, Mutex};

use bowline_apiserver::ApiServer;
use bowline_runtime::handler::Requests;
use bowline_runtime::{
    Action, BuildError, Change, Cluster, ClusterName, Context, ControllerError, Error, Request, Watch,
    handler, source,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::PostParams;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::world::{Notes, World, nothing};

/// A server of its own, and a cluster on it that is started.
fn another(world: &World, name: &str) -> (Cluster, Client) {
    let server = ApiServer::builder().clock(world.clock.clone()).build().expect("it can be built");
    let client = Client::new(server, "default");
    let cluster = Cluster::builder(&world.scope().spawner(), client.clone()).named(name).build();
    let cluster = cluster.expect("it can be made");
    cluster.start();
    (cluster, client)
}

async fn create<K>(client: &Client, object: Value)
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned,
{
    let object = serde_json::from_value(object).expect("an object");
    Api::<K>::default_namespaced(client.clone())
        .create(&PostParams::default(), &object)
        .await
        .expect("created");
}

fn sorted(notes: &Notes) -> Vec<String> {
    let mut requests = notes.requests();
    requests.sort();
    requests
}

#[test]
fn objects_of_one_name_in_three_clusters_are_reconciled_and_retried_apart() {
    World::run(1, |world| async move {
        let ((hub, on_hub), (edge, on_edge)) = (another(&world, "hub"), another(&world, "edge"));
        for client in [&world.client, &on_hub, &on_edge] {
            create::<ConfigMap>(client, json!({"metadata": {"name": "a"}})).await;
        }
        let notes = Notes::default();
        let written = notes.clone();
        let watch = |cluster| Watch::new(source::kind::<ConfigMap>().in_cluster(cluster), handler::object());
        let controller = world
            .cluster
            .controller::<ConfigMap>()
            .watches(watch(&hub))
            .watches(watch(&edge))
            .build(move |context: Context, request: Request| {
                written.write(&context, &request);
                let is_hub = request.cluster().map(ClusterName::as_str) == Some("hub");
                let fails = is_hub && context.attempt() == 1;
                async move { if fails { Err(Error::message("once")) } else { Ok(Action::done()) } }
            })
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.settle().await;
        let requests = ["default/a", "default/a@edge", "default/a@hub", "default/a@hub"];
        assert_eq!(sorted(&notes), requests, "one of them failed once");
        assert_eq!(controller.watches(), ["ConfigMap", "ConfigMap@hub", "ConfigMap@edge"]);
        let runs = world.history();
        assert!(runs.contains(&"default/a@edge: done (ConfigMap@edge initial)".to_owned()), "{runs:?}");
    });
}

#[test]
fn an_owner_is_looked_for_where_its_object_is_and_other_handlers_choose() {
    World::run(2, |world| async move {
        let (hub, on_hub) = another(&world, "hub");
        let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "1", "controller": true}]);
        create::<Secret>(&on_hub, json!({"metadata": {"name": "s", "ownerReferences": owner}})).await;
        let notes = Notes::default();
        let written = notes.clone();
        let secrets = || source::kind::<Secret>().in_cluster(&hub);
        let both = |_: &Change<'_, Secret>, requests: &mut Requests<'_>| {
            requests.add(Request::new("default", "chosen").in_cluster(requests.cluster().cloned()));
            requests.add(Request::new("default", "chosen"));
        };
        let controller = world
            .cluster
            .controller::<ConfigMap>()
            .watches(Watch::new(secrets(), handler::owner::<ConfigMap>()))
            .watches(Watch::new(secrets(), handler::map(|_: &Secret| [Request::new("default", "at-home")])))
            .watches(Watch::new(secrets(), both))
            .build(move |context: Context, request: Request| {
                written.write(&context, &request);
                async { Ok::<_, Error>(Action::done()) }
            })
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.settle().await;
        let requests = ["default/at-home", "default/chosen", "default/chosen@hub", "default/owner@hub"];
        assert_eq!(sorted(&notes), requests);
    });
}

#[test]
fn the_name_of_its_own_cluster_is_no_other_request() {
    World::run(3, |world| async move {
        let (hub, on_hub) = another(&world, "hub");
        create::<ConfigMap>(&on_hub, json!({"metadata": {"name": "a"}})).await;
        let notes = Notes::default();
        let written = notes.clone();
        let there = || Request::new("default", "a").in_cluster(hub.name().cloned());
        let by_map = there();
        let by_function = there();
        let functions = source::function("function", move |mut sink: source::Sink<ConfigMap>| {
            let request = by_function.clone();
            async move { sink.request(request) }
        });
        let controller = hub
            .controller::<ConfigMap>()
            .watches(Watch::new(source::kind::<ConfigMap>().in_cluster(&hub), handler::object()))
            .watches(Watch::new(
                source::kind::<ConfigMap>(),
                handler::map(move |_: &ConfigMap| [by_map.clone()]),
            ))
            .watches(Watch::new(functions, handler::object()))
            .build(move |context: Context, request: Request| {
                written.write(&context, &request);
                async { Ok::<_, Error>(Action::done()) }
            })
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        controller.trigger(there());
        world.settle().await;
        assert!(notes.len() > 0 && notes.requests().iter().all(|request| request == "default/a"));
    });
}

#[test]
fn a_cluster_without_a_name_of_its_own_is_watched_only_by_its_own_controllers() {
    World::run(4, |world| async move {
        let unnamed = Cluster::new(&world.scope().spawner(), world.client.clone()).unwrap();
        let (hub, _) = another(&world, "hub");
        let (same, _) = another(&world, "hub");
        let watch =
            |cluster: &Cluster| Watch::new(source::kind::<Secret>().in_cluster(cluster), handler::object());
        for (home, other) in [(&world.cluster, &unnamed), (&hub, &same)] {
            let error = home.controller::<ConfigMap>().watches(watch(other)).build(nothing).unwrap_err();
            assert!(matches!(error, BuildError::ClusterUnnamed { .. }), "{error}");
            assert!(error.to_string().contains("`ClusterBuilder::named`"), "{error}");
            let controller = home.controller::<ConfigMap>().build(nothing).unwrap();
            let error = controller.watch(watch(other)).unwrap_err();
            assert!(matches!(error, ControllerError::ClusterUnnamed { .. }), "{error}");
            controller.watch(watch(home)).unwrap();
        }
    });
}

#[test]
fn a_reconciler_of_objects_does_not_take_one_cluster_for_another() {
    World::run(5, |world| async move {
        let (hub, on_hub) = another(&world, "hub");
        for client in [&world.client, &on_hub] {
            create::<ConfigMap>(client, json!({"metadata": {"name": "a"}})).await;
        }
        let calls = Arc::new(Mutex::new(0));
        let counted = calls.clone();
        let controller = world
            .cluster
            .controller::<ConfigMap>()
            .watches(Watch::new(source::kind::<ConfigMap>().in_cluster(&hub), handler::object()))
            .build(move |_: Context, _: Arc<ConfigMap>| {
                *counted.lock().unwrap() += 1;
                async { Ok::<_, Error>(Action::done()) }
            })
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.settle().await;
        assert_eq!(*calls.lock().unwrap(), 1);
        let runs = world.history();
        let there = runs.iter().find(|run| run.starts_with("default/a@hub: failed for good")).unwrap();
        assert!(there.contains("use a reconciler of requests"), "{there}");
    });
}
