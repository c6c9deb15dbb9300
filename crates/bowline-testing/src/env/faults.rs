//! The fault kit of a test environment's embedded server.

use bowline_apiserver::faults::Faults;

use super::{EnvError, TestEnv, identity};

impl TestEnv {
    /// The fault kit of the embedded server: rules that make requests fail, and a record of all requests, also those of the
    /// test itself. The guide of [`faults`](crate::faults) has the faults and selections.
    ///
    /// The test's own waits, reads and writes are requests too. A rule for the operator alone selects its
    /// [user](Self::operator_user):
    ///
    /// ```
    /// # use bowline_testing::TestEnv;
    /// # TestEnv::test(async |env| -> bowline_runtime::Result<()> {
    /// let away = env.faults()?.all().user(env.operator_user()).lose_request();
    /// // The operator cannot reach the server; the test can.
    /// away.remove();
    /// # Ok(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`EnvError::Faults`] on the other arms: no fault can be injected into a server outside this process.
    pub fn faults(&self) -> Result<&Faults, EnvError> {
        self.inner.faults.as_ref().ok_or_else(|| EnvError::Faults { arm: self.arm().name() })
    }

    /// Name of the operator's [user](TestEnv#users), for selections of [faults](Self::faults) and for role bindings:
    /// `system:serviceaccount:NAMESPACE:operator`. On [`Arm::Existing`](super::Arm::Existing) the operator has no user of its
    /// own, and no request has this name.
    #[must_use]
    pub fn operator_user(&self) -> String {
        identity::user_name(self.namespace())
    }
}
