//! Async handlers: their reads, delays and errors; and delayed requests.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_cache::{Kind, ListQuery, ObjectKey};
use bowline_clock::Instant;
use bowline_runtime::handler::{AsyncHandler, HandlerContext, Requests};
use bowline_runtime::{
    Action, Change, ChangeKind, ClientError, Context, Controller, ControllerBuilder, Error, Request, Watch,
    handler, source,
};
use bowline_workqueue::ItemExponentialFailure;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::world::{Notes, World};

/// A controller that writes its runs down.
fn written_down<K: 'static>(builder: ControllerBuilder<K>) -> (Controller, Notes) {
    let notes = Notes::default();
    let written = notes.clone();
    let controller = builder
        .build(move |context: Context, request: Request| {
            written.write(&context, &request);
            async { Ok::<_, Error>(Action::done()) }
        })
        .expect("it can be built");
    controller.start().expect("it can be started");
    (controller, notes)
}

fn secrets(world: &World) -> Api<Secret> {
    Api::default_namespaced(world.client.clone())
}

async fn create_secret(world: &World, name: &str) {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.to_owned());
    secrets(world).create(&PostParams::default(), &secret).await.expect("created");
}

fn request(name: &str) -> Request {
    Request::new("default", name)
}

fn watcher(world: &World) -> ControllerBuilder<()> {
    Controller::builder(&world.cluster).named("watcher")
}

fn metric(world: &World, name: &str) -> u64 {
    world.metric(&format!("{name}_total{{controller=\"watcher\",source=\"ConfigMap\"}}"))
}

/// The config maps that use a secret, by an index of the cache.
async fn users(ctx: HandlerContext, secret: Arc<Secret>) -> Result<Vec<Request>, ClientError> {
    let query = ListQuery::new().index("secret", secret.name_any());
    let users = ctx.client().list::<ConfigMap>(&query).await?;
    Ok(users.iter().map(|user| request(&user.name_any())).collect())
}

#[test]
fn an_async_map_finds_the_objects_that_use_another_one_by_an_index_of_the_cache() {
    World::run(1, |world| async move {
        for (name, secret) in [("a", "one"), ("b", "two"), ("c", "one")] {
            world.create_map(&json!({"metadata": {"name": name, "labels": {"secret": secret}}})).await;
        }
        let index = |map: &ConfigMap| map.labels().get("secret").into_iter().cloned().collect::<Vec<_>>();
        world.cluster.cache().add_index(&Kind::<ConfigMap>::typed(), "secret", index).unwrap();
        let watch = Watch::new(source::kind::<Secret>(), handler::map_async(users));
        let (controller, notes) = written_down(world.cluster.controller::<ConfigMap>().watches(watch));
        controller.wait_ready().await.unwrap();
        world.settle().await;
        create_secret(&world, "one").await;
        world.settle().await;
        assert_eq!(notes.requests()[3..], ["default/a", "default/c"]);
        assert_eq!(notes.triggers()[3..], ["Secret default/one created"; 2]);
        secrets(&world).delete("one", &DeleteParams::default()).await.unwrap();
        world.settle().await;
        assert_eq!(notes.triggers()[5..], ["Secret default/one deleted"; 2]);
    });
}

/// Takes a while for each change, and writes down which it was.
struct Slow {
    takes: Duration,
    seen: Arc<Mutex<Vec<String>>>,
}

impl AsyncHandler<ConfigMap> for Slow {
    type Error = Error;

    async fn handle(
        &self,
        context: &HandlerContext,
        change: &Change<'_, ConfigMap>,
        requests: &mut Requests<'_>,
    ) -> Result<(), Error> {
        context.clock().sleep(self.takes).await;
        let name = change.object().name_any();
        self.seen.lock().expect("not poisoned").push(format!("{:?} {name}", change.kind()));
        requests.add(request(&name));
        Ok(())
    }
}

fn slow(seconds: u64) -> (Watch<ConfigMap>, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let handler = Slow { takes: Duration::from_secs(seconds), seen: seen.clone() };
    (Watch::new(source::kind(), handler), seen)
}

#[test]
fn no_reconcile_starts_before_an_async_handler_is_done_with_the_initial_objects() {
    World::run(2, |world| async move {
        for name in ["a", "b", "c"] {
            world.create(name).await;
        }
        let (watch, _) = slow(10);
        let other = Watch::new(source::kind::<ConfigMap>(), handler::object());
        let (controller, notes) = written_down(watcher(&world).watches(watch).watches(other));
        world.clock.sleep(Duration::from_secs(29)).await;
        assert!(!controller.is_ready() && notes.len() == 0);
        let waiting: Vec<_> = controller.waiting_for().iter().map(ToString::to_string).collect();
        assert_eq!(waiting.len(), 1, "{waiting:?}");
        assert!(waiting[0].contains("objects wait for the handler"), "{waiting:?}");
        world.clock.sleep(Duration::from_secs(2)).await;
        assert!(controller.is_ready() && controller.waiting_for().is_empty());
        assert_eq!(notes.requests(), ["default/a", "default/b", "default/c"]);
    });
}

#[test]
fn an_async_handler_that_waits_delays_only_its_own_watch_and_sees_changes_in_their_order() {
    World::run(3, |world| async move {
        let (watch, seen) = slow(10);
        let (controller, notes) = written_down(world.cluster.controller::<ConfigMap>().watches(watch));
        controller.wait_ready().await.unwrap();
        world.create("a").await;
        world.touch("a", "1").await;
        world.create("b").await;
        world.delete("a").await;
        world.settle().await;
        let by_its_own_kind = ["default/a", "default/a", "default/b", "default/a"];
        assert_eq!(notes.requests(), by_its_own_kind);
        assert!(seen.lock().unwrap().is_empty());
        world.clock.sleep(Duration::from_secs(41)).await;
        assert_eq!(*seen.lock().unwrap(), ["Create a", "Update a", "Create b", "Delete a"]);
    });
}

#[test]
fn a_change_for_which_an_async_handler_fails_is_retried_while_others_go_on() {
    World::run(4, |world| async move {
        let calls = Arc::new(AtomicUsize::new(0));
        let called = calls.clone();
        let failing = handler::map_async(move |_: HandlerContext, map: Arc<ConfigMap>| {
            let call = if map.name_any() == "bad" { called.fetch_add(1, Ordering::Relaxed) } else { 9 };
            async move {
                match call {
                    0 => Err("not now"),
                    1 => panic!("on purpose"),
                    2 => std::future::pending().await,
                    _ => Ok([request(&map.name_any())]),
                }
            }
        });
        let (controller, notes) = written_down(watcher(&world).watches(Watch::new(source::kind(), failing)));
        controller.wait_ready().await.unwrap();
        world.create("bad").await;
        world.create("good").await;
        world.settle().await;
        assert_eq!(notes.requests(), ["default/good"]);
        // Pauses of 1 s, 2 s and 4 s, and a minute for the attempt that hangs.
        world.clock.sleep(Duration::from_secs(66)).await;
        assert_eq!((notes.len(), calls.load(Ordering::Relaxed)), (1, 3));
        world.clock.sleep(Duration::from_secs(2)).await;
        assert_eq!(notes.requests()[1..], ["default/bad"]);
        assert_eq!(notes.triggers()[1..], ["ConfigMap default/bad created"]);
        assert_eq!(
            (metric(&world, "bowline_source_errors"), metric(&world, "bowline_source_panics")),
            (2, 1)
        );
        assert!(controller.unhandled_changes().is_empty());
    });
}

#[test]
fn a_change_for_which_an_async_handler_always_fails_is_named_until_the_object_goes_through() {
    World::run(5, |world| async move {
        let is_broken = Arc::new(AtomicBool::new(true));
        let broken = is_broken.clone();
        let failing = handler::map_async(move |_: HandlerContext, map: Arc<ConfigMap>| {
            let is_broken = broken.load(Ordering::Relaxed);
            async move { if is_broken { Err("no") } else { Ok(Some(request(&map.name_any()))) } }
        });
        let (controller, notes) = written_down(watcher(&world).watches(Watch::new(source::kind(), failing)));
        controller.wait_ready().await.unwrap();
        world.create("a").await;
        world.clock.sleep(Duration::from_secs(300)).await;
        let changes = controller.unhandled_changes();
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].object, Some(ObjectKey::new("default", "a")));
        assert_eq!((changes[0].attempts, changes[0].error.as_deref()), (10, Some("no")));
        assert!(changes[0].to_string().ends_with(" failed 10 times)"), "{}", changes[0]);
        is_broken.store(false, Ordering::Relaxed);
        world.touch("a", "1").await;
        world.settle().await;
        assert_eq!(
            (notes.requests(), controller.unhandled_changes()),
            (vec!["default/a".to_owned()], vec![])
        );
    });
}

#[test]
fn a_stop_drops_an_async_handler_where_it_waits() {
    World::run(6, |world| async move {
        let (watch, seen) = slow(50);
        let (controller, notes) = written_down(watcher(&world).watches(watch));
        controller.wait_ready().await.unwrap();
        world.create("a").await;
        world.settle().await;
        let before = world.clock.now();
        let _ = controller.stop().await.unwrap();
        assert_eq!(world.clock.now(), before);
        world.clock.sleep(Duration::from_secs(100)).await;
        assert!(seen.lock().unwrap().is_empty() && notes.len() == 0);
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.settle().await;
        assert_eq!((notes.triggers(), notes.len()), (vec!["ConfigMap default/a initial".to_owned()], 1));
    });
}

#[test]
fn a_watch_that_is_removed_drops_its_async_handler_where_it_waits() {
    World::run(10, |world| async move {
        let (watch, seen) = slow(50);
        let nothing =
            Watch::<ConfigMap>::new(source::kind(), handler::object()).filter(|_: &Change<'_, _>| false);
        let (controller, notes) = written_down(watcher(&world).watches(nothing));
        controller.wait_ready().await.unwrap();
        let watch = controller.watch(watch).unwrap();
        world.create("a").await;
        world.settle().await;
        watch.unregister().await;
        world.clock.sleep(Duration::from_secs(100)).await;
        assert!(seen.lock().unwrap().is_empty() && notes.len() == 0);
    });
}

#[test]
fn a_full_channel_with_an_async_handler_makes_senders_wait() {
    World::run(7, |world| async move {
        let (sender, numbers) = source::channel_with::<u32>("numbers", 1);
        let slow = handler::map_async(|ctx: HandlerContext, number: Arc<u32>| async move {
            ctx.clock().sleep(Duration::from_secs(10)).await;
            Ok::<_, Error>([request(&number.to_string())])
        });
        let (controller, notes) = written_down(watcher(&world).watches(Watch::new(numbers, slow)));
        controller.wait_ready().await.unwrap();
        let start = world.clock.now();
        for number in 0..4 {
            sender.send(number).await.unwrap();
        }
        // One is handled and one is in the channel.
        assert!(world.clock.now().duration_since(start) >= Duration::from_secs(20));
        world.clock.sleep(Duration::from_secs(41)).await;
        assert_eq!(notes.requests(), ["default/0", "default/1", "default/2", "default/3"]);
        assert_eq!(notes.triggers(), ["numbers generic"; 4]);
    });
}

#[test]
fn a_channel_of_capacity_zero_has_room_for_one_item() {
    let (sender, _numbers) = source::channel_with::<u32>("numbers", 0);
    assert_eq!(sender.try_send(1), Ok(()));
    assert_eq!(sender.try_send(2), Err(source::SendError::Full));
}

/// When each object was reconciled, since a time.
fn times(notes: &Notes, start: Instant) -> Vec<(String, Duration)> {
    let time =
        |at: Instant| Duration::from_millis(at.duration_since(start).as_millis().try_into().expect("short"));
    notes.all().iter().map(|note| (note.request.name().to_owned(), time(note.at))).collect()
}

#[test]
fn a_request_that_is_added_after_a_delay_comes_then_or_with_an_earlier_one() {
    World::run(8, |world| async move {
        let handler = |change: &Change<'_, ConfigMap>, requests: &mut Requests<'_>| match change.kind() {
            ChangeKind::Create => {
                requests.add(request("now"));
                requests.add_after(request("late"), Duration::from_secs(10));
                requests.add_after(request("later"), Duration::from_secs(20));
            }
            _ => requests.add(request("late")),
        };
        let (controller, notes) = written_down(watcher(&world).watches(Watch::new(source::kind(), handler)));
        controller.wait_ready().await.unwrap();
        let start = world.clock.now();
        world.create("a").await;
        world.clock.sleep(Duration::from_secs(5)).await;
        world.touch("a", "1").await;
        world.clock.sleep(Duration::from_secs(60)).await;
        let expected = [("now", 0), ("late", 5), ("later", 20)];
        assert_eq!(
            times(&notes, start),
            expected.map(|(name, time)| (name.to_owned(), Duration::from_secs(time)))
        );
        assert_eq!(
            notes.triggers()[1..],
            ["ConfigMap default/a created; ConfigMap default/a updated", "ConfigMap default/a created"]
        );
    });
}

#[test]
fn rate_limited_requests_come_later_each_time_until_a_reconcile_succeeds() {
    World::run(9, |world| async move {
        let handler = |change: &Change<'_, ConfigMap>, requests: &mut Requests<'_>| {
            requests.add_rate_limited(request(&change.object().name_any()));
        };
        let limiter = || ItemExponentialFailure::new(Duration::from_secs(4), Duration::from_secs(1000));
        let builder = watcher(&world).limiter(limiter).watches(Watch::new(source::kind(), handler));
        let (controller, notes) = written_down(builder);
        controller.wait_ready().await.unwrap();
        for round in ["1", "2"] {
            // The second time the limiter has forgotten the first.
            let (before, start) = (notes.len(), world.clock.now());
            if round == "1" {
                world.create("a").await;
            } else {
                world.touch("a", round).await;
            }
            world.clock.sleep(Duration::from_secs(60)).await;
            assert_eq!(times(&notes, start)[before..], [("a".to_owned(), Duration::from_secs(4))], "{round}");
        }
    });
}
