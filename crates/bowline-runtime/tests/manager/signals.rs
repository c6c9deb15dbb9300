//! Signals to a child process: another run of this test program.
#![cfg(unix)]

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bowline_clock::Clock;
use bowline_runtime::{Runnable, Signals};

use crate::world::World;

/// Marks the child process.
const OPERATOR: &str = "BOWLINE_TEST_DEAF_OPERATOR";

/// Timeout of any step; reached only if it hangs.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_second_signal_ends_the_process_at_once() {
    for second in ["TERM", "INT"] {
        let mut operator = Operator::start();
        operator.read_until("deaf runs");
        operator.signal("TERM");
        operator.read_until("stop requested");
        assert!(operator.child.try_wait().unwrap().is_none(), "one signal is not enough");
        operator.signal(second);
        assert_eq!(operator.status(), Some(1));
    }
}

#[test]
fn a_signal_ends_a_responsive_process_gracefully() {
    let mut operator = Operator::start();
    operator.read_until("deaf runs");
    operator.signal("INT");
    operator.read_until("stop requested");
    drop(operator.child.stdin.take());
    assert_eq!(operator.status(), Some(0));
}

/// Does nothing unless the tests above run it: an operator whose runnable ends at the end of its stdin.
#[test]
fn the_operator() {
    if std::env::var_os(OPERATOR).is_none() {
        return;
    }
    World::run_in_real_time(|world| async move {
        let signals = Signals::listen().unwrap();
        let manager = world.builder().shutdown_timeout(Duration::MAX).signals(signals).build().unwrap();
        let reading = world.scope.spawn_blocking("input", || std::io::stdin().read_to_end(&mut Vec::new()));
        let deaf = Runnable::new("deaf", |cancelled| async move {
            println!("deaf runs");
            cancelled.cancelled().await;
            println!("stop requested");
            reading.await??;
            Ok::<_, bowline_runtime::Error>(())
        });
        manager.add(deaf).unwrap();
        manager.run().await.unwrap();
    });
}

/// The process.
struct Operator {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Operator {
    fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().expect("a program"))
            .args(["--exact", "signals::the_operator", "--nocapture"])
            .env(OPERATOR, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it can be started");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, output }
    }

    /// Reads until a line has this end.
    fn read_until(&mut self, end: &str) {
        let mut lines = self.output.by_ref().lines().map(|line| line.expect("text"));
        assert!(lines.any(|line| line.ends_with(end)), "it ends without {end:?}");
    }

    fn signal(&self, signal: &str) {
        let killed = Command::new("kill").args(["-s", signal, &self.child.id().to_string()]).status();
        assert!(killed.expect("there is a program of that name").success());
    }

    /// The exit status.
    fn status(&mut self) -> Option<i32> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let clock = Clock::real();
        let ended = async {
            loop {
                if let Some(status) = self.child.try_wait().expect("it is a child") {
                    return status.code();
                }
                clock.sleep(Duration::from_millis(10)).await;
            }
        };
        let ended = async { clock.timeout(LIMIT, ended).await.expect("it ends") };
        runtime.expect("a runtime can be made").block_on(ended)
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // Fails without harm if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
