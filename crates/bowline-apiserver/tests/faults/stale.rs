//! Reads as of an earlier revision.

use bowline_apiserver::Verb;
use bowline_apiserver::faults::StaleRead;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, VersionMatch};
use kube::core::{ApiResource, GroupVersionKind};

use super::*;

async fn value(world: &World, name: &str) -> Option<String> {
    let map = world.maps().get_opt(name).await.expect("read")?;
    Some(map.data.and_then(|data| data.get("value").cloned()).unwrap_or_default())
}

#[test]
fn reads_stay_at_the_moment_when_the_rule_was_set() {
    World::run(1, async |world| {
        world.create("a").await;
        world.touch("a", "1").await;
        world.create("gone").await;
        let stale = world.faults.reads().resource("configmaps").stale(StaleRead::Now);
        let then = world.server.revision();
        world.touch("a", "2").await;
        world.delete("gone").await;
        world.create("new").await;
        assert_eq!(value(&world, "a").await.as_deref(), Some("1"));
        assert_eq!((world.get("gone").await, world.get("new").await), (Some(200), Some(404)));
        let list = world.maps().list(&ListParams::default()).await.expect("listed");
        assert_eq!(list.metadata.resource_version, Some(then.to_string()));
        assert_eq!(world.names().await, ["a", "gone"]);
        assert_eq!(stale.applied(), 5);
        let secrets: Api<k8s_openapi::api::core::v1::Secret> = Api::default_namespaced(world.client.clone());
        let list = secrets.list(&ListParams::default()).await.expect("listed");
        assert_eq!(
            list.metadata.resource_version,
            Some(world.server.revision().to_string()),
            "others are fresh"
        );
        stale.remove();
        assert_eq!(value(&world, "a").await.as_deref(), Some("2"));
        assert_eq!(world.names().await, ["a", "new"]);
    });
}

#[test]
fn reads_can_be_at_a_revision_or_some_commits_behind() {
    World::run(1, async |world| {
        world.create("a").await;
        let created = world.server.revision();
        for value in ["1", "2", "3"] {
            world.touch("a", value).await;
        }
        let fixed = world.faults.on(Verb::Get).stale(StaleRead::Revision(created + 1));
        assert_eq!(value(&world, "a").await.as_deref(), Some("1"));
        fixed.remove();
        let behind = world.faults.reads().stale(StaleRead::Behind(1));
        assert_eq!(value(&world, "a").await.as_deref(), Some("2"));
        world.touch("a", "4").await;
        assert_eq!(value(&world, "a").await.as_deref(), Some("3"), "it moves along");
        // A key with the object's key as its prefix is another object.
        behind.remove();
        world.create("ab").await;
        world.faults.reads().stale(StaleRead::Behind(0));
        assert_eq!(value(&world, "ab").await.as_deref(), Some(""));
        assert_eq!(world.get("aba").await, Some(404));
    });
}

#[test]
fn writes_see_the_newest_state() {
    World::run(1, async |world| {
        world.create("a").await;
        world.faults.reads().stale(StaleRead::Now);
        world.touch("a", "1").await;
        let old = world.maps().get("a").await.expect("read");
        assert_eq!(code(world.maps().replace("a", &PostParams::default(), &old).await), Some(409));
        assert_eq!(world.create("a").await, Some(409));
    });
}

#[test]
fn all_pages_of_a_list_are_of_one_stale_revision_and_a_newer_one_is_a_timeout() {
    World::run(1, async |world| {
        for name in ["a", "b", "c"] {
            world.create(name).await;
        }
        world.faults.reads().stale(StaleRead::Now);
        world.create("d").await;
        let page = world.maps().list(&ListParams::default().limit(2)).await.expect("the first page");
        let token = page.metadata.continue_.expect("there is more");
        let rest = world.maps().list(&ListParams::default().continue_token(&token)).await.expect("the rest");
        assert_eq!(rest.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["c"]);

        let newest = world.server.revision().to_string();
        let at_least = ListParams::default().at(&newest).matching(VersionMatch::NotOlderThan);
        assert_eq!(code(world.maps().list(&at_least).await), Some(504));
        let exactly = ListParams::default().at(&newest).matching(VersionMatch::Exact);
        assert_eq!(world.maps().list(&exactly).await.expect("listed").items.len(), 4);
    });
}

#[test]
fn a_revision_that_history_does_not_have_is_an_error_that_says_so() {
    World::run(1, async |world| {
        let before = world.server.revision();
        let definition: CustomResourceDefinition = serde_json::from_value(json!({
            "metadata": {"name": "foos.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "foos", "singular": "foo", "kind": "Foo"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
            },
        }))
        .expect("a definition");
        let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
        definitions.create(&PostParams::default(), &definition).await.expect("created");
        world.faults.reads().kind("Foo").stale(StaleRead::Revision(before));
        let foo = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Foo"));
        let foos: Api<DynamicObject> = Api::default_namespaced_with(world.client.clone(), &foo);
        for error in [
            foos.get("a").await.map(drop).expect_err("not there yet"),
            foos.list(&ListParams::default()).await.map(drop).expect_err("not there yet"),
        ] {
            let text = error.to_string();
            assert!(text.contains("a stale read is not possible: revision"), "{text}");
        }
    });
}
