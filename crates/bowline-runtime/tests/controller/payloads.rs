//! Sources of items that are no Kubernetes objects, and sources that say when their initial content is delivered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bowline_runtime::source::Sink;
use bowline_runtime::{
    Action, Change, Context, Controller, ControllerBuilder, ControllerError, Error, Request, Watch, handler,
    source,
};
use k8s_openapi::api::core::v1::ConfigMap;

use crate::world::{Notes, World};

/// A push to a registry.
#[derive(Clone)]
struct Push {
    image: &'static str,
}

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

fn by_image(push: &Push) -> [Request; 1] {
    [Request::new("default", push.image)]
}

#[test]
fn items_of_any_type_come_through_channels_streams_and_functions() {
    World::run(1, |world| async move {
        let (sender, channel) = source::channel("channel");
        let stream = source::stream("stream", futures::stream::iter([Push { image: "streamed" }]));
        let function = source::function("function", |mut sink: Sink<Push>| async move {
            sink.payload(&Push { image: "found" }).await;
        });
        let builder = Controller::builder(&world.cluster)
            .named("pushes")
            .watches(Watch::new(channel, handler::map(by_image)))
            .watches(Watch::new(stream, handler::map(by_image)))
            .watches(
                Watch::new(function, handler::map(by_image))
                    .filter(|change: &Change<'_, Push>| change.object().image != "ignored"),
            )
            .filter(|_: &Change<'_, _>| panic!("a payload has no metadata to be asked about"));
        let (controller, notes) = written_down(builder);
        controller.wait_ready().await.unwrap();
        sender.send(Push { image: "sent" }).await.unwrap();
        world.settle().await;
        let mut seen: Vec<_> = notes.requests().into_iter().zip(notes.triggers()).collect();
        seen.sort();
        let expected = [
            ("default/found", "function generic"),
            ("default/sent", "channel generic"),
            ("default/streamed", "stream generic"),
        ];
        assert_eq!(seen, expected.map(|(request, trigger)| (request.to_owned(), trigger.to_owned())));
    });
}

#[test]
fn triggers_name_the_objects_of_a_channel_and_filters_see_them_if_it_says_that_it_has_objects() {
    World::run(2, |world| async move {
        let (sender, maps) = source::channel::<ConfigMap>("maps");
        let all = handler::map(|_: &ConfigMap| [Request::new("default", "all")]);
        let builder = Controller::builder(&world.cluster)
            .named("maps")
            .watches(Watch::new(maps.objects(), all))
            .filter(|change: &Change<'_, _>| change.meta().name.as_deref() != Some("ignored"));
        let (controller, notes) = written_down(builder);
        controller.wait_ready().await.unwrap();
        for name in ["ignored", "a"] {
            sender.send(world.create(name).await).await.unwrap();
            world.settle().await;
        }
        assert_eq!(notes.triggers(), ["maps default/a generic"]);
    });
}

#[test]
fn a_payload_for_which_a_handler_panics_is_retried_and_named_by_its_source_until_another_goes_through() {
    World::run(3, |world| async move {
        let (sender, pushes) = source::channel("pushes");
        let handler = handler::map(|push: &Push| {
            assert_ne!(push.image, "poison", "on purpose");
            by_image(push)
        });
        let builder = Controller::builder(&world.cluster).named("pushes");
        let (controller, notes) = written_down(builder.watches(Watch::new(pushes, handler)));
        controller.wait_ready().await.unwrap();
        sender.send(Push { image: "poison" }).await.unwrap();
        world.clock.sleep(Duration::from_secs(300)).await;
        let changes = controller.unhandled_changes();
        assert_eq!((changes.len(), &*changes[0].source, &changes[0].object), (1, "pushes", &None));
        assert!(changes[0].to_string().starts_with("pushes ("), "{}", changes[0]);
        sender.send(Push { image: "good" }).await.unwrap();
        world.settle().await;
        assert_eq!(
            (notes.requests(), controller.unhandled_changes()),
            (vec!["default/good".to_owned()], vec![])
        );
    });
}

/// A function that delivers one item after some time, and then goes on for ever.
fn delivering(world: &World, seconds: u64) -> source::FunctionSource<Push> {
    let clock = world.clock.clone();
    source::function("inventory", move |mut sink: Sink<Push>| {
        let clock = clock.clone();
        async move {
            clock.sleep(Duration::from_secs(seconds)).await;
            sink.payload(&Push { image: "found" }).await;
            sink.synced();
            std::future::pending::<()>().await;
        }
    })
}

#[test]
fn no_reconcile_starts_before_a_function_that_reports_it_has_delivered_its_initial_content() {
    World::run(4, |world| async move {
        world.create("a").await;
        let watch = Watch::new(delivering(&world, 30).reports_sync(), handler::map(by_image));
        let (controller, notes) = written_down(world.cluster.controller::<ConfigMap>().watches(watch));
        world.clock.sleep(Duration::from_secs(29)).await;
        assert!(!controller.is_ready() && notes.len() == 0);
        let waiting: Vec<_> = controller.waiting_for().iter().map(ToString::to_string).collect();
        assert_eq!(waiting, ["inventory (its initial content is not delivered: it calls `Sink::synced`)"]);
        world.clock.sleep(Duration::from_secs(2)).await;
        assert!(controller.is_ready() && controller.waiting_for().is_empty());
        // Changes come before initial objects.
        assert_eq!(notes.requests(), ["default/found", "default/a"]);
    });
}

#[test]
fn a_function_that_does_not_report_when_it_is_synced_is_not_waited_for() {
    World::run(5, |world| async move {
        let watch = Watch::new(delivering(&world, 30), handler::map(by_image));
        let (controller, _) = written_down(world.cluster.controller::<ConfigMap>().watches(watch));
        controller.wait_ready().await.unwrap();
        assert!(world.clock.now().duration_since(bowline_clock::Instant::ZERO) < Duration::from_secs(30));
    });
}

#[test]
fn a_function_that_does_not_deliver_its_initial_content_in_time_ends_the_controller() {
    World::run(6, |world| async move {
        let watch = Watch::new(delivering(&world, 3600).reports_sync(), handler::map(by_image));
        let builder = world.cluster.controller::<ConfigMap>().sync_timeout(Duration::from_secs(20));
        let (controller, notes) = written_down(builder.watches(watch));
        let error = controller.wait_ready().await.unwrap_err();
        assert!(matches!(error, ControllerError::NotSynced { .. }), "{error}");
        assert!(error.to_string().contains("inventory (its initial content is not delivered"), "{error}");
        assert_eq!(notes.len(), 0);
    });
}

#[test]
fn a_function_that_panics_before_it_is_synced_is_waited_for_and_one_that_ends_is_not() {
    World::run(7, |world| async move {
        let calls = Arc::new(AtomicU32::new(0));
        let function = source::function("inventory", move |mut sink: Sink<Push>| {
            let call = calls.fetch_add(1, Ordering::Relaxed);
            async move {
                assert!(call > 0, "on purpose");
                sink.payload(&Push { image: "found" }).await;
            }
        });
        let watch = Watch::new(function.reports_sync(), handler::map(by_image));
        let (controller, notes) =
            written_down(Controller::builder(&world.cluster).named("pushes").watches(watch));
        world.settle().await;
        assert!(!controller.is_ready());
        world.clock.sleep(Duration::from_secs(1)).await;
        assert!(controller.is_ready());
        assert_eq!(notes.requests(), ["default/found"]);
    });
}
