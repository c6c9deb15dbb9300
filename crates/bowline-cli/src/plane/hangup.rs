//! SIGHUP: the terminal of the server was closed.

use std::io;

/// Listens for SIGHUP, unless it is ignored: `nohup` starts programs that outlive their terminal in this way.
pub(crate) struct Hangup {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Hangup {
    pub(crate) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let signal = if is_ignored() { None } else { Some(signal(SignalKind::hangup())?) };
        Ok(Self { signal })
    }

    /// Waits for the signal.
    pub(crate) async fn wait(&mut self) {
        match &mut self.signal {
            Some(signal) => _ = signal.recv().await,
            None => std::future::pending().await,
        }
    }
}

/// Whether this process was started with SIGHUP ignored, as Linux reports it. Elsewhere it counts as not ignored.
#[cfg(unix)]
fn is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // SIGHUP is signal 1, so it has the lowest bit.
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 != 0)
}

#[cfg(not(unix))]
impl Hangup {
    #[expect(clippy::unnecessary_wraps, reason = "it can fail elsewhere")]
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    pub(crate) async fn wait(&mut self) {
        std::future::pending().await
    }
}
