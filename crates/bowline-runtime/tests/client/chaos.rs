//! Many writes of all kinds while the watch is late and breaks: reads from the cache equal the server's state.

use std::time::Duration;

use bowline_cache::{CacheOptions, Kind, KindOptions, ListQuery, SelectionSettings};
use bowline_machinery::LabelSelector;
use bowline_runtime::{Client, ClientError, Patch};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use serde_json::json;

use crate::world::{World, key, labelled, map};

const NAMES: [&str; 3] = ["a", "b", "c"];
const STEPS: u64 = 60;

/// Performs one write, if the current state permits it.
async fn write(client: &Client, draw: &mut impl FnMut(u64) -> u64) -> Result<String, ClientError> {
    let name = NAMES[usize::try_from(draw(3)).expect("small")];
    let now = client.live().find::<ConfigMap>(&key(name)).await?;
    let label = if draw(2) == 0 { "web" } else { "other" };
    let Some(now) = now else {
        let mut object = labelled(name, label);
        if draw(3) == 0 {
            object.metadata.finalizers = Some(vec!["example.com/keep".to_owned()]);
        }
        client.create(&object).await?;
        return Ok(format!("created {name} {label}"));
    };
    let did = match draw(8) {
        0 => {
            let patch = Patch::merge(&json!({"metadata": {"labels": {"app": label}}})).expect("a patch");
            client.patch::<ConfigMap>(&key(name), &patch).await?;
            "labelled"
        }
        1 => {
            let mut object = (*now).clone();
            object.data = map(name, &draw(1000).to_string()).data;
            client.update(&object).await?;
            "updated"
        }
        2 => {
            client.update(&*now).await?;
            "not changed"
        }
        3 => {
            client.delete::<ConfigMap>(&key(name)).await?;
            "deleted"
        }
        4 => {
            client.delete_object(&*now).await?;
            "deleted by uid"
        }
        5 => {
            let labels = LabelSelector::parse(&format!("app={label}")).expect("a selector");
            client
                .delete_all_of::<ConfigMap>(&ListQuery::new().in_namespace("default").labels(labels))
                .await?;
            "deleted with others"
        }
        6 => {
            let patch = Patch::merge(&json!({"metadata": {"finalizers": null}})).expect("a patch");
            client.patch::<ConfigMap>(&key(name), &patch).await?;
            "freed"
        }
        _ => {
            let mut stale = (*now).clone();
            stale.metadata.resource_version = Some("1".to_owned());
            assert!(client.update(&stale).await.is_err_and(|error| error.is_conflict()));
            "refused"
        }
    };
    Ok(format!("{did} {name} {label}"))
}

fn version(object: &ConfigMap) -> (String, Option<String>) {
    (object.name_any(), object.resource_version())
}

#[test]
fn what_is_read_is_what_the_server_has_under_a_bad_watch() {
    for seed in 0..25 {
        World::run_with(seed, |world| async move {
            let kind = KindOptions::new(Kind::<ConfigMap>::typed())
                .settings(SelectionSettings::new().labels("app=web"));
            let cluster = world.cached(|builder| builder.cache(CacheOptions::new().kind(kind))).await;
            let client = cluster.client();
            let rng = world.clock.rng().clone();
            let mut draw = move |below: u64| rng.range(0..below);
            let mut done = Vec::new();
            for _ in 0..STEPS {
                world.delay(Duration::from_millis(draw(4) * 50));
                if draw(10) == 0 {
                    world.cut(1);
                }
                done.push(write(client, &mut draw).await.unwrap());
                let web = |object: &ConfigMap| object.labels().get("app").is_some_and(|app| app == "web");
                let truth =
                    client.live().list::<ConfigMap>(&ListQuery::new().in_namespace("default")).await.unwrap();
                let truth: Vec<_> =
                    truth.iter().filter(|object| web(object)).map(|object| version(object)).collect();
                if draw(3) == 0 {
                    let read = client.list::<ConfigMap>(&ListQuery::new()).await.unwrap();
                    let read: Vec<_> = read.iter().map(|object| version(object)).collect();
                    assert_eq!(read, truth, "seed {seed}: {done:#?}");
                } else if draw(3) > 0 {
                    let name = NAMES[usize::try_from(draw(3)).unwrap()];
                    let read = client.find::<ConfigMap>(&key(name)).await.unwrap();
                    let expected = truth.iter().find(|(known, _)| known == name);
                    assert_eq!(
                        read.map(|object| version(&object)).as_ref(),
                        expected,
                        "seed {seed}: {done:#?}"
                    );
                }
            }
        });
    }
}
