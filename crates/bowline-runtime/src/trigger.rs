//! Why a reconcile runs: what travels with a request through the queue.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bowline_clock::panic_message;
use bowline_machinery::ObjectKey;
use bowline_workqueue::Coalesce;
use prometheus_client::metrics::counter::Counter;
use smallvec::SmallVec;

/// How many different triggers are kept; more are counted.
const KEPT: usize = 16;

/// What made an object be reconciled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Cause {
    /// The object was there when the watch began.
    Initial,
    /// It was created.
    Created,
    /// It was changed.
    Updated,
    /// Nothing happened to it; it is shown again from time to time.
    Resynced,
    /// It was deleted.
    Deleted,
    /// Somebody outside the API server said so: a channel, a stream, a function.
    Signalled,
    /// An earlier reconcile asked to be run again.
    Requeued,
}

/// One reason for which an object is reconciled: what happened, to which object, and who saw it.
#[derive(Clone, Debug)]
pub struct Trigger {
    source: Arc<Origin>,
    cause: Cause,
    /// None when it is the object that is reconciled: the usual case, which owns no memory.
    object: Option<Arc<ObjectKey>>,
}

/// Who tells a controller that something happened: one watch, with a counter for each cause.
#[derive(Debug)]
pub(crate) struct Origin {
    name: Box<str>,
    /// What a trigger by the object itself is shown as, for each cause: it is in the span of each reconcile.
    shown: [Box<str>; Cause::ALL.len()],
    counters: Causes,
    /// How often code of others panicked for it.
    panics: Counter,
}

/// A counter for each cause.
pub(crate) type Causes = [Counter; Cause::ALL.len()];

/// Why an object is reconciled: all that happened since it was last, each thing once. No more than 16 different ones are
/// kept; the rest is counted.
///
/// Shown as one line: `Foo created; Deployment default/web updated; and 3 more`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Triggers {
    kept: SmallVec<[Trigger; 1]>,
    more: u64,
}

impl Clone for Triggers {
    fn clone(&self) -> Self {
        // Most of the time it is one.
        let kept = match &*self.kept {
            [one] => SmallVec::from_buf([one.clone()]),
            all => all.into(),
        };
        Self { kept, more: self.more }
    }
}

impl Trigger {
    /// Something happened to the object that is to be reconciled.
    pub(crate) fn own(source: Arc<Origin>, cause: Cause) -> Self {
        Self { source, cause, object: None }
    }

    /// Something happened to another object than that which is to be reconciled.
    pub(crate) fn other(source: Arc<Origin>, cause: Cause, object: Arc<ObjectKey>) -> Self {
        Self { source, cause, object: Some(object) }
    }

    /// Who saw it: the kind that is watched, or the name of the channel, stream or function.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source.name
    }

    /// What happened.
    #[must_use]
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// To which object, unless it is that which is reconciled.
    #[must_use]
    pub fn object(&self) -> Option<&ObjectKey> {
        self.object.as_deref()
    }
}

impl PartialEq for Trigger {
    fn eq(&self, other: &Self) -> bool {
        self.cause == other.cause
            && (Arc::ptr_eq(&self.source, &other.source) || self.source.name == other.source.name)
            && self.object == other.object
    }
}

impl Eq for Trigger {}

impl Origin {
    /// One that counts where it is told to.
    pub(crate) fn new(name: &str, counters: Causes, panics: Counter) -> Arc<Self> {
        let shown = Cause::ALL.map(|cause| format!("{name} {cause}").into());
        Arc::new(Self { name: name.into(), shown, counters, panics })
    }

    /// Code of others panicked; `lost` says what that costs.
    #[cold]
    pub(crate) fn panicked(&self, panic: &(dyn Any + Send), lost: &str) {
        self.panics.inc();
        let panic = panic_message(panic);
        tracing::error!(source = &*self.name, panic, "a source, predicate or handler panicked: {lost}");
    }
}

impl Triggers {
    /// For one reason.
    pub(crate) fn one(trigger: Trigger) -> Self {
        Self { kept: SmallVec::from_buf([trigger]), more: 0 }
    }

    /// Those that are kept, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = &Trigger> {
        self.kept.iter()
    }

    /// How many there were that are not kept, for there were too many.
    #[must_use]
    pub fn more(&self) -> u64 {
        self.more
    }

    /// Whether nobody said why.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.more == 0
    }

    /// As they are shown, for who asks by [`Debug`](fmt::Debug): the shorter way through a span.
    pub(crate) fn line(&self) -> impl fmt::Debug {
        fmt::from_fn(|f| fmt::Display::fmt(self, f))
    }

    /// Counts each of those that are kept.
    #[inline]
    pub(crate) fn count(&self) {
        for trigger in &self.kept {
            trigger.source.counters[trigger.cause as usize].inc();
        }
    }

    pub(crate) fn push(&mut self, trigger: Trigger) {
        if self.kept.contains(&trigger) {
            return;
        }
        if self.kept.len() < KEPT {
            self.kept.push(trigger);
        } else {
            self.more = self.more.saturating_add(1);
        }
    }
}

impl Coalesce for Triggers {
    fn coalesce(&mut self, newer: Self) {
        for trigger in newer.kept {
            self.push(trigger);
        }
        self.more = self.more.saturating_add(newer.more);
    }
}

impl Cause {
    /// All there are, in order.
    pub(crate) const ALL: [Self; 7] = [
        Self::Initial,
        Self::Created,
        Self::Updated,
        Self::Resynced,
        Self::Deleted,
        Self::Signalled,
        Self::Requeued,
    ];

    /// One word, as it is shown in logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Initial => "found",
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Resynced => "resynced",
            Self::Deleted => "deleted",
            Self::Signalled => "signalled",
            Self::Requeued => "requeued",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.object {
            None => f.write_str(&self.source.shown[self.cause as usize]),
            Some(object) => write!(f, "{} {object} {}", self.source(), self.cause),
        }
    }
}

impl fmt::Display for Triggers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, trigger) in self.kept.iter().enumerate() {
            if position > 0 {
                f.write_str("; ")?;
            }
            trigger.fmt(f)?;
        }
        match (self.more, self.kept.is_empty()) {
            (0, true) => f.write_str("nobody said why"),
            (0, false) => Ok(()),
            (more, _) => write!(f, "; and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(name: &str) -> Arc<Origin> {
        Origin::new(name, Default::default(), Counter::default())
    }

    fn updated(name: &str) -> Trigger {
        let key = Arc::new(ObjectKey::new("default", name));
        Trigger::other(origin("Deployment"), Cause::Updated, key)
    }

    #[test]
    fn the_same_trigger_is_kept_once_and_shown_as_one_line() {
        let mut triggers = Triggers::one(Trigger::own(origin("Foo"), Cause::Created));
        triggers.coalesce(Triggers::one(updated("web")));
        triggers.coalesce(Triggers::one(updated("web")));
        assert_eq!(triggers.to_string(), "Foo created; Deployment default/web updated");
    }

    #[test]
    fn triggers_beyond_sixteen_are_counted() {
        let mut triggers = Triggers::default();
        for number in 0..20 {
            triggers.coalesce(Triggers::one(updated(&number.to_string())));
        }
        assert_eq!((triggers.iter().count(), triggers.more()), (16, 4));
        assert!(triggers.to_string().ends_with("Deployment default/15 updated; and 4 more"), "{triggers}");
    }
}
