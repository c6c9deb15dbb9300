//! The API server that a test runs on. Owns the names of the environment variables that select it.

use std::env;

use super::EnvError;

/// Names the arm of [`TestEnv::from_env`](crate::TestEnv::from_env).
pub(super) const ARM: &str = "BOWLINE_TEST_ARM";
/// Kubeconfig of a running real control plane for the arm `real`. `cargo xtask real test` sets it.
pub(super) const REAL_KUBECONFIG: &str = "BOWLINE_REAL_KUBECONFIG";
/// Context of the kubeconfig for the arm `existing`, where tests create namespaces and CRDs.
pub(super) const CONTEXT: &str = "BOWLINE_TEST_CONTEXT";
/// Directory of the programs that the arm `real` starts, as in envtest.
pub(super) const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// The API server that a test runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Arm {
    /// A fresh server inside the test's process, without a socket. It starts in milliseconds and can run on simulated time.
    #[default]
    Embedded,
    /// A real kube-apiserver with etcd on this machine: the one in the kubeconfig `BOWLINE_REAL_KUBECONFIG`, shared with
    /// other tests; without it a fresh one, started from the programs in `KUBEBUILDER_ASSETS`, which takes seconds.
    Real,
    /// A cluster with other users: that of the context `BOWLINE_TEST_CONTEXT` in the kubeconfig `KUBECONFIG` or
    /// `~/.kube/config`. The current context is never used, so that no test acts on a cluster by accident. CRDs that no test
    /// created are not replaced.
    Existing,
}

impl Arm {
    /// The arm that `BOWLINE_TEST_ARM` names: `embedded`, `real` or `existing`. Default: embedded.
    ///
    /// # Errors
    /// [`EnvError::Arm`] for any other value.
    pub fn from_env() -> Result<Self, EnvError> {
        let Some(name) = env::var_os(ARM) else { return Ok(Self::default()) };
        Self::named(&name.to_string_lossy())
    }

    /// Its name in the environment variable.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Real => "real",
            Self::Existing => "existing",
        }
    }

    fn named(name: &str) -> Result<Self, EnvError> {
        match name {
            "" | "embedded" => Ok(Self::Embedded),
            "real" => Ok(Self::Real),
            "existing" => Ok(Self::Existing),
            _ => Err(EnvError::Arm { name: name.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_arm_has_a_name_and_the_error_for_others_lists_them() {
        let arms = ["", "embedded", "real", "existing"].map(|name| Arm::named(name).unwrap());
        assert_eq!(arms, [Arm::Embedded, Arm::Embedded, Arm::Real, Arm::Existing]);
        let message = Arm::named("kind").unwrap_err().to_string();
        assert_eq!(message, r#"BOWLINE_TEST_ARM is "kind"; set it to embedded, real or existing"#);
    }
}
