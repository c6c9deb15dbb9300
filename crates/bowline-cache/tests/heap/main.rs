//! Memory of a relist. In a program of its own: the allocator counts everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bowline_cache::{
    ByteStream, Kind, ListOptions, ListWatch, ListWatchFuture, Namespaces, SharedInformer, WatchOptions,
};
use bowline_clock::Clock;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use tokio::sync::Notify;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Page size of client-go.
const PAGE: usize = 500;

/// Sends all pods, generated while they are sent; answers 410 on request; then waits.
struct Pods {
    lists: AtomicUsize,
    expire: Arc<Notify>,
    pod_bytes: Arc<AtomicUsize>,
    count: usize,
    /// Number of pods with a new version from the second list on.
    changed: usize,
}

struct Source(Arc<Pods>);

impl ListWatch for Source {
    fn list<'a>(&'a self, _: &'a ListOptions) -> ListWatchFuture<'a, ByteStream> {
        unreachable!("it can be watched")
    }

    fn watch<'a>(&'a self, options: &'a WatchOptions) -> ListWatchFuture<'a, ByteStream> {
        assert!(options.send_initial_events, "only lists here");
        let list = self.0.lists.fetch_add(1, Ordering::Relaxed);
        let template = template();
        let (expire, changed, pod_bytes) = (self.0.expire.clone(), self.0.changed, self.0.pod_bytes.clone());
        let pods = stream::iter(0..self.0.count).map(move |number| {
            let version = if list > 0 && number < changed { 1_000_000 + number } else { number + 1 };
            let line =
                template.replace("NUMBER", &format!("{number:05}")).replace("VERSION", &version.to_string());
            pod_bytes.store(line.len(), Ordering::Relaxed);
            Ok(Bytes::from(line))
        });
        let end = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"2000000","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
        let end = stream::iter([Ok(Bytes::from(format!("{end}\n")))]);
        let expired = r#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":410,"reason":"Expired","message":"too old"}}"#;
        let expired = stream::once(async move {
            expire.notified().await;
            Ok(Bytes::from(format!("{expired}\n")))
        });
        let all: ByteStream = pods.chain(end).chain(expired).boxed();
        Box::pin(std::future::ready(Ok(all)))
    }
}

/// About 5 KB, half of it managed fields, with placeholders for number and version.
fn template() -> String {
    let field =
        |number| (format!("f:field-{number}"), json!({".": {}, "f:key": {}, "f:operator": {}, "f:path": {}}));
    let fields: serde_json::Map<_, _> = (0..60).map(field).collect();
    let variable = |number| json!({"name": format!("VARIABLE_{number}"), "value": "x".repeat(40)});
    let environment: Vec<_> = (0..12).map(variable).collect();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "pod-NUMBER", "namespace": "default", "uid": "00000000-0000-0000-0000-0000000NUMBER",
            "resourceVersion": "VERSION", "labels": {"app": "web", "number": "NUMBER"},
            "managedFields": [{"manager": "kubelet", "operation": "Update", "apiVersion": "v1",
                               "fieldsType": "FieldsV1", "fieldsV1": fields}],
        },
        "spec": {"nodeName": "node-1", "containers": [
            {"name": "web", "image": "registry.example/web:1", "env": environment,
             "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}},
        ]},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        ]},
    });
    format!("{{\"type\":\"ADDED\",\"object\":{pod}}}\n")
}

/// Growth of the heap during a relist: peak, and afterwards.
async fn relist(count: usize, changed: usize) -> (usize, usize, usize) {
    let clock = Clock::real();
    let scope = clock.scope("test");
    let pods = Arc::new(Pods {
        lists: AtomicUsize::new(0),
        expire: Arc::new(Notify::new()),
        pod_bytes: Arc::default(),
        count,
        changed,
    });
    let informer = SharedInformer::builder(&scope.spawner(), Kind::<Pod>::typed())
        .source(Namespaces::All, Source(pods.clone()))
        .build()
        .expect("one source");
    informer.start();
    informer.wait_for_sync(Duration::from_secs(300)).await.expect("in sync");
    assert_eq!(informer.indexer().len(), count);
    let before = informer.indexer().list();

    let profiler = dhat::Profiler::builder().testing().build();
    pods.expire.notify_one();
    while informer.stats().lists < 2
        || informer
            .indexer()
            .get_in("default", "pod-00000")
            .is_none_or(|pod| changed > 0 && pod.metadata.resource_version.as_deref() == Some("1"))
    {
        clock.sleep(Duration::from_millis(5)).await;
    }
    informer.stop().await;
    let stats = dhat::HeapStats::get();
    drop(profiler);

    let after = informer.indexer().list();
    let same = before.iter().zip(&after).filter(|(before, after)| Arc::ptr_eq(before, after)).count();
    assert_eq!(same, count - changed, "unchanged objects are shared");
    (stats.max_bytes, stats.curr_bytes, PAGE * pods.pod_bytes.load(Ordering::Relaxed))
}

#[tokio::test]
async fn a_relist_takes_at_most_two_pages_plus_the_changes() {
    let (peak, after, page) = relist(20_000, 0).await;
    assert!(page > 2_000_000, "pods are of an ordinary size: {page} bytes on a page");
    assert!(peak < 2 * page, "with nothing changed, the heap grew by {peak}; a page is {page}");
    assert!(after < page / 4, "{after} bytes stayed");

    let (peak, _, page) = relist(4000, 1000).await;
    // A decoded object takes more than its bytes; the old objects are freed after the new ones are stored.
    assert!(peak < 2 * page + 1000 * 16 * 1024, "with 1000 changed, the heap grew by {peak}");
}
