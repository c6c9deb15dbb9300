//! The identity of a process beyond its id. Owns the reading of `/proc`, and signals to processes that are no children of
//! this one.
//!
//! The kernel reuses a process id after its process has ended. With the start time, the boot that this time counts from, and
//! the program, the identity is unique.

use std::io;
use std::path::PathBuf;

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

/// One process of this machine, different from every later process with its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    pid: u32,
    /// Start time in ticks since the machine's boot.
    started: u64,
    boot: String,
    executable: PathBuf,
}

impl Identity {
    /// The process that has this id now. None if there is none, or only a zombie.
    pub(super) fn of(pid: u32) -> io::Result<Option<Self>> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        let found = std::fs::read_to_string(format!("/proc/{pid}/stat")).and_then(|stat| {
            let executable = std::fs::read_link(format!("/proc/{pid}/exe"))?;
            Ok((stat, executable))
        });
        let (stat, executable) = match found {
            Ok(found) => found,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some((state, started)) = state_and_start(&stat) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("/proc/{pid}/stat is not as expected"),
            ));
        };
        let executable = without_deletion(executable);
        Ok((!matches!(state, 'Z' | 'X')).then_some(Self { pid, started, boot, executable }))
    }

    /// Whether this very process still runs.
    pub(super) fn is_running(&self) -> io::Result<bool> {
        match Self::of(self.pid) {
            Ok(now) => Ok(now.as_ref() == Some(self)),
            // Another user's process has the id now.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends a signal to this very process, and returns whether it ran.
    #[cfg(target_os = "linux")]
    pub(super) fn signal(&self, signal: Signal) -> io::Result<bool> {
        use rustix::io::Errno;
        use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};

        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return Ok(false) };
        // The handle stays with the process that it was opened for, so it is opened before the check.
        let handle = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => handle,
            Err(Errno::SRCH) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        if !self.is_running()? {
            return Ok(false);
        }
        match pidfd_send_signal(handle, signal) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Other systems have no `/proc`.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn signal(&self, _: Signal) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The state and the start time in `/proc/PID/stat`. The name in its second field may contain anything, also
/// parentheses.
fn state_and_start(stat: &str) -> Option<(char, u64)> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    // It is field 22, and the state is field 3.
    Some((state, fields.nth(18)?.parse().ok()?))
}

/// The path of a program, also if its file was replaced while it runs.
fn without_deletion(executable: PathBuf) -> PathBuf {
    match executable.to_str().and_then(|text| text.strip_suffix(" (deleted)")) {
        Some(text) => PathBuf::from(text),
        None => executable,
    }
}

fn is_gone(error: &io::Error) -> bool {
    // Reading returns the second error when the process ends meanwhile.
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Child, Command, Stdio};

    fn sleeper() -> (Child, Identity) {
        // A sleeper that a failed test leaves behind must not hold the output of the tests open.
        let child = Command::new("sleep")
            .arg("600")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("sleep is there");
        let identity = Identity::of(child.id()).expect("there is /proc").expect("it runs");
        (child, identity)
    }

    #[test]
    fn the_process_itself_gets_the_signal() {
        let (mut child, identity) = sleeper();
        assert!(identity.executable.is_absolute(), "{identity:?}");
        assert!(identity.is_running().unwrap());
        assert!(identity.signal(Signal::TERM).unwrap());
        assert_eq!(child.wait().unwrap().signal(), Some(15));
        assert!(!identity.is_running().unwrap());
        assert!(!identity.signal(Signal::TERM).unwrap());
    }

    #[test]
    fn another_process_with_the_same_id_is_left_alone() {
        let (mut child, identity) = sleeper();
        let earlier = Identity { started: identity.started - 1, ..identity.clone() };
        let other_boot = Identity { boot: "another".to_owned(), ..identity.clone() };
        let other_program = Identity { executable: "/bin/another".into(), ..identity.clone() };
        for recycled in [earlier, other_boot, other_program] {
            assert!(!recycled.is_running().unwrap(), "{recycled:?}");
            assert!(!recycled.signal(Signal::KILL).unwrap(), "{recycled:?}");
        }
        assert!(identity.is_running().unwrap());
        assert_eq!(child.try_wait().unwrap(), None);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn what_is_left_of_a_process_does_not_run() {
        let (mut child, identity) = sleeper();
        child.kill().unwrap();
        // It is not waited for yet, so that it keeps its id.
        while identity.is_running().unwrap() {
            std::thread::yield_now();
        }
        assert_eq!(Identity::of(child.id()).unwrap(), None);
        child.wait().unwrap();
    }

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat = "7 (a) R (b c) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1";
        assert_eq!(state_and_start(stat), Some(('S', 4711)));
        assert_eq!(without_deletion("/bin/x (deleted)".into()), PathBuf::from("/bin/x"));
    }
}
