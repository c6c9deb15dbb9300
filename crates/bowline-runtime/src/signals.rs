//! Termination signals of a process. Programs decide how to react.

use std::io;

/// Termination signals: SIGINT and SIGTERM, or Ctrl-C on systems without them.
///
/// ```no_run
/// use bowline_runtime::{Controller, Signals};
///
/// async fn run(controller: &Controller) -> Result<(), Box<dyn std::error::Error>> {
///     let mut signals = Signals::listen()?;
///     controller.start()?;
///     signals.wait().await;
///     controller.stop().await?;
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    /// Starts to listen. From here on, these signals no longer end the process by themselves, and none is missed.
    ///
    /// # Errors
    /// If the system does not allow listening.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for the next signal.
    pub async fn wait(&mut self) {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
impl Signals {
    /// Does nothing on this system.
    ///
    /// # Errors
    /// Never on this system.
    #[expect(clippy::unnecessary_wraps, reason = "it can fail elsewhere")]
    pub fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Waits for Ctrl-C.
    pub async fn wait(&mut self) {
        // Without a console, Ctrl-C is impossible.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
