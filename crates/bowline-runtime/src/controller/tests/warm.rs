//! A controller that waits until it may work has what it watches in the cache, and nothing else: no request, no handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;

use super::managed::{Seen, cluster, control, run};
use super::{Website, World, from, map};
use crate::{Cluster, Controller, ControllerError, Request, StopReport, Watch, handler, source};

fn secret(name: &str) -> Secret {
    from(json!({"metadata": {"name": name, "namespace": "default"}}))
}

/// The value of a metric of the controller of config maps.
fn metric(cluster: &Cluster, name: &str) -> String {
    let text = cluster.metrics().encode();
    let mut found = text.lines().filter(|line| line.starts_with(name) && line.contains("configmap"));
    let line = found.next().unwrap_or_else(|| panic!("there is no {name} in\n{text}"));
    line.rsplit(' ').next().expect("a value").to_owned()
}

fn waiting(controller: &Controller) -> Vec<String> {
    controller.waiting_for().iter().map(|waiting| waiting.source().to_owned()).collect()
}

#[test]
fn what_comes_and_goes_while_a_controller_waits_leaves_nothing_behind() {
    World::run(1, |world| async move {
        let (control, seen) = (control(), Seen::default());
        let cluster = cluster(&world).await;
        let controller = seen.by(cluster.controller::<ConfigMap>().owns::<Secret>());
        assert!(controller.needs_leadership() && controller.warms_up());
        let ran = run(&world, &controller, &control);
        world.until("it is warm", || controller.is_warm()).await;
        for number in 0..50 {
            let object = cluster.client().create(&map(&format!("gone-{number}"))).await.unwrap();
            cluster.client().delete_object(&object).await.unwrap();
        }
        cluster.client().create(&map("d")).await.unwrap();
        controller.trigger(Request::new("default", "by-hand"));
        world.clock.sleep(Duration::from_hours(24)).await;
        assert!(controller.is_running() && controller.is_warm() && !controller.is_ready());
        assert_eq!((waiting(&controller), seen.all()), (vec![], vec![]));
        assert_eq!(controller.queue_stats(), bowline_workqueue::QueueStats::default());
        assert_eq!(metric(&cluster, "workqueue_depth"), "0");
        let watches = world.watches();
        assert!(watches.contains(&"configmaps".to_owned()) && watches.contains(&"secrets".to_owned()));
        let before = world.clock.now();
        control.may_reconcile.cancel();
        controller.wait_ready().await.unwrap();
        world.settle().await;
        assert_eq!(seen.all(), ["a", "b", "c", "d"], "each that there is, and nothing that is gone");
        assert_eq!(world.watches(), watches, "nothing is listed or watched anew");
        let waited: f64 = metric(&cluster, "workqueue_queue_duration_seconds_sum").parse().unwrap();
        assert!(waited <= world.clock.now().duration_since(before).as_secs_f64(), "{waited}");
        control.stop.cancel();
        assert_eq!(ran.await.unwrap(), Ok(StopReport::default()));
        assert!(!controller.is_warm());
    });
}

#[test]
fn sources_that_are_no_kind_begin_when_the_controller_may_work() {
    World::run(2, |world| async move {
        let (control, seen, calls) = (control(), Seen::default(), Arc::new(AtomicUsize::new(0)));
        let (sender, channel) = source::channel::<ConfigMap>("channel");
        let called = calls.clone();
        let function = source::function("function", move |mut sink: source::Sink<ConfigMap>| {
            called.fetch_add(1, Ordering::Relaxed);
            async move { sink.request(Request::new("default", "function")) }
        });
        let builder = cluster(&world).await.controller::<ConfigMap>();
        let builder = builder.watches(Watch::new(channel, handler::object()));
        let controller = seen.by(builder.watches(Watch::new(function, handler::object())));
        world.slow_reads(Duration::from_secs(5));
        let _ran = run(&world, &controller, &control);
        world.settle().await;
        assert_eq!(waiting(&controller), ["ConfigMap"], "it is the only one that is waited for");
        sender.try_send(map("sent")).unwrap();
        world.until("it is warm", || controller.is_warm()).await;
        world.settle().await;
        assert_eq!((calls.load(Ordering::Relaxed), controller.queue_stats().ready), (0, 0));
        control.may_reconcile.cancel();
        controller.wait_ready().await.unwrap();
        world.settle().await;
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        assert_eq!(seen.all(), ["a", "b", "c", "function", "sent"]);
    });
}

#[test]
fn a_watch_that_is_added_meanwhile_waits_like_the_others_and_is_waited_for_by_nobody() {
    World::run(3, |world| async move {
        let (control, seen) = (control(), Seen::default());
        let cluster = cluster(&world).await;
        cluster.client().create(&secret("s")).await.unwrap();
        let controller = seen.by(cluster.controller::<ConfigMap>());
        let _ran = run(&world, &controller, &control);
        world.until("it is warm", || controller.is_warm()).await;
        let secrets = controller.watch(Watch::new(source::kind::<Secret>(), handler::object())).unwrap();
        // The server does not know them.
        let websites = controller.watch(Watch::new(source::kind::<Website>(), handler::object())).unwrap();
        world.settle().await;
        assert!(world.watches().contains(&"secrets".to_owned()), "it is in the cache already");
        assert_eq!(waiting(&controller), ["Website"]);
        assert_eq!((controller.queue_stats().ready, secrets.wait_synced().now_or_never()), (0, None));
        let watches = world.watches().iter().filter(|resource| *resource == "secrets").count();
        control.may_reconcile.cancel();
        controller.wait_ready().await.unwrap();
        secrets.wait_synced().await;
        world.settle().await;
        assert_eq!(seen.all(), ["a", "b", "c", "s"]);
        let now = world.watches().iter().filter(|resource| *resource == "secrets").count();
        assert_eq!(now, watches, "its informer goes on");
        websites.unregister().await;
        assert_eq!(waiting(&controller), [""; 0]);
    });
}

#[test]
fn a_watch_that_is_removed_meanwhile_takes_its_informer_along() {
    World::run(4, |world| async move {
        let (control, seen) = (control(), Seen::default());
        let cluster = cluster(&world).await;
        let controller = seen.by(cluster.controller::<ConfigMap>());
        let ran = run(&world, &controller, &control);
        world.until("it is warm", || controller.is_warm()).await;
        let watch = || controller.watch(Watch::new(source::kind::<Secret>(), handler::object())).unwrap();
        let removed = watch();
        assert_eq!(cluster.cache().stats().len(), 2);
        removed.unregister().await;
        assert_eq!(cluster.cache().stats().len(), 1);
        // One that never began is over when the run is.
        let never = watch();
        control.stop.cancel();
        never.wait_synced().await;
        let _ = ran.await.unwrap().unwrap();
        assert!(cluster.cache().stats().is_empty());
    });
}

#[test]
fn a_controller_that_may_work_before_all_is_in_the_cache_goes_on_with_the_same_lists() {
    World::run(5, |world| async move {
        let (control, seen) = (control(), Seen::default());
        let cluster = cluster(&world).await;
        world.slow_reads(Duration::from_secs(20));
        let controller = seen.by(cluster.controller::<ConfigMap>());
        let _ran = run(&world, &controller, &control);
        world.clock.sleep(Duration::from_secs(10)).await;
        assert!(!controller.is_warm());
        assert_eq!(waiting(&controller), ["ConfigMap"]);
        control.may_reconcile.cancel();
        let before = world.clock.now();
        controller.wait_ready().await.unwrap();
        assert!(world.clock.now().duration_since(before) < Duration::from_secs(11), "it did not begin anew");
        world.settle().await;
        assert_eq!(seen.all(), ["a", "b", "c"]);
        assert_eq!(world.watches(), ["configmaps"]);
    });
}

#[test]
fn the_limit_for_seeing_all_counts_from_the_start_whenever_the_controller_may_work() {
    World::run(6, |world| async move {
        let limit = Duration::from_mins(3);
        let cluster = cluster(&world).await;
        for go_after in [None, Some(Duration::from_mins(2))] {
            let control = control();
            let controller = Seen::default().by(cluster.controller::<Website>().sync_timeout(limit));
            let before = world.clock.now();
            let ran = run(&world, &controller, &control);
            if let Some(after) = go_after {
                world.clock.sleep(after).await;
                control.may_reconcile.cancel();
            }
            let error = ran.await.unwrap().unwrap_err();
            assert!(matches!(&error, ControllerError::NotSynced { limit: said, missing, .. }
                if *said == limit && missing.len() == 1 && missing[0].to_string().contains("404")));
            let took = world.clock.now().duration_since(before);
            assert!(took >= limit && took < limit + Duration::from_secs(5), "{took:?}");
        }
        // A controller that synced in time may wait for leadership without limit.
        let (control, seen) = (control(), Seen::default());
        let controller = seen.by(cluster.controller::<ConfigMap>().sync_timeout(limit));
        let _ran = run(&world, &controller, &control);
        world.clock.sleep(Duration::from_hours(1)).await;
        control.may_reconcile.cancel();
        controller.wait_ready().await.unwrap();
    });
}
