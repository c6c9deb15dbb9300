//! Resource usage of a process: this one, or another.

use std::time::Duration;
use std::{fs, io};

use bowline_clock::Clock;
use rustix::time::{ClockId, clock_gettime};

/// Number of samples over which a settled value changes by less than 1 %.
const LOOKS: usize = 6;
const MOST_LOOKS: usize = 60;

/// CPU seconds of all threads of this process, in user and kernel mode.
pub(crate) fn cpu_seconds() -> f64 {
    let used = Duration::try_from(clock_gettime(ClockId::ProcessCPUTime));
    used.expect("no process has used less than nothing").as_secs_f64()
}

/// A field of `/proc/self/status` in KiB, converted to MiB.
///
/// # Panics
/// When the field does not exist, as on systems other than Linux.
pub(crate) fn status_mib(field: &str) -> f64 {
    status_mib_of(std::process::id(), field).expect("Linux has /proc")
}

/// CPU seconds of all threads of another process, in user and kernel mode, with a resolution of about a hundredth.
///
/// # Errors
/// When the process does not exist.
#[expect(clippy::cast_precision_loss, reason = "nobody counts to 2^53")]
pub(crate) fn cpu_seconds_of(pid: u32) -> io::Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let ticks = ticks(&stat).ok_or_else(|| unexpected(&stat))?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// A field of another process's `/proc/PID/status` in KiB, converted to MiB.
///
/// # Errors
/// When the process or the field does not exist.
pub(crate) fn status_mib_of(pid: u32, field: &str) -> io::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kib.map(|kib| kib / 1024.0).ok_or_else(|| unexpected(&status))
}

/// Value of `look` once it no longer changes, or after the last sample.
///
/// # Errors
/// When `look` fails.
pub(crate) async fn settled(
    clock: &Clock,
    between: Duration,
    look: impl Fn() -> io::Result<f64>,
) -> io::Result<f64> {
    let mut looks = Vec::new();
    while looks.len() < MOST_LOOKS && !is_settled(&looks) {
        clock.sleep(between).await;
        looks.push(look()?);
    }
    Ok(looks.pop().unwrap_or_default())
}

fn is_settled(looks: &[f64]) -> bool {
    let Some(last) = looks.len().checked_sub(LOOKS).map(|first| &looks[first..]) else { return false };
    let (least, most) = last.iter().fold((f64::MAX, 0.0_f64), |(a, b), look| (a.min(*look), b.max(*look)));
    most <= least * 1.01
}

/// User and kernel time, fields 14 and 15. The second field is the program's name and may hold anything, but nothing
/// after it holds a parenthesis.
fn ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut times = rest.split_whitespace().skip(11);
    let (user, kernel) = (times.next()?.parse::<u64>().ok()?, times.next()?.parse::<u64>().ok()?);
    Some(user + kernel)
}

fn unexpected(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not what /proc should say: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_whatever_the_program_is_called() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 100 0 0 0 250 31 9 9 20 0 4 0 5 6 7";
        assert_eq!(ticks(stat), Some(281));
        assert_eq!(ticks("7 (short) S 1"), None);
    }

    #[test]
    fn this_process_is_a_process_like_others() {
        let pid = std::process::id();
        assert!(cpu_seconds_of(pid).is_ok());
        assert!(status_mib_of(pid, "VmRSS").unwrap() > 1.0);
        assert!(status_mib_of(pid, "VmNothing").is_err());
    }

    #[test]
    fn memory_has_settled_when_the_last_looks_are_alike() {
        assert!(!is_settled(&[10.0; LOOKS - 1]));
        assert!(is_settled(&[10.0; LOOKS]));
        assert!(is_settled(&[1.0, 10.0, 10.0, 10.05, 10.0, 10.0, 10.0]));
        assert!(!is_settled(&[10.0, 10.0, 10.0, 10.0, 10.0, 10.2]));
    }
}
