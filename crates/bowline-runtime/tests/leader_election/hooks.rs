//! Hooks that panic.

use std::sync::{Arc, Mutex};

use bowline_clock::Simulation;

use crate::{SECOND, candidate, holder, logged, world};

#[test]
fn panicking_hooks_are_logged_by_name_and_end_nothing() {
    let logged = logged(|| {
        Simulation::new(30).run(|clock| async move {
            let (_, client) = world(&clock);
            let was_open: Arc<Mutex<Vec<bool>>> = Arc::default();
            let elector = candidate(&client, &clock, "a");
            let (seen, fence) = (was_open.clone(), elector.fence().clone());
            let elector = elector
                .on_new_leader(|leader| panic!("cannot greet {leader}"))
                .on_started_leading(|| panic!("cannot start"))
                .on_stopped_leading(move || {
                    seen.lock().unwrap().push(fence.is_open());
                    panic!("cannot stop");
                });
            let leadership = elector.acquire().await;
            assert!(
                clock.timeout(60 * SECOND, leadership.renew_until_lost()).await.is_err(),
                "it is renewed"
            );
            assert!(elector.fence().is_open());
            leadership.release().await;
            assert_eq!(holder(&client).await.as_deref(), Some(""));
            assert_eq!(*was_open.lock().unwrap(), [false], "the fence is closed before hooks are called");
        });
    });
    for (hook, panic) in [
        ("on_new_leader", "cannot greet a"),
        ("on_started_leading", "cannot start"),
        ("on_stopped_leading", "cannot stop"),
    ] {
        let line = logged.lines().find(|line| line.contains(&format!("hook=\"{hook}\"")));
        assert!(line.is_some_and(|line| line.contains(panic) && line.contains("ERROR")), "{hook}: {logged}");
    }
}
