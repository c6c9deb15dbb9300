//! The fault kit of a test environment's embedded server.

use bowline_apiserver::faults::Faults;

use super::{EnvError, TestEnv};

impl TestEnv {
    /// The fault kit of the embedded server: rules that make requests fail, and a record of all requests, also those of the
    /// test itself. The guide of [`faults`](crate::faults) has the faults and selections.
    ///
    /// # Errors
    /// [`EnvError::Faults`] on the other arms: no fault can be injected into a server outside this process.
    pub fn faults(&self) -> Result<&Faults, EnvError> {
        self.inner.faults.as_ref().ok_or_else(|| EnvError::Faults { arm: self.arm().name() })
    }
}
