//! The random seed of a test: where it comes from, and how a failed test prints it.

use std::env;

use super::EnvError;

/// Names the seed of tests that set none.
pub(super) const SEED: &str = "BOWLINE_TEST_SEED";
/// Default seed.
const DEFAULT: u64 = 1;

/// A seed, and whether the test set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seed {
    pub(super) number: u64,
    is_set: bool,
}

impl Seed {
    /// The seed that the test set, or that of the environment, or 1.
    pub(super) fn resolve(set: Option<u64>) -> Result<Self, EnvError> {
        match set {
            Some(number) => Ok(Self { number, is_set: true }),
            None => Self::parse(env::var(SEED).ok().as_deref()),
        }
    }

    fn parse(text: Option<&str>) -> Result<Self, EnvError> {
        let number = match text {
            None | Some("") => DEFAULT,
            Some(text) => text.parse().map_err(|_| EnvError::Seed { text: text.to_owned() })?,
        };
        Ok(Self { number, is_set: false })
    }

    /// How to run a failed test again with this seed.
    pub(super) fn hint(self) -> String {
        let Self { number, is_set } = self;
        if is_set {
            format!("the test failed with seed {number}; run it again with TestEnv::builder().seed({number})")
        } else {
            format!("the test failed with seed {number}; run it again with {SEED}={number}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_has_the_form_that_the_test_uses() {
        let seed = Seed::resolve(Some(7)).unwrap();
        let hint = "the test failed with seed 7; run it again with TestEnv::builder().seed(7)";
        assert_eq!((seed.number, seed.hint().as_str()), (7, hint));
        let seed = Seed::parse(Some("8")).unwrap();
        let hint = "the test failed with seed 8; run it again with BOWLINE_TEST_SEED=8";
        assert_eq!((seed.number, seed.hint().as_str()), (8, hint));
    }

    #[test]
    fn a_seed_must_be_a_number_and_is_one_by_default() {
        assert_eq!(Seed::parse(None).unwrap().number, 1);
        assert_eq!(Seed::parse(Some("")).unwrap().number, 1);
        let error = Seed::parse(Some("seven")).unwrap_err().to_string();
        assert_eq!(
            error,
            r#"BOWLINE_TEST_SEED is "seven"; set it to a number from 0 to 18446744073709551615"#
        );
    }
}
