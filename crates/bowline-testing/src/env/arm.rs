//! Which API server a test runs on. Owns the names of the environment variables that decide it.

use std::env;

use super::EnvError;

/// Says which arm [`TestEnv::from_env`](crate::TestEnv::from_env) takes.
pub(super) const ARM: &str = "BOWLINE_TEST_ARM";
/// The kubeconfig of a real control plane that runs already, for the arm `real`: `cargo xtask real test` sets it.
pub(super) const REAL_KUBECONFIG: &str = "BOWLINE_REAL_KUBECONFIG";
/// The directory of the programs of which the arm `real` starts a control plane, if none runs: the one that envtest takes.
pub(super) const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// Which API server a test runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Arm {
    /// A server of the test's own inside its process: fresh, without a socket, there after some milliseconds, and able to
    /// run on simulated time.
    #[default]
    Embedded,
    /// A real kube-apiserver with etcd on this machine: that of the kubeconfig in `BOWLINE_REAL_KUBECONFIG`, shared with
    /// other tests, or else a fresh one that is started from the programs in `KUBEBUILDER_ASSETS`, which takes seconds.
    Real,
    /// The cluster that `kubectl` would talk to: `KUBECONFIG`, or else `~/.kube/config`, or else the cluster that the test
    /// runs in. It is shared with whoever uses it.
    Existing,
}

impl Arm {
    /// What `BOWLINE_TEST_ARM` says: `embedded`, `real` or `existing`; embedded where it is not set.
    ///
    /// # Errors
    /// [`EnvError::Arm`] when it says anything else.
    pub fn from_env() -> Result<Self, EnvError> {
        let Some(name) = env::var_os(ARM) else { return Ok(Self::default()) };
        Self::named(&name.to_string_lossy())
    }

    /// As it is called in the environment.
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
    fn each_arm_has_a_name_and_others_are_refused_with_the_right_ones() {
        let arms = ["", "embedded", "real", "existing"].map(|name| Arm::named(name).unwrap());
        assert_eq!(arms, [Arm::Embedded, Arm::Embedded, Arm::Real, Arm::Existing]);
        let message = Arm::named("kind").unwrap_err().to_string();
        assert_eq!(message, r#"BOWLINE_TEST_ARM is "kind": say embedded, real or existing"#);
    }
}
