//! Tests of managedFields with a fake server, since the embedded server does not keep them.

use std::time::Duration;

use bowline_cache::{CacheOptions, InformerCache, Kind, KindOptions, SelectionSettings};
use bowline_clock::Simulation;
use bytes::Bytes;
use futures::StreamExt as _;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::{Client, ResourceExt as _};
use serde_json::json;

/// A client of a server that answers every watch with one config map with managedFields.
fn client() -> Client {
    let service = tower::service_fn(|request: Request<Body>| async move {
        let namespace = request.uri().path().split('/').nth(4).unwrap_or_default().to_owned();
        let map = json!({
            "kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {
                "name": "a", "namespace": namespace, "uid": namespace, "resourceVersion": "1",
                "managedFields": [{"manager": "test", "operation": "Update", "fieldsV1": {"f:data": {}}}],
            },
            "data": {"value": "1"},
        });
        let end = json!({"metadata": {
            "resourceVersion": "2", "annotations": {"k8s.io/initial-events-end": "true"},
        }});
        let lines = format!(
            "{}\n{}\n",
            json!({"type": "ADDED", "object": map}),
            json!({"type": "BOOKMARK", "object": end})
        );
        let first = futures::stream::iter([Ok::<_, std::io::Error>(Frame::data(Bytes::from(lines)))]);
        Ok::<_, std::io::Error>(Response::new(StreamBody::new(first.chain(futures::stream::pending()))))
    });
    Client::new(service, "default")
}

/// Whether the object in a namespace has its managedFields, in three representations.
async fn kept(cache: &InformerCache, namespace: &str) -> [bool; 3] {
    let key = format!("{namespace}/a").parse().expect("a key");
    let typed = cache.get(&Kind::<ConfigMap>::typed(), &key).await.expect("in sync").expect("it is there");
    let resource = ApiResource::erase::<ConfigMap>(&());
    let dynamic: Kind<DynamicObject> = Kind::dynamic(resource, true);
    let dynamic = cache.get(&dynamic, &key).await.expect("in sync").expect("it is there");
    let metadata = Kind::<PartialObjectMeta<ConfigMap>>::metadata();
    let metadata = cache.get(&metadata, &key).await.expect("in sync").expect("it is there");
    [typed.managed_fields(), dynamic.managed_fields(), metadata.managed_fields()]
        .map(|managed_fields| !managed_fields.is_empty())
}

fn keep(keep: bool) -> SelectionSettings {
    SelectionSettings::new().keep_managed_fields(keep)
}

#[test]
fn managed_fields_are_kept_as_configured() {
    Simulation::new(1).run(|clock| async move {
        let scope = clock.scope("test");
        let two = |one: SelectionSettings, two: SelectionSettings| [("one", one), ("two", two)];
        let maps = || KindOptions::new(Kind::<ConfigMap>::typed());
        let nothing = SelectionSettings::new;
        let table = [
            ("by default", CacheOptions::new().namespaces(two(nothing(), nothing())), (false, false)),
            (
                "of all",
                CacheOptions::new().settings(keep(true)).namespaces(two(nothing(), nothing())),
                (true, true),
            ),
            (
                "of the kind",
                CacheOptions::new().namespaces(two(nothing(), nothing())).kind(maps().settings(keep(true))),
                (true, true),
            ),
            ("of a namespace", CacheOptions::new().namespaces(two(nothing(), keep(true))), (false, true)),
            (
                "not of a namespace",
                CacheOptions::new().settings(keep(true)).namespaces(two(keep(false), nothing())),
                (false, true),
            ),
            (
                "of the kind's namespace",
                CacheOptions::new()
                    .settings(keep(true))
                    .kind(maps().namespaces(two(keep(false), keep(true)))),
                (false, true),
            ),
        ];
        for (case, options, (one, two)) in table {
            let options = options.sync_timeout(Duration::from_secs(5));
            let cache = InformerCache::new(&scope.spawner(), client(), options);
            cache.start();
            assert_eq!(kept(&cache, "one").await, [one; 3], "{case}");
            assert_eq!(kept(&cache, "two").await, [two; 3], "{case}");
        }
    });
}
