//! Planes whose process is killed, so that it cannot clean up. The process is another run of this test program.
#![cfg(target_os = "linux")]

use std::process::{Command, Stdio};
use std::time::Duration;

use bowline_clock::Clock;
use bowline_testing::{Binaries, RealControlPlane};

use crate::stand_in::{LIMIT, StandIns};

/// Environment variable with the program directory of the second process.
const PROGRAMS: &str = "BOWLINE_TESTING_STAND_INS";

#[tokio::test]
async fn a_plane_ends_with_its_process_even_if_that_is_killed() {
    let stand_ins = StandIns::new("stays", "stays");
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::the_process_that_is_killed"])
        .env(PROGRAMS, stand_ins.programs())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut pids = Vec::new();
    for program in [Binaries::ETCD, Binaries::KUBE_APISERVER] {
        pids.push(stand_ins.logged(program, "pid=").await);
    }
    assert!(pids.iter().all(|pid| is_alive(pid)));
    parent.kill().unwrap();
    parent.wait().unwrap();
    let ended = async {
        while pids.iter().any(|pid| is_alive(pid)) {
            stand_ins.clock.sleep(Duration::from_millis(5)).await;
        }
    };
    stand_ins.clock.timeout(LIMIT, ended).await.expect("the processes end");
}

/// Does nothing unless the test above runs it.
#[tokio::test]
async fn the_process_that_is_killed() {
    let Some(programs) = std::env::var_os(PROGRAMS).map(std::path::PathBuf::from) else { return };
    let builder = RealControlPlane::builder(Clock::real(), Binaries::in_directory(&programs));
    // It waits for an API server without a stand-in.
    let _ = builder.directory(programs.join("plane")).ready_timeout(LIMIT).start().await;
}

/// Whether a process runs and is not a zombie.
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}
