//! The shell under a model checker: `shuttle` runs the very source files of the crate through thousands of schedules,
//! with its own locks and threads in place of the standard ones. A lost wake-up shows as a deadlock.
//!
//! Only [`env`] differs from the crate. A failing schedule is printed and can be replayed.

#![allow(dead_code, unreachable_pub, reason = "the crate's modules are whole, the tests use a part")]
#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]
#![expect(clippy::inline_always, reason = "the crate's own reason")]

#[path = "../../src/add.rs"]
mod add;
#[path = "../../src/arena.rs"]
mod arena;
#[path = "../../src/builder.rs"]
mod builder;
#[path = "../../src/delayed.rs"]
mod delayed;
mod env;
#[path = "../../src/get.rs"]
mod get;
#[path = "../../src/hash.rs"]
mod hash;
#[path = "../../src/item.rs"]
mod item;
#[path = "../../src/list.rs"]
mod list;
#[path = "../../src/machine.rs"]
mod machine;
#[path = "../../src/metrics.rs"]
mod metrics;
#[path = "../../src/queue.rs"]
mod queue;
#[path = "../../src/ready.rs"]
mod ready;
mod schedules;
#[path = "../../src/shared.rs"]
mod shared;
#[path = "../../src/stats.rs"]
mod stats;
#[path = "../../src/timings.rs"]
mod timings;
#[path = "../../src/waiters.rs"]
mod waiters;

/// Limiters hold no lock and read no clock, so the crate's own are used.
mod limiter {
    pub(crate) use bowline_workqueue::{ItemExponentialFailure, RateLimiter};
}

pub use add::AddOptions;
pub use bowline_workqueue::{Coalesce, Key};
pub use builder::WorkQueueBuilder;
pub use item::Item;
pub use queue::WorkQueue;
pub use stats::{DrainResult, QueueStats};
pub use timings::InProgress;
