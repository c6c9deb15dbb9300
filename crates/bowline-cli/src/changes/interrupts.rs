//! Ctrl-C and SIGTERM while files are written: they are noted, and no longer end the process in the middle.

use bowline::runtime::Signals;
use tokio::runtime::{Builder, Runtime};

/// Signals that arrived since the begin.
#[derive(Debug)]
pub(crate) struct Interrupts {
    /// None if the system does not allow listening: then a signal ends the process, as usual.
    listening: Option<(Runtime, Signals)>,
}

impl Interrupts {
    pub(crate) fn listen() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().ok();
        let listening = runtime.and_then(|runtime| {
            let signals = runtime.block_on(async { Signals::listen().ok() })?;
            Some((runtime, signals))
        });
        Self { listening }
    }

    /// Whether one arrived since the last call.
    pub(crate) fn arrived(&mut self) -> bool {
        let Some((runtime, signals)) = &mut self.listening else { return false };
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = signals.wait() => true,
                // After the runtime has looked for signals once.
                () = tokio::task::yield_now() => false,
            }
        })
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_signal_is_noted_once() {
        let mut interrupts = Interrupts::listen();
        for signal in ["INT", "TERM"] {
            assert!(!interrupts.arrived());
            let kill = format!("kill -{signal} {}", std::process::id());
            assert!(Command::new("sh").args(["-c", &kill]).status().is_ok_and(|status| status.success()));
            // It may be on its way.
            assert!((0..100_000).any(|_| interrupts.arrived()), "{signal}");
        }
        assert!(!interrupts.arrived());
    }
}
