//! Liveness and readiness: named checks, and the server that runs them for kubelets.
//!
//! ```no_run
//! use bowline_clock::Clock;
//! use bowline_runtime::health::{HealthChecks, HealthServer, CheckFailure};
//! use tokio_util::sync::CancellationToken;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let (alive, ready) = (HealthChecks::new(), HealthChecks::new());
//! ready.add("database", || async { Err(CheckFailure::public("no connection yet")) });
//! let scope = Clock::real().scope("probes");
//! if let Some(bound) = HealthServer::default().bind(&scope.spawner(), &alive, &ready).await? {
//!     bound.serve(CancellationToken::new()).await;
//! }
//! # Ok(())
//! # }
//! ```

mod check;
mod report;
mod server;

pub use check::{CheckFailure, HealthChecks};
pub use server::HealthServer;
