//! A process that stops itself at the one moment that the fence cannot cover: after its last check, before bytes leave.
//!
//! That moment is too short to wait for, so an outside signal hits it only by chance. But the transport emits a trace
//! event there, and a trace subscriber can block for as long as it likes.

use std::fmt;
use std::sync::Barrier;
use std::time::Duration;

use bowline_clock::Clock;
use rustix::process::{Signal, getpid, kill_process};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// A stop takes effect sooner than this, and lasts longer.
const SURELY: Duration = Duration::from_secs(1);

/// Stops this process, once, when this many threads are about to send over a connection that was used before.
pub(crate) fn between_fence_and_socket<S>(threads: usize) -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let freezer = Freezer { clock: Clock::real(), met: Barrier::new(threads), thawed: Barrier::new(threads) };
    freezer.with_filter(Targets::new().with_target("bowline_runtime::transport", Level::TRACE))
}

struct Freezer {
    clock: Clock,
    met: Barrier,
    thawed: Barrier,
}

impl<S: Subscriber> Layer<S> for Freezer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut sending = Sending::default();
        event.record(&mut sending);
        if !sending.is_write || sending.is_new {
            return;
        }
        if self.met.wait().is_leader() {
            let begun = self.clock.now_with_suspend();
            if let Err(error) = kill_process(getpid(), Signal::STOP) {
                eprintln!("cannot freeze: {error}");
            }
            // The signal may reach another thread, and this one runs on until all are stopped.
            while self.clock.now_with_suspend().duration_since(begun) < SURELY {
                std::thread::yield_now();
            }
        }
        self.thawed.wait();
    }
}

/// A request, and the connection that it uses.
#[derive(Default)]
struct Sending {
    is_write: bool,
    is_new: bool,
}

impl Visit for Sending {
    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}

    fn record_str(&mut self, field: &Field, value: &str) {
        self.is_write |= field.name() == "request" && value.starts_with("PATCH ");
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.is_new |= field.name() == "is_new" && value;
    }
}
