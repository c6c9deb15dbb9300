//! Whether a test failed, by its return value.

use std::fmt;

/// The return value of a test: nothing, or a `Result`. A test that fails by its value has its seed printed, as one that
/// panics has.
pub trait Outcome {
    /// Whether the test failed.
    fn is_failure(&self) -> bool;
}

impl Outcome for () {
    fn is_failure(&self) -> bool {
        false
    }
}

impl<T, E: fmt::Debug> Outcome for Result<T, E> {
    fn is_failure(&self) -> bool {
        self.is_err()
    }
}
