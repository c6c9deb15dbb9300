//! Time, randomness and tasks: everything that a simulation must own.
//!
//! A Bowline process reads clocks, draws numbers and spawns tasks only through this crate. In production that
//! costs nothing; in a simulation the whole process then runs on one thread, on simulated time, from one seed,
//! and "the operator crashed here" is the abort of one [`Scope`]. Such a thing cannot be added later, so it is
//! here from the first day, and clippy's `disallowed-methods` refuses the ways around it.
//!
//! - [`Clock`]: monotonic time ([`Instant`]), wall time, sleeping, and the way to the two below.
//! - [`Rng`]: random numbers, and seeds for [`HashMap`]s whose order repeats in a simulation.
//! - [`Scope`], [`Spawner`], [`Task`]: tasks that belong to somebody, who can drain or abort them.
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
