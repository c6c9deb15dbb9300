//! Changes for which an async handler fails: none is lost in an outage, at a stop, or because of another one.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_cache::Kind;
use bowline_runtime::handler::{AsyncHandler, HandlerContext, Requests};
use bowline_runtime::{
    Action, Change, ChangeKind, Context, Controller, ControllerBuilder, Error, Request, Watch, WatchHandle,
    handler, source,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};

use crate::world::{Notes, World};

/// A started controller that writes its runs down.
fn started(
    world: &World,
    watches: impl FnOnce(ControllerBuilder<()>) -> ControllerBuilder<()>,
) -> (Controller, Notes) {
    let notes = Notes::default();
    let written = notes.clone();
    let controller = watches(Controller::builder(&world.cluster).named("watcher"))
        .build(move |context: Context, request: Request| {
            written.write(&context, &request);
            async { Ok::<_, Error>(Action::done()) }
        })
        .expect("it can be built");
    controller.start().expect("it can be started");
    (controller, notes)
}

fn request(name: &str) -> Request {
    Request::new("default", name)
}

#[test]
fn an_outage_at_the_start_loses_no_change_however_many_there_are() {
    World::run(1, |world| async move {
        for number in 0..1_200 {
            world.create(&format!("m{number}")).await;
        }
        let healed = world.clock.now() + Duration::from_secs(10);
        let reading = handler::map_async(move |ctx: HandlerContext, map: Arc<ConfigMap>| async move {
            if ctx.clock().now() < healed { Err("unavailable") } else { Ok([request(&map.name_any())]) }
        });
        let (controller, notes) =
            started(&world, |builder| builder.watches(Watch::new(source::kind(), reading)));
        controller.wait_ready().await.unwrap();
        world.clock.sleep(Duration::from_secs(60)).await;
        assert_eq!(controller.unhandled_changes().len(), 0);
        let reconciled: BTreeSet<_> = notes.requests().into_iter().collect();
        assert_eq!(reconciled.len(), 1_200);
    });
}

#[test]
fn a_retry_that_hangs_delays_no_other() {
    World::run(2, |world| async move {
        let seen = Mutex::new(BTreeSet::new());
        let hanging = handler::map_async(move |_: HandlerContext, map: Arc<ConfigMap>| {
            let is_first = seen.lock().expect("not poisoned").insert(map.name_any());
            async move {
                match map.name_any() {
                    _ if is_first => Err("not now"),
                    name if name.starts_with("hang") => std::future::pending().await,
                    name => Ok([request(&name)]),
                }
            }
        });
        let (controller, notes) =
            started(&world, |builder| builder.watches(Watch::new(source::kind(), hanging)));
        controller.wait_ready().await.unwrap();
        for name in ["hang-1", "hang-2", "hang-3", "hang-4", "hang-5", "other"] {
            world.create(name).await;
        }
        world.clock.sleep(Duration::from_secs(3)).await;
        assert_eq!(notes.requests(), ["default/other"]);
    });
}

/// Fails for the first attempt of a creation, and for each update.
#[derive(Default)]
struct OnlyCreations(Mutex<BTreeSet<String>>);

impl AsyncHandler<ConfigMap> for OnlyCreations {
    type Error = &'static str;

    async fn handle(
        &self,
        _: &HandlerContext,
        change: &Change<'_, ConfigMap>,
        requests: &mut Requests<'_>,
    ) -> Result<(), Self::Error> {
        let name = change.object().name_any();
        if change.kind() != ChangeKind::Create || self.0.lock().expect("not poisoned").insert(name.clone()) {
            return Err("no");
        }
        requests.add(request(&name));
        Ok(())
    }
}

#[test]
fn a_retry_that_succeeds_does_not_hide_a_later_change_that_fails() {
    World::run(3, |world| async move {
        let watch = Watch::new(source::kind::<ConfigMap>(), OnlyCreations::default());
        let (controller, notes) = started(&world, |builder| builder.watches(watch));
        controller.wait_ready().await.unwrap();
        world.create("a").await;
        world.touch("a", "1").await;
        world.clock.sleep(Duration::from_secs(300)).await;
        assert_eq!(notes.requests(), ["default/a"]);
        let changes = controller.unhandled_changes();
        assert_eq!(changes.iter().map(|change| change.attempts).collect::<Vec<_>>(), [10]);
    });
}

#[test]
fn an_item_that_an_async_handler_has_at_a_stop_is_handled_first_after_the_next_start() {
    World::run(4, |world| async move {
        let (sender, numbers) = source::channel::<u32>("numbers");
        let slow = handler::map_async(|ctx: HandlerContext, number: Arc<u32>| async move {
            ctx.clock().sleep(Duration::from_secs(10)).await;
            Ok::<_, Error>([request(&number.to_string())])
        });
        let (controller, notes) = started(&world, |builder| builder.watches(Watch::new(numbers, slow)));
        controller.wait_ready().await.unwrap();
        sender.send(1).await.unwrap();
        sender.send(2).await.unwrap();
        world.settle().await;
        let _ = controller.stop().await.unwrap();
        assert_eq!(notes.len(), 0);
        controller.start().unwrap();
        world.clock.sleep(Duration::from_secs(30)).await;
        assert_eq!(notes.requests(), ["default/1", "default/2"]);
    });
}

#[test]
fn a_change_whose_retry_runs_at_a_stop_is_counted_as_waiting() {
    World::run(5, |world| async move {
        let (sender, numbers) = source::channel::<u32>("numbers");
        let seen = Mutex::new(BTreeSet::new());
        let hanging = handler::map_async(move |_: HandlerContext, number: Arc<u32>| {
            let is_first = seen.lock().expect("not poisoned").insert(*number);
            async move {
                if is_first {
                    Err("not now")
                } else {
                    std::future::pending::<Result<[Request; 0], _>>().await
                }
            }
        });
        let (controller, _notes) = started(&world, |builder| builder.watches(Watch::new(numbers, hanging)));
        controller.wait_ready().await.unwrap();
        sender.send(1).await.unwrap();
        world.clock.sleep(Duration::from_secs(2)).await;
        assert_eq!(controller.stop().await.unwrap().waiting(), 1);
    });
}

#[test]
fn an_async_handler_can_remove_its_own_watch() {
    for fails_first in [false, true] {
        World::run(6, |world| async move {
            let own = Arc::new(Mutex::new(None::<WatchHandle>));
            let (watch, has_failed) = (own.clone(), Mutex::new(!fails_first));
            let removing = handler::map_async(move |_: HandlerContext, _: Arc<Secret>| {
                let fails = !std::mem::replace(&mut *has_failed.lock().expect("not poisoned"), true);
                let watch = if fails { None } else { watch.lock().expect("not poisoned").take() };
                async move {
                    if fails {
                        return Err("not now");
                    }
                    if let Some(watch) = watch {
                        watch.unregister().await;
                    }
                    Ok([request("unexpected")])
                }
            });
            let nothing = Watch::<ConfigMap>::new(source::kind(), handler::object());
            let (controller, notes) = started(&world, |builder| builder.watches(nothing));
            controller.wait_ready().await.unwrap();
            let watch = controller.watch(Watch::new(source::kind::<Secret>(), removing)).unwrap();
            *own.lock().unwrap() = Some(watch);
            let mut secret = Secret::default();
            secret.metadata.name = Some("a".to_owned());
            let secrets = Api::default_namespaced(world.client.clone());
            secrets.create(&PostParams::default(), &secret).await.unwrap();
            world.clock.sleep(Duration::from_secs(5)).await;
            assert!(own.lock().unwrap().is_none(), "the handler was called");
            assert!(!world.cluster.client().is_cached(&Kind::<Secret>::typed()), "{fails_first}");
            assert_eq!((world.cluster.cache().stats().len(), notes.len()), (1, 0), "its informer has ended");
        });
    }
}
