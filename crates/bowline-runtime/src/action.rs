//! What is to happen after a reconcile that did not fail.

use std::time::Duration;

/// What is to happen next with an object that was reconciled without an error.
///
/// ```
/// use std::time::Duration;
/// use bowline_runtime::Action;
///
/// assert_eq!(Action::done().after(), None);
/// assert_eq!(Action::requeue_after(Duration::from_secs(60)).after(), Some(Duration::from_secs(60)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an action does nothing unless a reconciler returns it"]
pub struct Action {
    next: Next,
    priority: Option<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Done,
    After(Duration),
    BackOff,
}

impl Action {
    /// Nothing, until something happens to the object or to what it is watched with.
    pub fn done() -> Self {
        Self { next: Next::Done, priority: None }
    }

    /// Once more after a time, or as soon as something happens to the object: what comes before the appointment takes its
    /// place, and there is one run, not two. So a reconciler that wants to look at an object in an hour has to ask for it in
    /// every run, not only in the first.
    ///
    /// Up to a tenth is added at random, so that objects that came together do not come together for ever. The count of
    /// failures starts anew.
    pub fn requeue_after(delay: Duration) -> Self {
        Self { next: Next::After(delay), priority: None }
    }

    /// Once more after a time that grows with each such result in a row: as after an error, but without one. It counts as a
    /// success: the count of [attempts](crate::Context::attempt) and of
    /// [retries](crate::ControllerBuilder::max_retries) starts anew, only the delay goes on growing.
    pub fn back_off() -> Self {
        Self { next: Next::BackOff, priority: None }
    }

    /// With a priority of its own for the next run, instead of that of this one.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    pub(crate) fn next(&self) -> Next {
        self.next
    }

    pub(crate) fn chosen_priority(&self) -> Option<i32> {
        self.priority
    }

    /// The time after which the object is to be looked at once more, if it is.
    #[must_use]
    pub fn after(&self) -> Option<Duration> {
        match self.next {
            Next::After(delay) => Some(delay),
            Next::Done | Next::BackOff => None,
        }
    }
}
