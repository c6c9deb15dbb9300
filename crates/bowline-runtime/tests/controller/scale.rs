//! Many objects, several controllers, one watch.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bowline_runtime::{Action, Context, Controller, Error, Request, Watch, handler, source};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::Notify;

use crate::world::World;

#[test]
fn three_controllers_of_ten_thousand_objects_share_one_watch() {
    World::run(1, |world| async move {
        for number in 0..10_000 {
            world.create(&format!("object-{number:05}")).await;
        }
        let counts: Vec<Arc<AtomicUsize>> = (0..3).map(|_| Arc::default()).collect();
        for (number, count) in counts.iter().enumerate() {
            let count = count.clone();
            let controller = world
                .cluster
                .controller::<ConfigMap>()
                .named(format!("controller-{number}"))
                .concurrency(4)
                .build(move |_: Context, _: Arc<ConfigMap>| {
                    count.fetch_add(1, Ordering::Relaxed);
                    async { Ok::<_, Error>(Action::done()) }
                })
                .unwrap();
            controller.start().unwrap();
        }
        let seen = |number: usize| counts[number].load(Ordering::Relaxed);
        world.until("all are reconciled", || (0..3).all(|number| seen(number) == 10_000)).await;
        assert_eq!(world.watches("configmaps"), 1);

        // One more, whose informer is in sync already, waits for its own handler all the same: its first run knows of all.
        let counted = Arc::new(Mutex::new(Vec::new()));
        let written = counted.clone();
        let to_one = handler::map(|_: &ConfigMap| [Request::new("default", "all")]);
        let controller = Controller::builder(&world.cluster)
            .named("counting")
            .watches(Watch::new(source::kind::<ConfigMap>(), to_one))
            .build(move |context: Context, _: Request| {
                let triggers = context.triggers();
                written.lock().unwrap().push(triggers.iter().count() as u64 + triggers.more());
                async { Ok::<_, Error>(Action::done()) }
            })
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.settle().await;
        assert_eq!(*counted.lock().unwrap(), [10_000]);

        world.touch("object-00042", "1").await;
        world.settle().await;
        assert_eq!((0..3).map(seen).collect::<Vec<_>>(), [10_001; 3]);
        assert_eq!(world.cluster.history().runs().len(), 256, "the history keeps the last ones");
    });
}

#[test]
fn a_worker_with_much_to_do_lets_others_run() {
    World::run(2, |world| async move {
        let count = Arc::new(AtomicUsize::new(0));
        let many = source::function("many", |mut sink: source::Sink<ConfigMap>| async move {
            sink.requests((0..5_000).map(|number| Request::new("default", &number.to_string())));
            std::future::pending::<()>().await;
        });
        let (done, begun) = (count.clone(), Arc::new(Notify::new()));
        let begins = begun.clone();
        let controller = Controller::builder(&world.cluster)
            .named("busy")
            .watches(Watch::new(many, handler::object()))
            .build(move |_: Context, _: Request| {
                done.fetch_add(1, Ordering::Relaxed);
                begins.notify_one();
                async { Ok::<_, Error>(Action::done()) }
            })
            .unwrap();
        controller.start().unwrap();
        // A caller that polls without a wait stops simulated time.
        begun.notified().await;
        let (mut longest, mut before) = (0, count.load(Ordering::Relaxed));
        while before < 5_000 {
            tokio::task::yield_now().await;
            let now = count.load(Ordering::Relaxed);
            longest = longest.max(now - before);
            before = now;
        }
        assert!((1..=1024).contains(&longest), "{longest} reconciles in one turn");
        world.settle().await;
    });
}
