//! Selectors, and informers of several namespaces.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_apiserver::Verb;
use bowline_cache::{InformerError, Kind, Namespaces, Selectors, SharedInformer};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::{DeleteParams, PostParams};

use crate::world::{Witness, World, map, refuse};

fn labelled(name: &str, value: &str, app: &str) -> ConfigMap {
    let mut map = map(name, value);
    map.metadata.labels = Some(BTreeMap::from([("app".to_owned(), app.to_owned())]));
    map
}

#[test]
fn an_object_that_leaves_the_selector_is_deleted_and_one_that_enters_is_added() {
    World::run(1, |world| async move {
        let post = PostParams::default();
        let maps = world.maps();
        maps.create(&post, &labelled("a", "1", "web")).await.unwrap();
        maps.create(&post, &labelled("b", "1", "db")).await.unwrap();
        let selectors = Selectors::new().labels("app=web");
        let informer = SharedInformer::builder(&world.spawner(), Kind::typed())
            .selected(world.client.clone(), Namespaces::All, selectors)
            .build()
            .unwrap();
        let (witness, registration) = Witness::of(&informer);
        informer.start();
        assert!(registration.wait_synced().await);
        maps.replace("a", &post, &labelled("a", "2", "db")).await.unwrap();
        maps.replace("b", &post, &labelled("b", "2", "web")).await.unwrap();
        maps.replace("a", &post, &labelled("a", "3", "web")).await.unwrap();
        maps.delete("b", &DeleteParams::default()).await.unwrap();
        world.until("all events arrive", || witness.count() == 5).await;
        let lines = witness.lines();
        assert_eq!(
            (&lines[0], &lines[2..]),
            (&"+a=1*".to_owned(), &["+b=2", "+a=3", "-b=2"].map(String::from)[..])
        );
        assert!(lines[1].starts_with("-a="), "{lines:?}");
        // The same while the watch is down.
        world.gap().await;
        maps.replace("a", &post, &labelled("a", "4", "db")).await.unwrap();
        world.server.compact();
        world.faults.remove_all();
        world.until("the event arrives", || witness.count() == 6).await;
        assert_eq!(witness.lines()[5], "-a=3?");
    });
}

/// Two namespaces, with an object each.
async fn two(world: &World) -> (Api<ConfigMap>, Api<ConfigMap>) {
    let mut namespaces = Vec::new();
    for name in ["one", "two"] {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        Api::all(world.client.clone()).create(&PostParams::default(), &namespace).await.expect("created");
        let maps = Api::<ConfigMap>::namespaced(world.client.clone(), name);
        maps.create(&PostParams::default(), &map(name, "1")).await.expect("created");
        namespaces.push(maps);
    }
    let two = namespaces.pop().expect("two");
    (namespaces.pop().expect("two"), two)
}

fn parts(world: &World, namespaces: Vec<Namespaces>) -> SharedInformer<ConfigMap> {
    let mut builder = SharedInformer::builder(&world.spawner(), Kind::typed());
    for namespaces in namespaces {
        builder = builder.selected(world.client.clone(), namespaces, Selectors::default());
    }
    builder.build().expect("no overlap")
}

fn one(name: &str) -> Namespaces {
    Namespaces::One(name.to_owned())
}

#[test]
fn several_namespaces_are_one_view_and_a_list_of_one_leaves_the_others_alone() {
    World::run(2, |world| async move {
        let (in_one, in_two) = two(&world).await;
        world.create("elsewhere", "1").await;
        let informer = parts(&world, vec![one("one"), one("two")]);
        let (witness, registration) = Witness::of(&informer);
        informer.start();
        assert!(registration.wait_synced().await);
        let mut first = witness.lines();
        first.sort_unstable();
        assert_eq!(first, ["+one=1*", "+two=1*"]);
        witness.forget();

        // The watch of one namespace breaks, and its version expires.
        world.faults.on(Verb::Watch).namespace("one").times(1).fail(refuse(410, "Expired", "too old"));
        assert_eq!(world.faults.watches().namespace("one").close(), 1);
        in_one.delete("one", &DeleteParams::default()).await.unwrap();
        in_one.create(&PostParams::default(), &map("new", "1")).await.unwrap();
        world.clock.sleep(Duration::from_secs(1)).await;
        world.faults.remove_all();
        world.until("the event arrives", || witness.count() == 2).await;
        in_two.replace("two", &PostParams::default(), &map("two", "2")).await.unwrap();
        world.until("the event arrives", || witness.count() == 3).await;
        assert_eq!(witness.lines(), ["-one=1?", "+new=1", "two=1>2"]);
        assert_eq!((informer.stats().lists, informer.stats().relists), (3, 1));
        assert_eq!(informer.indexer().len(), 2);
        assert_eq!(informer.indexer().list_in("two").len(), 1);
    });
}

#[test]
fn the_version_of_several_parts_is_that_of_the_oldest() {
    World::run(3, |world| async move {
        let (in_one, _) = two(&world).await;
        let informer = parts(&world, vec![one("one"), one("two")]);
        informer.start();
        informer.wait_synced().await;
        let before = informer.last_sync_resource_version().unwrap();
        in_one.create(&PostParams::default(), &map("new", "1")).await.unwrap();
        world.until("it is there", || informer.indexer().len() == 3).await;
        assert_eq!(
            informer.last_sync_resource_version().unwrap(),
            before,
            "the other part has heard nothing"
        );
        let now = world.server.revision().to_string();
        world.until("bookmarks came", || informer.last_sync_resource_version().as_ref() == Some(&now)).await;
    });
}

#[test]
fn all_namespaces_but_some() {
    World::run(4, |world| async move {
        let (in_one, in_two) = two(&world).await;
        let but = Namespaces::AllBut(["one".to_owned(), "kube-system".to_owned()].into());
        let informer = parts(&world, vec![but, one("one")]);
        let rest = parts(&world, vec![Namespaces::AllBut(["one".to_owned()].into())]);
        let (witness, _registration) = Witness::of(&rest);
        informer.start();
        rest.start();
        informer.wait_synced().await;
        rest.wait_synced().await;
        in_one.create(&PostParams::default(), &map("new", "1")).await.unwrap();
        in_two.create(&PostParams::default(), &map("new", "1")).await.unwrap();
        world.until("both are there", || informer.indexer().len() == 4).await;
        world.until("it is there", || witness.count() == 2).await;
        assert_eq!(witness.lines(), ["+two=1*", "+new=1"]);
        assert!(rest.indexer().list_in("one").is_empty());
        // Deletions during a stop are found in the right part, and no others.
        let (whole, registration) = Witness::of(&informer);
        assert!(registration.wait_synced().await);
        whole.forget();
        informer.stop().await;
        in_one.delete("one", &DeleteParams::default()).await.unwrap();
        in_two.delete("two", &DeleteParams::default()).await.unwrap();
        informer.start();
        world.until("both are gone", || whole.count() >= 2).await;
        world.clock.sleep(Duration::from_secs(5)).await;
        let mut lines = whole.lines();
        lines.sort_unstable();
        assert_eq!(lines, ["-one=1?", "-two=1?"]);
    });
}

#[test]
fn parts_must_not_overlap() {
    World::run(5, |world| async move {
        let but = |name: &str| Namespaces::AllBut([name.to_owned()].into());
        for (first, second) in [
            (Namespaces::All, one("one")),
            (one("one"), one("one")),
            (but("two"), one("one")),
            (but("one"), but("two")),
        ] {
            let built = SharedInformer::<ConfigMap>::builder(&world.spawner(), Kind::typed())
                .selected(world.client.clone(), first, Selectors::default())
                .selected(world.client.clone(), second, Selectors::default())
                .build();
            assert!(matches!(built, Err(InformerError::Overlap { .. })), "{built:?}");
        }
    });
}
