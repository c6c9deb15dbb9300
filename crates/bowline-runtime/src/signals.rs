//! The signals that ask a program to end. What is done then is the program's to say.

use std::io;

/// The signals that ask a program to end: SIGINT and SIGTERM, or Ctrl-C where there are no such.
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
    /// From here on, such a signal does not end this process by itself, and none that comes is missed.
    ///
    /// # Errors
    /// When the system does not let it listen.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for one.
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
    /// Nothing to prepare here.
    ///
    /// # Errors
    /// Never here.
    #[expect(clippy::unnecessary_wraps, reason = "it can fail elsewhere")]
    pub fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Waits for Ctrl-C.
    pub async fn wait(&mut self) {
        // Without a console there is nobody to press it.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
