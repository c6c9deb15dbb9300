//! What this process has used so far.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CPU seconds of all threads, in user and kernel mode.
pub(crate) fn cpu_seconds() -> f64 {
    let used = Duration::try_from(clock_gettime(ClockId::ProcessCPUTime));
    used.expect("no process has used less than nothing").as_secs_f64()
}

/// A field of `/proc/self/status` that is in KiB, in MiB.
///
/// # Panics
/// Where there is no such field: not on Linux.
pub(crate) fn status_mib(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has /proc");
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kib.expect("the field is a number of KiB") / 1024.0
}
