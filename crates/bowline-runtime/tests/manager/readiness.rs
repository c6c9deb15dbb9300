//! Serving and synced are separate states.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bowline_runtime::health::HealthServer;
use bowline_runtime::{ClusterBuilder, Manager, Runnable, Stage};
use k8s_openapi::api::core::v1::ConfigMap;

use crate::servers::{anywhere, get};
use crate::world::{World, failure};

/// A manager whose config maps cannot be listed, as if they needed conversion first: cached, and watched by a
/// controller.
fn manager(world: &World) -> Manager {
    world.faults.all().resource("configmaps").fail(failure(
        500,
        "InternalError",
        "conversion webhook for a secret place: refused",
    ));
    let builder = world.builder().cluster(ClusterBuilder::cached::<ConfigMap>);
    let manager = builder.health_server(HealthServer::new(anywhere())).build().expect("it can be built");
    manager.controller::<ConfigMap>().register(world.reconciler("maps")).expect("it can be built");
    manager
}

/// A runnable of the webhook stage, and the flag that lets it serve.
fn webhook(may_serve: &Arc<AtomicBool>) -> Runnable {
    let serves = may_serve.clone();
    let webhook = Runnable::new("hook", |cancelled| async move {
        cancelled.cancelled().await;
        Ok::<_, std::io::Error>(())
    });
    webhook.in_stage(Stage::Webhook).serving_when(move || serves.load(Ordering::Relaxed))
}

#[test]
fn with_a_webhook_readiness_is_serving_and_sync_is_separate() {
    World::run_in_real_time(|world| async move {
        world.create("a").await;
        let (manager, serves) = (manager(&world), Arc::new(AtomicBool::new(false)));
        manager.add(webhook(&serves)).unwrap();
        // One that has done its work, a certificate for example, never serves.
        let brief = Runnable::new("brief", |_| async { Ok::<_, std::io::Error>(()) });
        manager.add(brief.in_stage(Stage::Webhook).serving_when(|| false)).unwrap();
        let start = world.start(&manager);
        world.until("informers have been asked for", || world.watches("configmaps") > 0).await;
        let address = manager.health_address().unwrap();
        let waits = "[-]manager failed: it waits until webhooks serve: hook\n";
        for _ in 0..100 {
            let (status, text) = get(address, "/readyz").await;
            assert_eq!(status, 500, "{text}");
            if text.contains(waits) {
                break;
            }
            // The other one has not ended yet.
            world.settle().await;
        }
        let (_, text) = get(address, "/readyz").await;
        assert!(text.contains(waits), "{text}");

        serves.store(true, Ordering::Relaxed);
        let (status, text) = get(address, "/readyz?verbose").await;
        assert_eq!(status, 200, "{text}");
        let checks = "\r\n\r\n[+]controller-configmap-changes ok\n[+]manager ok\nreadyz check passed\n";
        assert!(text.ends_with(checks), "sync is no part: {text}");
        let is_refused = || manager.cluster().cache().not_synced()[0].error.is_some();
        world.until("informers were refused", is_refused).await;
        let (status, text) = get(address, "/readyz/sync").await;
        assert_eq!(status, 500, "{text}");
        assert!(text.ends_with(": configmaps (v1) in all namespaces (the server fails)\n"), "{text}");

        // Now that it is ready, it is called, and all can be listed.
        world.faults.remove_all();
        world.until("it reconciles", || world.record.has("maps reconciles a")).await;
        assert_eq!(get(address, "/readyz/sync").await.0, 200);
        assert_eq!(get(address, "/readyz").await.0, 200);
        manager.request_stop();
        start.await.unwrap().unwrap();
    });
}

#[test]
fn without_a_webhook_a_process_is_ready_when_synced() {
    World::run_in_real_time(|world| async move {
        world.create("a").await;
        let manager = manager(&world);
        let start = world.start(&manager);
        world.until("informers have been asked for", || world.watches("configmaps") > 0).await;
        let address = manager.health_address().unwrap();
        for path in ["/readyz", "/readyz/sync"] {
            let (status, text) = get(address, path).await;
            assert!(status == 500 && text.contains("configmaps (v1) in all namespaces"), "{path}: {text}");
        }
        world.faults.remove_all();
        world.until("it reconciles", || world.record.has("maps reconciles a")).await;
        for path in ["/readyz", "/readyz/sync"] {
            assert_eq!(get(address, path).await.0, 200, "{path}");
        }
        manager.request_stop();
        start.await.unwrap().unwrap();
    });
}
