//! `kube::runtime`: watchers and reflectors.

use std::collections::BTreeSet;
use std::future::ready;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, ResourceExt as _};
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{WatchStreamExt as _, reflector};
use serde_json::json;

use crate::{clusters, soon};

async fn create(maps: &Api<ConfigMap>, name: &str) {
    let map = serde_json::from_value(json!({"metadata": {"name": name}})).expect("it is a configmap");
    maps.create(&PostParams::default(), &map).await.expect("it is created");
}

#[tokio::test]
async fn a_watcher_lists_and_then_watches_in_either_way() {
    for cluster in clusters().await {
        let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client.clone());
        for (round, config) in [watcher::Config::default(), watcher::Config::default().streaming_lists()]
            .into_iter()
            .map(|config| config.page_size(2))
            .enumerate()
        {
            for name in ["a", "b", "c"] {
                create(&maps, &format!("{name}-{round}")).await;
            }
            let mut events = watcher(maps.clone(), config).boxed();
            let mut next = async || {
                let event = soon("an event", events.try_next()).await.expect("the watch goes on");
                match event.expect("there is always a next one") {
                    Event::Init => "init".to_owned(),
                    Event::InitApply(map) => format!("init {}", map.name_any()),
                    Event::InitDone => "done".to_owned(),
                    Event::Apply(map) => format!("apply {}", map.name_any()),
                    Event::Delete(map) => format!("delete {}", map.name_any()),
                }
            };
            assert_eq!(next().await, "init");
            for name in ["a", "b", "c"] {
                assert_eq!(next().await, format!("init {name}-{round}"));
            }
            assert_eq!(next().await, "done");
            create(&maps, &format!("d-{round}")).await;
            assert_eq!(next().await, format!("apply d-{round}"));
            let patch = Patch::Merge(json!({"data": {"k": "v"}}));
            maps.patch(&format!("d-{round}"), &PatchParams::default(), &patch).await.expect("it is patched");
            assert_eq!(next().await, format!("apply d-{round}"));
            for name in ["a", "b", "c", "d"] {
                let name = format!("{name}-{round}");
                maps.delete(&name, &DeleteParams::default()).await.expect("it is deleted");
                assert_eq!(next().await, format!("delete {name}"));
            }
        }
    }
}

#[tokio::test]
async fn a_reflector_holds_what_is_there() {
    for cluster in clusters().await {
        let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client.clone());
        create(&maps, "a").await;
        create(&maps, "b").await;
        let (reader, writer) = reflector::store();
        let config = watcher::Config::default().any_semantic();
        let running = reflector(writer, watcher(maps.clone(), config)).default_backoff().applied_objects();
        let names = || reader.state().iter().map(|map| map.name_any()).collect::<BTreeSet<_>>();
        let changing = async {
            reader.wait_until_ready().await.expect("the writer is there");
            assert_eq!(names(), BTreeSet::from(["a".to_owned(), "b".to_owned()]));
            maps.delete("a", &DeleteParams::default()).await.expect("it is deleted");
            create(&maps, "c").await;
            while names() != BTreeSet::from(["b".to_owned(), "c".to_owned()]) {
                tokio::task::yield_now().await;
            }
        };
        let reflecting = running.try_for_each(|_| ready(Ok(())));
        tokio::select! {
            biased;
            () = soon("the new state", changing) => {}
            ended = reflecting => panic!("the reflector ended: {ended:?}"),
        }
    }
}
