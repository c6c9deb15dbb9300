//! Conditions of an object's status: status, reason, and the time of the last transition.
//!
//! The transition time moves only when the status of a condition changes, not when its reason or message changes. Times are
//! whole seconds, as in the API, so that a condition that is read back equals the one that was written.
//!
//! [`ConditionsExt`] has the methods for the closure of [`Client::update_status`](crate::Client::update_status):
//!
//! ```no_run
//! use bowline_runtime::conditions::{ConditionsExt as _, NewCondition};
//! # use bowline_runtime::{Context, Result};
//! # use kube::CustomResource;
//! # use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
//! # use serde::{Deserialize, Serialize};
//! # #[derive(Clone, CustomResource, Debug, Deserialize, Serialize)]
//! # #[kube(group = "example.com", version = "v1", kind = "Game", status = "GameStatus", schema = "disabled", namespaced)]
//! # struct GameSpec {}
//! # #[derive(Clone, Debug, Default, Deserialize, Serialize)]
//! # struct GameStatus { players: i32, conditions: Vec<Condition> }
//!
//! async fn reconcile(ctx: &Context, game: &Game) -> Result<()> {
//!     let starting = NewCondition::is_false("Ready", "Starting").message("0 of 3 replicas");
//!     let starting = starting.observed_generation(game.metadata.generation);
//!     ctx.client()
//!         .update_status(game, |status| -> Result<()> {
//!             status.conditions.set_condition(starting.clone(), ctx)?;
//!             status.conditions.remove_condition("Paused");
//!             Ok(())
//!         })
//!         .await?;
//!     Ok(())
//! }
//! ```
//!
//! The type of the status derives `JsonSchema` only if k8s-openapi has its feature `schemars`, which `bowline` enables:
//! `struct GameStatus { players: i32, conditions: Vec<Condition> }`.
//!
//! The functions of this module do the same for a list of conditions:
//!
//! ```
//! use bowline_clock::Clock;
//! use bowline_runtime::conditions::{self, NewCondition};
//!
//! # let clock = Clock::real();
//! let mut conditions = Vec::new();
//! let new = NewCondition::is_false("Ready", "Starting").message("0 of 3 replicas").observed_generation(Some(4));
//! assert!(conditions::set(&mut conditions, new.clone(), &clock)?);
//! assert!(!conditions::set(&mut conditions, new, &clock)?, "nothing changed");
//! assert!(!conditions::is_true(&conditions, "Ready"));
//! # Ok::<(), conditions::InvalidCondition>(())
//! ```

mod list;

use std::fmt;

use bowline_clock::Clock;
use bowline_machinery::validate_qualified_name;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

pub use list::{ConditionsExt, HasClock};

/// Maximum length of a reason in the API.
const LONGEST_REASON: usize = 1024;

/// Maximum length of a message in the API.
const LONGEST_MESSAGE: usize = 32768;

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "they are the values of the API")]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}

impl ConditionStatus {
    /// The value in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(is_so: bool) -> Self {
        if is_so { Self::True } else { Self::False }
    }
}

impl fmt::Display for ConditionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A condition to set. [`set`] finds its transition time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a condition is set by `set_condition`"]
pub struct NewCondition {
    type_: String,
    status: ConditionStatus,
    reason: String,
    message: String,
    observed_generation: Option<i64>,
}

impl NewCondition {
    /// A condition. `type_` and `reason` are `UpperCamelCase` words for programs.
    pub fn new(type_: impl Into<String>, status: ConditionStatus, reason: impl Into<String>) -> Self {
        Self {
            type_: type_.into(),
            status,
            reason: reason.into(),
            message: String::new(),
            observed_generation: None,
        }
    }

    /// A condition that is `True`.
    pub fn is_true(type_: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::new(type_, ConditionStatus::True, reason)
    }

    /// A condition that is `False`.
    pub fn is_false(type_: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::new(type_, ConditionStatus::False, reason)
    }

    /// A condition that is `Unknown`.
    pub fn unknown(type_: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::new(type_, ConditionStatus::Unknown, reason)
    }

    /// The message for people. Default: empty.
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// The generation of the object that the condition is about: `object.metadata.generation`. Default: none.
    pub fn observed_generation(mut self, generation: impl Into<Option<i64>>) -> Self {
        self.observed_generation = generation.into();
        self
    }

    fn validate(&self) -> Result<(), InvalidCondition> {
        let refuse = |problem: String| Err(InvalidCondition { type_: self.type_.clone(), problem });
        if let Some(problem) = validate_qualified_name(&self.type_).into_iter().next() {
            return refuse(format!("the type {problem}"));
        }
        if !is_reason(&self.reason) {
            return refuse(format!(
                "the reason {:?} must be a word of letters, digits, '_', ',' and ':' that starts with a letter and ends with \
                 a letter, a digit or '_', such as `MinimumReplicasAvailable`, of at most {LONGEST_REASON} bytes",
                self.reason
            ));
        }
        if self.message.chars().count() > LONGEST_MESSAGE {
            return refuse(format!("the message must have at most {LONGEST_MESSAGE} characters"));
        }
        if self.observed_generation.is_some_and(|generation| generation < 0) {
            return refuse("the observed generation must not be negative".to_owned());
        }
        Ok(())
    }
}

/// Why a condition cannot be set: the API would refuse it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("condition {type_:?} is not valid: {problem}")]
pub struct InvalidCondition {
    type_: String,
    problem: String,
}

/// Sets a condition. Returns whether anything changed.
///
/// The transition time becomes the clock's time if the condition is new or its status changes. Other conditions keep their
/// values and their order. `clock` is a [`Context`](crate::Context), a [`Client`](crate::Client) or a [`Clock`].
///
/// # Errors
/// When the API would refuse the condition's type, reason or message. Nothing is changed then.
pub fn set(
    conditions: &mut Vec<Condition>,
    new: NewCondition,
    clock: &impl HasClock,
) -> Result<bool, InvalidCondition> {
    new.validate()?;
    let clock = clock.clock();
    let NewCondition { type_, status, reason, message, observed_generation } = new;
    let status = status.as_str().to_owned();
    let Some(known) = conditions.iter_mut().find(|it| it.type_ == type_) else {
        let last_transition_time = now(clock);
        conditions.push(Condition {
            last_transition_time,
            message,
            observed_generation,
            reason,
            status,
            type_,
        });
        return Ok(true);
    };
    let is_same = known.status == status
        && known.reason == reason
        && known.message == message
        && known.observed_generation == observed_generation;
    if is_same {
        return Ok(false);
    }
    if known.status != status {
        known.last_transition_time = now(clock);
    }
    known.status = status;
    known.reason = reason;
    known.message = message;
    known.observed_generation = observed_generation;
    Ok(true)
}

/// Removes a condition. Returns whether it existed.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|it| it.type_ != type_);
    conditions.len() != before
}

/// The condition of a type.
#[must_use]
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|it| it.type_ == type_)
}

/// Whether a condition exists and is `True`.
#[must_use]
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    has_status(conditions, type_, ConditionStatus::True)
}

/// Whether a condition exists and is `False`.
#[must_use]
pub fn is_false(conditions: &[Condition], type_: &str) -> bool {
    has_status(conditions, type_, ConditionStatus::False)
}

/// Whether a condition exists and has this status.
#[must_use]
pub fn has_status(conditions: &[Condition], type_: &str, status: ConditionStatus) -> bool {
    find(conditions, type_).is_some_and(|it| it.status == status.as_str())
}

/// Whether a condition is `True`, and is about this generation of the object or a later one.
#[must_use]
pub fn is_true_for(conditions: &[Condition], type_: &str, generation: i64) -> bool {
    find(conditions, type_).is_some_and(|it| {
        it.status == ConditionStatus::True.as_str()
            && it.observed_generation.is_some_and(|seen| seen >= generation)
    })
}

fn now(clock: &Clock) -> Time {
    let now = Timestamp::try_from(clock.system_time()).unwrap_or(Timestamp::MAX);
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// The API's pattern for reasons: `^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`.
fn is_reason(reason: &str) -> bool {
    let is_word = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'_';
    let bytes = reason.as_bytes();
    bytes.len() <= LONGEST_REASON
        && bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(|last| is_word(*last))
        && bytes.iter().all(|letter| is_word(*letter) || matches!(letter, b',' | b':'))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bowline_clock::Simulation;

    use super::*;

    fn times(conditions: &[Condition]) -> Vec<String> {
        conditions.iter().map(|it| it.last_transition_time.0.to_string()).collect()
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        Simulation::new(0).run(|clock| async move {
            let mut conditions = Vec::new();
            clock.sleep(Duration::from_millis(2500)).await;
            set(&mut conditions, NewCondition::is_false("Ready", "Starting"), &clock).unwrap();
            assert_eq!(times(&conditions), ["2030-01-01T00:00:02Z"], "whole seconds");
            clock.sleep(Duration::from_secs(60)).await;
            let other = NewCondition::is_false("Ready", "Slow").message("still").observed_generation(2);
            assert!(set(&mut conditions, other.clone(), &clock).unwrap());
            assert_eq!(times(&conditions), ["2030-01-01T00:00:02Z"]);
            assert_eq!((conditions[0].reason.as_str(), conditions[0].message.as_str()), ("Slow", "still"));
            assert_eq!(conditions[0].observed_generation, Some(2));
            assert!(!set(&mut conditions, other.clone(), &clock).unwrap());
            assert!(set(&mut conditions, other.observed_generation(3), &clock).unwrap());
            set(&mut conditions, NewCondition::is_true("Ready", "Up"), &clock).unwrap();
            assert_eq!(times(&conditions), ["2030-01-01T00:01:02Z"]);
        });
    }

    #[test]
    fn conditions_are_found_by_type_and_others_stay() {
        Simulation::new(0).run(|clock| async move {
            let mut conditions = Vec::new();
            set(&mut conditions, NewCondition::is_true("Ready", "Up").observed_generation(7), &clock)
                .unwrap();
            set(&mut conditions, NewCondition::unknown("example.com/Paid", "NoAnswer"), &clock).unwrap();
            assert!(is_true(&conditions, "Ready") && !is_false(&conditions, "Ready"));
            assert!(is_true_for(&conditions, "Ready", 7) && !is_true_for(&conditions, "Ready", 8));
            assert!(has_status(&conditions, "example.com/Paid", ConditionStatus::Unknown));
            assert!(!is_true(&conditions, "Missing") && !is_false(&conditions, "Missing"));
            assert!(remove(&mut conditions, "Ready") && !remove(&mut conditions, "Ready"));
            assert_eq!(conditions.len(), 1);
        });
    }

    #[test]
    fn a_condition_that_the_api_would_refuse_is_refused_and_changes_nothing() {
        Simulation::new(0).run(|clock| async move {
            let mut conditions = Vec::new();
            for reason in ["", "not a word", "9Lives", "Ends:", "Ü"] {
                let error = set(&mut conditions, NewCondition::is_true("Ready", reason), &clock).unwrap_err();
                assert!(error.to_string().contains("the reason"), "{error}");
            }
            for reason in ["A", "Kubelet:Ready", "With_underscore_", "A,b"] {
                set(&mut Vec::new(), NewCondition::is_true("Ready", reason), &clock).unwrap();
            }
            let error = set(&mut conditions, NewCondition::is_true("not a type", "Up"), &clock).unwrap_err();
            assert!(
                error.to_string().starts_with("condition \"not a type\" is not valid: the type"),
                "{error}"
            );
            let long = NewCondition::is_true("Ready", "Up").message("x".repeat(LONGEST_MESSAGE + 1));
            assert!(set(&mut conditions, long, &clock).is_err());
            assert!(conditions.is_empty());
        });
    }
}
