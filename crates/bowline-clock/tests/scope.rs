//! The guarantees of a scope about its tasks.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake};
use std::time::Duration;

use bowline_clock::{Clock, Simulation, TaskError};

const SECOND: Duration = Duration::from_secs(1);

/// Decrements a counter when it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(counter: &Arc<AtomicUsize>) -> Self {
        counter.fetch_add(1, Ordering::SeqCst);
        Self(counter.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn abort_drops_every_task_of_the_scope_and_below_but_not_beside() {
    Simulation::new(0).run(|clock| async move {
        let (alive, beside) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let root = clock.scope("root");
        let (operator, plane) = (root.scope("operator"), root.scope("plane"));
        let below = operator.scope("below");
        for scope in [&operator, &below] {
            let counted = Counted::new(&alive);
            scope.spawn("task", async move {
                let _counted = counted;
                pending::<()>().await;
            });
        }
        let counted = Counted::new(&beside);
        plane.spawn("task", async move {
            let _counted = counted;
            pending::<()>().await;
        });
        clock.sleep(SECOND).await;
        assert_eq!((root.running(), operator.running(), below.running()), (3, 2, 1));

        operator.abort();
        operator.wait_ended().await;
        assert_eq!((alive.load(Ordering::SeqCst), beside.load(Ordering::SeqCst)), (0, 1));
        assert_eq!((root.running(), plane.running()), (1, 1));
    });
}

#[test]
fn a_task_aborted_before_its_first_poll_is_dropped_too() {
    Simulation::new(0).run(|clock| async move {
        let alive = Arc::new(AtomicUsize::new(0));
        let scope = clock.scope("scope");
        let counted = Counted::new(&alive);
        let task = scope.spawn("task", async move { drop(counted) });
        scope.abort();
        scope.wait_ended().await;
        assert_eq!(alive.load(Ordering::SeqCst), 0);
        assert_eq!(task.await, Err(TaskError::Aborted { task: "scope/task".into() }));
    });
}

#[test]
fn dropping_a_scope_aborts_its_tasks_even_while_a_spawner_is_held() {
    Simulation::new(0).run(|clock| async move {
        let scope = clock.scope("scope");
        let spawner = scope.spawner();
        let task = scope.spawn("task", pending::<()>());
        drop(scope);
        assert!(matches!(task.await, Err(TaskError::Aborted { .. })));
        assert!(matches!(spawner.spawn("late", async {}).await, Err(TaskError::Aborted { .. })));
    });
}

#[test]
fn drain_cancels_waits_and_is_clean_when_all_tasks_end_in_time() {
    Simulation::new(0).run(|clock| async move {
        let scope = clock.scope("scope");
        let below = scope.scope("below");
        let (token, inner) = (below.cancellation(), clock.clone());
        let task = below.spawn("polite", async move {
            token.cancelled().await;
            inner.sleep(SECOND).await;
            "cleaned up"
        });
        let drained = scope.drain(SECOND * 5).await;
        assert!(drained.is_clean(), "{drained:?}");
        assert_eq!(task.await.unwrap(), "cleaned up");
        assert_eq!(clock.now().duration_since(bowline_clock::Instant::ZERO), SECOND);
    });
}

#[test]
fn drain_aborts_and_names_tasks_that_do_not_end() {
    Simulation::new(0).run(|clock| async move {
        let scope = clock.scope("manager");
        let below = scope.scope("webhooks");
        let stuck = below.spawn("stuck", pending::<()>());
        let drained = scope.drain(SECOND).await;
        assert_eq!(drained.left(), ["manager/webhooks/stuck"]);
        assert!(matches!(stuck.await, Err(TaskError::Aborted { .. })));
        assert_eq!(clock.now().duration_since(bowline_clock::Instant::ZERO), SECOND);
    });
}

#[test]
fn a_closed_scope_refuses_tasks_and_scopes() {
    Simulation::new(0).run(|clock| async move {
        let scope = clock.scope("scope");
        assert!(scope.drain(SECOND).await.is_clean());
        assert!(matches!(scope.spawn("late", async {}).await, Err(TaskError::Aborted { .. })));
        assert!(matches!(scope.scope("child").spawn("late", async {}).await, Err(TaskError::Aborted { .. })));
        let blocking = scope.spawner().spawn_blocking("late", || ());
        assert!(matches!(blocking.await, Err(TaskError::Aborted { .. })));
    });
}

#[test]
fn a_panic_ends_its_task_alone_and_is_counted() {
    Simulation::new(0).run(|clock| async move {
        let root = clock.scope("root");
        let scope = root.scope("scope");
        let bad = scope.spawn("bad", async { panic!("out of tea") });
        let worse = scope.spawner().spawn_blocking("worse", || -> () { panic!("out of {}", "milk") });
        let good = scope.spawn("good", async { 1 });
        let error = TaskError::Panicked { task: "root/scope/bad".into(), message: "out of tea".into() };
        assert_eq!(bad.await, Err::<(), _>(error));
        assert_eq!(worse.await.unwrap_err().to_string(), "task root/scope/worse panicked: out of milk");
        assert_eq!(good.await, Ok(1));
        drop(scope);
        assert_eq!((root.panicked(), root.running()), (2, 0));
    });
}

#[test]
fn blocking_work_runs_inline_in_a_simulation() {
    Simulation::new(0).run(|clock| async move {
        let here = std::thread::current().id();
        let task = clock.scope("scope").spawner().spawn_blocking("work", || std::thread::current().id());
        assert_eq!(task.await, Ok(here));
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocking_work_runs_elsewhere_in_real_time_and_drain_waits_for_it() {
    let scope = Clock::real().scope("scope");
    let here = std::thread::current().id();
    let task = scope.spawner().spawn_blocking("work", || std::thread::current().id());
    assert!(scope.drain(SECOND * 60).await.is_clean());
    assert_ne!(task.await, Ok(here));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abort_that_races_with_spawning_leaves_no_task() {
    for _ in 0..200 {
        let scope = Clock::real().scope("scope");
        let spawner = scope.spawner();
        let racing = Clock::real().scope("racing");
        let adding = racing.spawn("adding", async move {
            for _ in 0..20 {
                spawner.spawn("task", pending::<()>());
                tokio::task::yield_now().await;
            }
        });
        tokio::task::yield_now().await;
        scope.abort();
        adding.await.unwrap();
        Clock::real().timeout(SECOND * 60, scope.wait_ended()).await.expect("every task is aborted");
    }
}

/// A waker that keeps the thread that wakes it until all senders are gone, and collects what they sent.
struct Collector(Mutex<(mpsc::Receiver<&'static str>, Vec<&'static str>)>);

impl Wake for Collector {
    fn wake(self: Arc<Self>) {
        let mut collector = self.0.lock().expect("no collector panics");
        while let Ok(text) = collector.0.recv_timeout(SECOND * 60) {
            collector.1.push(text);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_waits_for_its_token_does_not_act_when_it_is_aborted() {
    let scope = Clock::real().scope("scope");
    let below = scope.scope("below");
    let (sender, receiver) = mpsc::channel();
    for (scope, name) in [(&scope, "scope"), (&below, "below")] {
        let (token, sender) = (scope.cancellation(), sender.clone());
        let (waits, waiting) = tokio::sync::oneshot::channel();
        scope.spawn("task", async move {
            let mut cancelled = pin!(token.cancelled());
            let mut waits = Some(waits);
            poll_fn(|cx| {
                let poll = cancelled.as_mut().poll(cx);
                let _ = waits.take().map(|waits| waits.send(()));
                poll
            })
            .await;
            let _ = sender.send(name);
        });
        waiting.await.unwrap();
    }
    drop(sender);
    // It is woken in the middle of the abort, after the tasks that wait for the same token, and gives them time to act.
    let collector = Arc::new(Collector(Mutex::new((receiver, Vec::new()))));
    let token = scope.cancellation();
    let mut cancelled = Box::pin(token.cancelled());
    let waker = collector.clone().into();
    assert!(cancelled.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());

    scope.abort();
    Clock::real().timeout(SECOND * 60, scope.wait_ended()).await.expect("every task is aborted");
    assert!(cancelled.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
    let acted = &collector.0.lock().unwrap().1;
    assert!(acted.is_empty(), "{acted:?}");
}
