//! Private keys and tokens, which must not reach a log.

use std::fmt;

/// A private key or a token, with a redacted `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretString(String);

impl SecretString {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    /// The secret.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing_of_it() {
        assert_eq!(format!("{:?}", SecretString::new("hunter2".to_owned())), "Secret(…)");
    }
}
