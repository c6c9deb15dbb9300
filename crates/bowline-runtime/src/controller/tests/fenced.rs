//! Nothing that only the leader may write gets past a closed fence, by whichever verb.

use std::io::Error;
use std::sync::Arc;
use std::time::Duration;

use bowline_cache::{Kind, ListQuery, ObjectKey};
use bowline_machinery::LabelSelector;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Resource};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{Website, World, from, map, website};
use crate::error::describe;
use crate::finalizer::{Finalizers, attach, detach};
use crate::leader_election::{FenceClosed, LeaderElectionConfig, LeaderElector};
use crate::ownership::{Claim, ClaimFailure, OwnerExt as _};
use crate::{Action, BoxError, Client, Cluster, Context, ControllerBuilder, Patch, Request};

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

fn elector(world: &World) -> LeaderElector {
    let election = LeaderElectionConfig::new("default", "election").identity("me");
    election.build(&world.clock, world.kube.clone()).expect("it makes sense")
}

/// A cluster with two connections to its server; one of them is fenced.
fn cluster(world: &World, elector: &LeaderElector) -> Cluster {
    let cluster = Cluster::builder(&world.scope.spawner(), world.kube.clone())
        .fenced(elector.fence().client(world.kube.clone()))
        .build()
        .expect("it can be made");
    cluster.start();
    cluster
}

/// The client that a reconciler of config maps has.
async fn client_of(builder: ControllerBuilder<ConfigMap>) -> Client {
    let (sender, mut contexts) = mpsc::unbounded_channel();
    let controller = builder.build(move |context: Context, _: Request| {
        let _ = sender.send(context);
        async { Ok::<_, Error>(Action::done()) }
    });
    let controller = controller.expect("it can be built");
    controller.start().expect("it can be started");
    controller.wait_ready().await.expect("it sees all that there is");
    let context = contexts.recv().await.expect("there is a config map");
    context.client().clone()
}

fn deployment() -> Deployment {
    let pod = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "web"}]},
    });
    from(json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": pod},
    }))
}

fn dynamic(object: &ConfigMap) -> DynamicObject {
    let mut value = serde_json::to_value(object).expect("an object");
    value["apiVersion"] = "v1".into();
    value["kind"] = "ConfigMap".into();
    from(value)
}

/// Makes the test independent of earlier writes.
fn without_version<K: Resource>(mut object: K) -> K {
    object.meta_mut().resource_version = None;
    object
}

fn boxed<T, E: Into<BoxError>>(result: Result<T, E>) -> Result<(), BoxError> {
    result.map(|_| ()).map_err(Into::into)
}

/// Everything that a client can write, by name, each as it came out. They do not build on each other.
async fn every_write(client: &Client) -> Vec<(&'static str, Result<(), BoxError>)> {
    let object = client.live().get::<ConfigMap>(&key("there")).await.expect("it is there");
    let kept = client.live().get::<ConfigMap>(&key("kept")).await.expect("it is there");
    let web = client.live().get::<Deployment>(&key("web")).await.expect("it is there");
    let site = client.get::<Website>(&key("site")).await.expect("it is there");
    let of = client.for_kind(&Kind::dynamic(ApiResource::erase::<ConfigMap>(&()), true));
    let any = dynamic(&object);
    let (mut scaled, mut other, mut with_status) = ((*web).clone(), (*object).clone(), (*web).clone());
    scaled.spec.get_or_insert_default().replicas = Some(3);
    other.data = Some([("a".to_owned(), "b".to_owned())].into());
    with_status.status.get_or_insert_default().observed_generation = Some(7);
    let patch = Patch::merge(&json!({"data": {"c": "d"}})).expect("a patch");
    let (status, size) = (
        Patch::merge(&json!({"status": {"observedGeneration": 8}})).expect("a patch"),
        Patch::merge(&json!({"spec": {"replicas": 4}})).expect("a patch"),
    );
    let deployments = client.typed::<Deployment>();
    let scale = deployments.scale(&key("web")).await.expect("it has one");
    let applied: ConfigMap = from(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied", "namespace": "default"},
    }));
    let applied_status: Deployment = from(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "status": {"observedGeneration": 9},
    }));
    let applied_scale: Value = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 5},
    });
    let finalizers =
        Finalizers::new().register("example.com/all", |_, _: Arc<ConfigMap>| async { Ok::<_, Error>(()) });
    let finalizers = finalizers.expect("a good name");
    let claim =
        Claim::new(&object, LabelSelector::parse("app=orphan").expect("a selector")).expect("an owner");
    let orphans = ListQuery::new().in_namespace("default");
    let orphans = client.live().list::<ConfigMap>(&orphans).await.expect("listed");
    let all =
        ListQuery::new().in_namespace("default").labels(LabelSelector::parse("none=such").expect("one"));
    let maps = || Api::<ConfigMap>::namespaced(client.kube_client().clone(), "default");
    let set =
        |map: &mut ConfigMap| drop(map.data.get_or_insert_default().insert("x".to_owned(), "y".to_owned()));
    vec![
        ("create", boxed(client.create(&map("created")).await)),
        ("create, dynamic", boxed(of.create(&dynamic(&map("dynamic"))).await)),
        ("create, dry run", boxed(client.dry_run().create(&map("dry")).await)),
        (
            "create, wrapped",
            boxed(client.namespaced("default").field_owner("me").live().create(&map("wrapped")).await),
        ),
        ("patch", boxed(client.patch::<ConfigMap>(&key("kept"), &patch).await)),
        ("patch, dynamic", boxed(of.patch(&key("kept"), &patch).await)),
        ("apply", boxed(client.apply(&applied).await)),
        ("apply, forced", boxed(client.apply(&applied).force().await)),
        ("attach", boxed(attach(client, &object, "example.com/one").await)),
        ("detach", boxed(detach(client, &kept, "example.com/kept").await)),
        ("finalizers", boxed(finalizers.run(client, &object).await)),
        ("ensure that is new", boxed(client.ensure(object.child::<ConfigMap>("ensured"), set).await)),
        ("ensure that is there", boxed(client.ensure(map("there"), set).await)),
        ("create_or_update", boxed(client.create_or_update(map("or-update"), set).await)),
        ("create_or_patch", boxed(client.create_or_patch(map("or-patch"), set).await)),
        (
            "claim",
            match claim.claim(client, orphans).await {
                Ok(_) => Ok(()),
                Err(mut error) => match error.errors.pop() {
                    Some((_, ClaimFailure::Client(error))) => Err(error.into()),
                    _ => Err(error.into()),
                },
            },
        ),
        ("update_status", boxed(client.update_status(&site, |status| status.visits += 1).await)),
        ("status().patch", boxed(client.status().patch::<Deployment>(&key("web"), &status).await)),
        ("status().apply", boxed(client.status().apply(&applied_status).force().await)),
        (
            "typed().status().patch",
            boxed(client.typed::<Deployment>().status().patch(&key("web"), &status).await),
        ),
        ("scale update", boxed(deployments.update_subresource(&key("web"), "scale", &scale).await)),
        ("scale patch", boxed(deployments.patch_subresource::<Scale>(&key("web"), "scale", &size).await)),
        (
            "scale apply",
            boxed(deployments.apply_subresource(&key("web"), "scale", &applied_scale, true).await),
        ),
        ("set_replicas", boxed(client.set_replicas::<Deployment>(&key("web"), 6).await)),
        ("evict", boxed(client.evict(&key("pod")).await)),
        ("create_token", boxed(client.create_token(&key("default")).await)),
        ("update", boxed(client.live().update(&without_version(other)).await)),
        ("update, dynamic", boxed(of.update(&without_version(any)).await)),
        ("status().update", boxed(client.status().update(&without_version(with_status)).await)),
        ("update, another kind", boxed(client.update(&without_version(scaled)).await)),
        ("kube create", boxed(maps().create(&PostParams::default(), &map("kube")).await)),
        ("kube delete", boxed(maps().delete("spare", &DeleteParams::default()).await)),
        ("delete_all_of", boxed(client.delete_all_of::<ConfigMap>(&all).await)),
        ("delete_object", boxed(client.delete_object(&kept).await)),
        ("delete", boxed(client.delete::<ConfigMap>(&key("there")).await)),
    ]
}

#[test]
fn an_elected_controller_writes_only_while_its_fence_is_open_and_reads_always() {
    World::run(11, |world| async move {
        let elector = elector(&world);
        let cluster = cluster(&world, &elector);
        let plain = cluster.client();
        for object in [
            json!({"metadata": {"name": "there", "namespace": "default"}}),
            json!({"metadata": {"name": "kept", "namespace": "default", "finalizers": ["example.com/kept"]}}),
            json!({"metadata": {"name": "orphan", "namespace": "default", "labels": {"app": "orphan"}}}),
            json!({"metadata": {"name": "spare", "namespace": "default"}}),
        ] {
            plain.create::<ConfigMap>(&from(object)).await.unwrap();
        }
        plain.create(&deployment()).await.unwrap();
        world.install().await;
        world.settle().await;
        plain.create(&website("site")).await.unwrap();
        let client = client_of(cluster.controller::<ConfigMap>()).await;
        world.writes();

        for (what, result) in Box::pin(every_write(&client)).await {
            let error = result.expect_err(what);
            let text = describe(&*error);
            assert!(text.contains(&FenceClosed.to_string()), "{what}: {text}");
        }
        assert_eq!(world.writes(), [""; 0], "nothing got to the server");
        let all = ListQuery::new().in_namespace("default");
        for reader in [&client, &client.live()] {
            assert!(reader.find::<ConfigMap>(&key("there")).await.unwrap().is_some());
            assert!(!reader.list::<ConfigMap>(&all).await.unwrap().is_empty());
        }
        let maps = Api::<ConfigMap>::namespaced(client.kube_client().clone(), "default");
        maps.get("there").await.unwrap();

        let leadership = elector.acquire().await;
        let written = tokio::select! {
            biased;
            lost = leadership.renew_until_lost() => panic!("{lost}"),
            written = Box::pin(every_write(&client)) => written,
        };
        let sent = world.writes();
        assert!(sent.len() >= written.len(), "{sent:?}");
        for (what, result) in written {
            // An answer of the server is as good as any: the embedded one does not know how to apply, and there are conflicts.
            let text = result.map_err(|error| describe(&*error)).err().unwrap_or_default();
            assert!(!text.contains(&FenceClosed.to_string()), "{what}: {text}");
        }
        leadership.release().await;
        client.create(&map("late")).await.unwrap_err();
    });
}

#[test]
fn a_controller_that_needs_no_leadership_is_behind_no_fence() {
    World::run(12, |world| async move {
        let elector = elector(&world);
        let cluster = cluster(&world, &elector);
        cluster.client().create(&map("there")).await.unwrap();
        let everywhere = cluster.controller::<ConfigMap>().named("everywhere").needs_leadership(false);
        let client = client_of(everywhere).await;
        client.create(&map("a")).await.unwrap();
        Api::<ConfigMap>::default_namespaced(client.kube_client().clone())
            .delete("a", &DeleteParams::default())
            .await
            .unwrap();
        let elected = client_of(cluster.controller::<ConfigMap>().named("elected")).await;
        elected.create(&map("b")).await.unwrap_err();
    });
}

#[test]
fn clients_on_both_sides_of_a_fence_read_what_the_other_wrote() {
    World::run(13, |world| async move {
        let elector = elector(&world);
        let cluster = cluster(&world, &elector);
        let plain = cluster.client();
        plain.create(&map("there")).await.unwrap();
        let client = client_of(cluster.controller::<ConfigMap>()).await;
        assert!(plain.is_cached(&Kind::<ConfigMap>::typed()), "what a controller watches is, for both");
        let _leadership = elector.acquire().await;
        world.faults.events().delay(Duration::from_secs(1));
        client.create(&map("a")).await.unwrap();
        assert!(plain.find::<ConfigMap>(&key("a")).await.unwrap().is_some());
        plain.create(&map("b")).await.unwrap();
        assert!(client.find::<ConfigMap>(&key("b")).await.unwrap().is_some());
    });
}
