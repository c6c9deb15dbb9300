//! Methods on lists of conditions, for closures that change a status.

use bowline_clock::Clock;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{InvalidCondition, NewCondition};
use crate::{Client, Context};

/// A clock, or a value that has one: [`Context`], [`Client`], [`Clock`].
pub trait HasClock {
    /// The clock.
    fn clock(&self) -> &Clock;
}

impl HasClock for Clock {
    fn clock(&self) -> &Clock {
        self
    }
}

impl HasClock for Client {
    fn clock(&self) -> &Clock {
        self.clock()
    }
}

impl HasClock for Context {
    fn clock(&self) -> &Clock {
        self.clock()
    }
}

/// Methods on the conditions of a status: `Vec<Condition>`, or `Option<Vec<Condition>>` as built-in kinds have it.
///
/// An `Option` becomes `Some` with the first condition, and `None` when the last one is removed.
///
/// ```
/// # use bowline_clock::Clock;
/// use bowline_runtime::conditions::{ConditionsExt as _, NewCondition};
/// use k8s_openapi::api::core::v1::ServiceStatus;
///
/// # let clock = Clock::real();
/// let mut status = ServiceStatus::default();
/// status.conditions.set_condition(NewCondition::is_true("Ready", "Up"), &clock)?;
/// assert!(status.conditions.is_condition_true("Ready"));
/// # Ok::<(), bowline_runtime::conditions::InvalidCondition>(())
/// ```
pub trait ConditionsExt {
    /// Sets a condition as [`set`](super::set) does. Returns whether anything changed. `clock` is the reconcile's context, a
    /// client or a clock.
    ///
    /// # Errors
    /// When the API would refuse the condition's type, reason or message. Nothing is changed then.
    fn set_condition(&mut self, new: NewCondition, clock: &impl HasClock) -> Result<bool, InvalidCondition>;

    /// Removes a condition. Returns whether it existed.
    fn remove_condition(&mut self, type_: &str) -> bool;

    /// The condition of a type.
    fn condition(&self, type_: &str) -> Option<&Condition>;

    /// Whether a condition exists and is `True`.
    fn is_condition_true(&self, type_: &str) -> bool {
        self.condition(type_).is_some_and(|condition| condition.status == "True")
    }
}

impl ConditionsExt for Vec<Condition> {
    fn set_condition(&mut self, new: NewCondition, clock: &impl HasClock) -> Result<bool, InvalidCondition> {
        super::set(self, new, clock)
    }

    fn remove_condition(&mut self, type_: &str) -> bool {
        super::remove(self, type_)
    }

    fn condition(&self, type_: &str) -> Option<&Condition> {
        super::find(self, type_)
    }
}

impl ConditionsExt for Option<Vec<Condition>> {
    fn set_condition(&mut self, new: NewCondition, clock: &impl HasClock) -> Result<bool, InvalidCondition> {
        let mut conditions = self.take().unwrap_or_default();
        let is_changed = super::set(&mut conditions, new, clock);
        *self = (!conditions.is_empty()).then_some(conditions);
        is_changed
    }

    fn remove_condition(&mut self, type_: &str) -> bool {
        let is_removed = self.as_mut().is_some_and(|conditions| super::remove(conditions, type_));
        *self = self.take().filter(|conditions| !conditions.is_empty());
        is_removed
    }

    fn condition(&self, type_: &str) -> Option<&Condition> {
        super::find(self.as_deref()?, type_)
    }
}

#[cfg(test)]
mod tests {
    use bowline_clock::Simulation;

    use super::*;

    #[test]
    fn optional_conditions_exist_only_while_there_is_one() {
        Simulation::new(0).run(|clock| async move {
            let mut conditions = None;
            assert!(conditions.set_condition(NewCondition::is_true("Ready", "not a word"), &clock).is_err());
            assert_eq!(conditions, None);
            assert!(conditions.set_condition(NewCondition::is_true("Ready", "Up"), &clock).unwrap());
            assert!(!conditions.set_condition(NewCondition::is_true("Ready", "Up"), &clock).unwrap());
            assert!(conditions.is_condition_true("Ready") && !conditions.is_condition_true("Paused"));
            assert!(!conditions.remove_condition("Paused") && conditions.remove_condition("Ready"));
            assert_eq!(conditions, None);
        });
    }
}
