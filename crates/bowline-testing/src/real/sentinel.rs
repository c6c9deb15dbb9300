//! Kills processes when their parent has ended, in whatever way. Owns the one process that outlives the parent.
//!
//! A child can ask the kernel for a signal at its parent's death only between fork and exec, which is `unsafe` in Rust.
//! The signal would also come when the *thread* that started it ends. Therefore a shell holds the reading end of a
//! pipe, and the parent holds the writing end: when the parent is gone, the pipe closes.

use std::fmt;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};

/// `watch PID` adds a process, `forget PID` removes it, `release` ends without killing. Without it, the processes are killed.
const SCRIPT: &str = r#"
pids=
while read -r word pid; do
  case $word in
    watch) pids="$pids $pid" ;;
    forget)
      left=
      for other in $pids; do [ "$other" = "$pid" ] || left="$left $other"; done
      pids=$left
      ;;
    release) exit 0 ;;
  esac
done
[ -z "$pids" ] || kill -KILL $pids
"#;

/// Kills the processes that it watches if this process ends without dropping it.
#[derive(Debug)]
pub(super) struct Sentinel {
    child: Child,
    /// `None` once it is closed.
    stdin: Option<ChildStdin>,
}

impl Sentinel {
    pub(super) fn start() -> io::Result<Self> {
        let mut child = Command::new("/bin/sh")
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            // The Ctrl-C that ends the parent must not end it too.
            .process_group(0)
            .spawn()?;
        let stdin = child.stdin.take();
        Ok(Self { child, stdin })
    }

    /// Watches one more process: a child of this one, which keeps its id until it is waited for.
    pub(super) fn watch(&mut self, pid: u32) -> io::Result<()> {
        self.tell(format_args!("watch {pid}\n"))
    }

    /// Stops watching a process. Call this as soon as it was waited for: then its id is free.
    pub(super) fn forget(&mut self, pid: u32) -> io::Result<()> {
        self.tell(format_args!("forget {pid}\n"))
    }

    fn tell(&mut self, line: fmt::Arguments<'_>) -> io::Result<()> {
        self.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?.write_fmt(line)
    }
}

impl Drop for Sentinel {
    /// Leaves all processes running.
    fn drop(&mut self) {
        if self.tell(format_args!("release\n")).is_err() {
            // It has ended, or would take the end of the pipe for the end of this process.
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;

    fn sleeper() -> Child {
        // A sleeper that a failed test leaves behind must not hold the output of the tests open.
        Command::new("sleep").arg("600").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    #[test]
    fn what_it_watches_dies_when_the_pipe_ends_and_nothing_else() {
        let mut sentinel = Sentinel::start().unwrap();
        let (mut watched, mut other, mut forgotten) = (sleeper(), sleeper(), sleeper());
        sentinel.watch(forgotten.id()).unwrap();
        sentinel.watch(watched.id()).unwrap();
        sentinel.forget(forgotten.id()).unwrap();
        // The kernel does this when this process ends.
        sentinel.stdin = None;
        sentinel.child.wait().unwrap();
        assert_eq!(watched.wait().unwrap().signal(), Some(9));
        for child in [&mut other, &mut forgotten] {
            assert_eq!(child.try_wait().unwrap(), None);
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn dropped_it_lets_them_be() {
        let mut sentinel = Sentinel::start().unwrap();
        let mut watched = sleeper();
        sentinel.watch(watched.id()).unwrap();
        drop(sentinel);
        assert_eq!(watched.try_wait().unwrap(), None);
        watched.kill().unwrap();
        watched.wait().unwrap();
    }
}
