//! Time, randomness and tasks for code that can be simulated.
//!
//! A Bowline process reads clocks, draws random numbers and spawns tasks only through this crate. In production that
//! costs nothing. In a simulation the whole process runs on one thread, on simulated time, from one seed, and a crash
//! is the abort of one [`Scope`]. clippy's `disallowed-methods` forbids other ways.
//!
//! - [`Clock`]: monotonic time ([`Instant`]), wall time, sleeping, and access to the two below.
//! - [`Rng`]: random numbers, and seeds for [`HashMap`]s whose order repeats in a simulation.
//! - [`Scope`], [`Spawner`], [`Task`]: tasks with an owner that can drain or abort them.
//! - `Simulation` (feature `simulation`): one thread, paused time, one seed.
//!
//! ```
//! use std::time::Duration;
//! use bowline_clock::Clock;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let clock = Clock::real();
//! let scope = clock.scope("example");
//! let clock_inside = clock.clone();
//! let answer = scope.spawn("answer", async move {
//!     clock_inside.sleep(Duration::from_millis(1)).await;
//!     42
//! });
//! assert_eq!(answer.await.unwrap(), 42);
//! assert!(scope.drain(Duration::from_secs(1)).await.is_clean());
//! # }
//! ```

mod clock;
mod cooperate;
mod hash;
mod instant;
mod rng;
mod scope;
#[cfg(feature = "simulation")]
mod simulation;
mod task;

pub use clock::{Clock, Elapsed, Sleep};
pub use cooperate::{Progress, poll_cooperate};
pub use hash::{HashMap, HashSet, HashState};
pub use instant::Instant;
pub use rng::Rng;
pub use scope::{Drained, Scope, Spawner};
#[cfg(feature = "simulation")]
pub use simulation::Simulation;
pub use task::{Task, TaskError, panic_message};
