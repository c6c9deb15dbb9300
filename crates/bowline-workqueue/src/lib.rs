//! A work queue between event handlers and reconcilers.
#![doc = include_str!("guide.md")]
#![expect(
    clippy::inline_always,
    reason = "the way of a key through the queue is some seventy nanoseconds; without these, a third of it is spent \
              on copying keys from one stack frame to the next"
)]

mod add;
mod arena;
mod builder;
mod coalesce;
mod delayed;
mod env;
mod get;
mod hash;
mod item;
mod key;
mod limiter;
mod list;
mod lock;
mod machine;
mod metrics;
#[cfg(test)]
mod model;
mod queue;
mod ready;
mod shared;
mod stats;
mod timings;
mod waiters;

pub use add::AddOptions;
pub use builder::WorkQueueBuilder;
pub use coalesce::Coalesce;
pub use get::Get;
pub use item::Item;
pub use key::Key;
pub use limiter::{
    InvalidBucket, ItemExponentialFailure, ItemFastSlow, MaxOf, MinInterval, RateLimiter, TokenBucket,
    WithMaxWait,
};
pub use metrics::{Gauges, Metrics};
pub use queue::{BATCH, PANIC_DELAY, WorkQueue};
pub use stats::{DrainResult, QueueStats};
pub use timings::InProgress;
