//! The transport over TLS, against the embedded API server.

use bowline_apiserver::{ApiServer, ServeOptions};
use bowline_clock::Clock;
use bowline_runtime::transport::{self, TransportOptions};
use futures::{StreamExt as _, TryStreamExt as _, future};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, ObjectMeta, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client};
use tokio::net::TcpListener;

#[tokio::test]
async fn objects_are_written_listed_and_watched_over_tls() {
    let clock = Clock::real();
    let server = ApiServer::builder().clock(clock.clone()).build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let serving = server.serve(listener, ServeOptions::default()).unwrap();
    let directory = std::env::temp_dir().join(format!("bowline-transport-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("kubeconfig");
    serving.kubeconfig().write(&path).unwrap();
    let config = transport::config(Some(&path)).await.unwrap();
    std::fs::remove_dir_all(&directory).unwrap();

    let client: Client = transport::client(&config, &TransportOptions::new(&clock)).unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let events = maps.watch(&WatchParams::default(), "0").await.unwrap();
    for number in 0..3 {
        let map = ConfigMap {
            metadata: ObjectMeta { name: Some(format!("map-{number}")), ..ObjectMeta::default() },
            data: Some([("text".to_owned(), "x".repeat(300_000))].into()),
            ..ConfigMap::default()
        };
        maps.create(&PostParams::default(), &map).await.unwrap();
    }
    let listed = maps.list(&ListParams::default()).await.unwrap();
    assert_eq!(listed.items.len(), 3);
    assert!(listed.items.iter().all(|map| map.data.as_ref().unwrap()["text"].len() == 300_000));
    let again = maps.create(&PostParams::default(), &listed.items[0]).await;
    assert!(again.is_err());
    // Writes and lists share a connection; the watch has its own.
    assert_eq!(serving.connections(), 2);
    let is_object = |event: &WatchEvent<ConfigMap>| future::ready(!matches!(event, WatchEvent::Bookmark(_)));
    let seen: Vec<_> = events.try_filter(is_object).take(3).try_collect().await.unwrap();
    assert!(seen.iter().all(|event| matches!(event, WatchEvent::Added(_))), "{seen:?}");
}
