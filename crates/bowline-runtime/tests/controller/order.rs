//! Order of reconciles: after the sync, never concurrently for one object, changes first.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_apiserver::Verb;
use bowline_clock::Instant;
use bowline_runtime::{Action, Context, Error, Request, Watch, handler, source};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::PostParams;

use crate::world::{Notes, World};

async fn create_secrets(world: &World, count: usize) {
    let secrets = Api::<Secret>::default_namespaced(world.client.clone());
    for number in 0..count {
        let mut secret = Secret::default();
        secret.metadata.name = Some(format!("secret-{number}"));
        secrets.create(&PostParams::default(), &secret).await.expect("created");
    }
}

#[test]
fn nothing_is_reconciled_before_all_handlers_have_seen_the_initial_objects() {
    World::run(1, |world| async move {
        world.create("a").await;
        create_secrets(&world, 1000).await;
        world.faults.on([Verb::List, Verb::Watch]).resource("secrets").delay(Duration::from_secs(30));
        let notes = Notes::default();
        let written = notes.clone();
        let to_a = handler::map(|_: &Secret| [Request::new("default", "a")]);
        let controller = world
            .cluster
            .controller::<ConfigMap>()
            .watches(Watch::new(source::kind::<Secret>(), to_a))
            .build(move |context: Context, request: Request| {
                written.write(&context, &request);
                async { Ok::<_, Error>(Action::done()) }
            })
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        assert!(world.clock.now() >= Instant::ZERO + Duration::from_secs(30), "it waited for the secrets");
        world.settle().await;
        // The first run knows of every secret: all of them had been handled before it began.
        assert_eq!(notes.len(), 1);
        let triggers = notes.triggers().remove(0);
        assert!(triggers.starts_with("ConfigMap initial; Secret default/secret-0 initial; "), "{triggers}");
        assert!(triggers.ends_with("; and 985 more"), "{triggers}");
    });
}

#[test]
fn an_object_is_never_reconciled_twice_at_once() {
    World::run(2, |world| async move {
        let running = Arc::new(Mutex::new(BTreeSet::new()));
        let most = Arc::new(AtomicU32::new(0));
        let (within, peak) = (running.clone(), most.clone());
        let controller = world
            .cluster
            .controller::<ConfigMap>()
            .concurrency(8)
            .build(move |context: Context, request: Request| {
                let (within, peak) = (within.clone(), peak.clone());
                async move {
                    let count = {
                        let mut within = within.lock().unwrap();
                        assert!(within.insert(request.clone()), "{request} runs twice");
                        within.len()
                    };
                    peak.fetch_max(u32::try_from(count).unwrap(), Ordering::Relaxed);
                    context.clock().sleep(Duration::from_millis(30)).await;
                    within.lock().unwrap().remove(&request);
                    Ok::<_, Error>(Action::done())
                }
            })
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        for name in ["a", "b", "c"] {
            world.create(name).await;
        }
        for round in 0..20 {
            for name in ["a", "b", "c"] {
                world.touch(name, &round.to_string()).await;
            }
            world.clock.sleep(Duration::from_millis(7)).await;
        }
        world.settle().await;
        assert_eq!(most.load(Ordering::Relaxed), 3, "different objects run at the same time");
        let panics = "controller_runtime_reconcile_panics_total{controller=\"configmap\"}";
        assert_eq!(world.metric(panics), 0);
        assert!(running.lock().unwrap().is_empty());
    });
}

#[test]
fn what_is_found_at_the_start_waits_behind_what_happens() {
    World::run(3, |world| async move {
        for number in 0..50 {
            world.create(&format!("old-{number:02}")).await;
        }
        let notes = Notes::default();
        let written = notes.clone();
        let controller = world
            .cluster
            .controller::<ConfigMap>()
            .build(move |context: Context, request: Request| {
                written.write(&context, &request);
                async move {
                    context.clock().sleep(Duration::from_millis(10)).await;
                    Ok::<_, Error>(Action::done())
                }
            })
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.create("new").await;
        world.until("all ran", || notes.len() == 51).await;
        let place = notes.requests().iter().position(|request| request == "default/new").unwrap();
        assert!(place < 5, "it was the {place}th");
        let depth = "workqueue_depth{name=\"configmap\",controller=\"configmap\",priority=\"-100\"}";
        assert_eq!(world.metric(depth), 0);
    });
}

/// A controller whose one object of interest fails or asks to be run again while others of usual priority wait.
fn priority_is_kept(seed: u64, first: fn() -> Result<Action, Error>, comes_first: bool) {
    World::run(seed, |world| async move {
        world.create("low").await;
        let notes = Notes::default();
        let (written, calls) = (notes.clone(), Arc::new(AtomicU32::new(0)));
        let controller = world
            .cluster
            .controller::<ConfigMap>()
            .build(move |context: Context, request: Request| {
                written.write(&context, &request);
                let calls = calls.clone();
                async move {
                    if request.name() == "low" {
                        return if calls.fetch_add(1, Ordering::Relaxed) == 0 {
                            first()
                        } else {
                            Ok(Action::done())
                        };
                    }
                    context.clock().sleep(Duration::from_millis(50)).await;
                    Ok(Action::done())
                }
            })
            .expect("it can be built");
        controller.start().expect("it can be started");
        controller.wait_ready().await.expect("it is ready");
        world.until("it ran once", || notes.len() == 1).await;
        controller.trigger(Request::new("default", "usual-0"));
        // It is in line again before these, while the first of them runs.
        world.clock.sleep(Duration::from_millis(30)).await;
        for number in 1..5 {
            controller.trigger(Request::new("default", &format!("usual-{number}")));
        }
        world.until("all ran", || notes.len() == 7).await;
        let place = notes.requests().iter().rposition(|request| request == "default/low").expect("it ran");
        let expected = if comes_first { 2 } else { 6 };
        assert_eq!(place, expected, "{:?}", notes.requests());
    });
}

#[test]
fn a_low_priority_is_kept_across_an_error() {
    priority_is_kept(4, || Err(Error::message("not yet")), false);
}

#[test]
fn a_low_priority_is_kept_across_a_requeue() {
    priority_is_kept(5, || Ok(Action::requeue_after(Duration::from_millis(20))), false);
}

#[test]
fn an_action_may_choose_another_priority() {
    priority_is_kept(6, || Ok(Action::requeue_after(Duration::from_millis(20)).priority(10)), true);
}
