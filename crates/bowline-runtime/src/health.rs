//! Whether a program is alive and ready, as kubelets ask: named checks, and the server that runs them.
//!
//! ```no_run
//! use bowline_clock::Clock;
//! use bowline_runtime::health::{Checks, HealthServer, Reason};
//! use tokio_util::sync::CancellationToken;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let (alive, ready) = (Checks::new(), Checks::new());
//! ready.add("database", || async { Err(Reason::shown("no connection yet")) });
//! let scope = Clock::real().scope("probes");
//! if let Some(bound) = HealthServer::default().bind(&alive, &ready, &scope.spawner()).await? {
//!     bound.serve(CancellationToken::new()).await;
//! }
//! # Ok(())
//! # }
//! ```

mod check;
mod report;
mod server;

pub use check::{Checks, Reason};
pub use server::HealthServer;
