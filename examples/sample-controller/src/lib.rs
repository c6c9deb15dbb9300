//! Kubernetes' sample-controller on Bowline: a `Foo` names a Deployment, and gets it. The logic is in `foo.rs`.

mod foo;

use bowline::prelude::*;

pub use foo::{Foo, FooSpec, FooStatus, RESYNC, reconcile, register};

/// Adds the controllers to the manager.
///
/// # Errors
/// When the manager has a controller of this name already, or has stopped.
pub fn operator(manager: &Manager) -> Result<()> {
    register(manager)?;
    Ok(())
}
