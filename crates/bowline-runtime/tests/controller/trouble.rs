//! What goes wrong around a controller, and whom it hurts.

use std::time::Duration;

use bowline_runtime::{Action, Context, ControllerError, Request, Result, Watch, handler, source};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use crate::world::{World, noting};

async fn nothing(_: Context, _: Request) -> Result<Action> {
    Ok(Action::done())
}

#[test]
fn a_forbidden_kind_stops_only_the_controller_that_watches_it_which_says_what_it_waits_for() {
    World::run(1, |world| async move {
        world.forbid("secrets");
        world.create("a").await;
        let waiting = world
            .cluster
            .controller::<Secret>()
            .watches(Watch::new(source::kind::<ConfigMap>(), handler::object()))
            .build(nothing)
            .unwrap();
        waiting.start().unwrap();
        let (_other, notes) = noting(&world).await;
        world.settle().await;
        assert_eq!(notes.requests(), ["default/a"]);

        let missing: Vec<_> = waiting.waiting_for().iter().map(ToString::to_string).collect();
        assert_eq!(missing.len(), 1, "{missing:?}");
        assert!(missing[0].starts_with("secrets (v1) in all namespaces"), "{missing:?}");
        assert!(missing[0].contains("secrets is forbidden: you may not"), "{missing:?}");
        assert!(!waiting.is_ready());

        let error = waiting.ready().await.unwrap_err();
        assert!(world.clock.now().since(bowline_clock::Instant::ZERO) >= Duration::from_secs(120));
        assert!(matches!(error, ControllerError::NotSynced { .. }));
        let text = error.to_string();
        assert!(text.starts_with("the controller \"secret\" could not begin within 120s"), "{text}");
        assert!(text.contains("secrets (v1)") && text.contains("you may not"), "{text}");
        assert!(!waiting.is_running());

        // Once it may, it can be started again.
        world.heal();
        waiting.start().unwrap();
        waiting.ready().await.unwrap();
        assert_eq!(world.watches("configmaps"), 1, "controllers share a watch");
        world.touch("a", "1").await;
        world.until("the other goes on", || notes.len() == 2).await;
    });
}
