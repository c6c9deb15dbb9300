//! Triggers: the reasons of a reconcile. They travel with a request through the queue.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bowline_clock::panic_message;
use bowline_machinery::ObjectKey;
use bowline_workqueue::Coalesce;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use prometheus_client::metrics::counter::Counter;
use smallvec::SmallVec;

/// Maximum number of distinct triggers; further ones are only counted.
const KEPT: usize = 16;

/// The cause of a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Cause {
    /// The object existed when the watch began.
    Initial,
    /// It was created.
    Created,
    /// It was changed.
    Updated,
    /// It was redelivered unchanged, as informers do from time to time.
    Resynced,
    /// It was deleted.
    Deleted,
    /// A source outside the API server delivered it: a channel, a stream or a function.
    Generic,
    /// An earlier reconcile asked for another run.
    Requeued,
}

/// A reason of a reconcile: a cause, an object, and the source that saw it.
#[derive(Clone, Debug)]
pub struct Trigger {
    source: Arc<TriggerSource>,
    cause: Cause,
    /// `None` for the reconciled object itself: the usual case, which needs no allocation.
    object: Option<Arc<ObjectKey>>,
}

/// The source of triggers: a watch, with a counter for each cause.
#[derive(Debug)]
pub(crate) struct TriggerSource {
    name: Box<str>,
    /// Texts of a trigger by the object itself, one per cause: for the span of each reconcile.
    shown: [Box<str>; Cause::ALL.len()],
    counters: Causes,
    /// Number of panics of foreign code for it.
    panics: Counter,
    /// Errors that its async handler returned.
    errors: Counter,
    /// Number of its changes without effect after all attempts.
    unhandled: Counter,
}

/// A counter for each cause.
pub(crate) type Causes = [Counter; Cause::ALL.len()];

/// Reasons of a reconcile: all distinct causes since the object's last reconcile without an error. At most 16 are kept;
/// the rest is counted.
///
/// Displays as one line: `Foo created; Deployment default/web updated; and 3 more`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Triggers {
    kept: SmallVec<[Trigger; 1]>,
    more: u64,
}

impl Clone for Triggers {
    fn clone(&self) -> Self {
        // Most often there is one.
        let kept = match &*self.kept {
            [one] => SmallVec::from_buf([one.clone()]),
            all => all.into(),
        };
        Self { kept, more: self.more }
    }
}

impl Trigger {
    /// A change of the reconciled object itself.
    pub(crate) fn own(source: Arc<TriggerSource>, cause: Cause) -> Self {
        Self { source, cause, object: None }
    }

    /// A change of another object.
    pub(crate) fn other(source: Arc<TriggerSource>, cause: Cause, object: Arc<ObjectKey>) -> Self {
        Self { source, cause, object: Some(object) }
    }

    /// The source: the watched kind, or the name of the channel, stream or function.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source.name
    }

    /// The cause.
    #[must_use]
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// The object that changed. `None` for the reconciled object, and for payloads.
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

impl TriggerSource {
    /// A source with its counters.
    pub(crate) fn new(
        name: &str,
        counters: Causes,
        panics: Counter,
        errors: Counter,
        unhandled: Counter,
    ) -> Arc<Self> {
        let shown = Cause::ALL.map(|cause| format!("{name} {cause}").into());
        Arc::new(Self { name: name.into(), shown, counters, panics, errors, unhandled })
    }

    /// The name in triggers.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Foreign code panicked; `lost` describes the consequence.
    #[cold]
    pub(crate) fn panicked(&self, panic: &(dyn Any + Send), lost: &str) {
        self.panics.inc();
        let panic = panic_message(panic);
        tracing::error!(source = &*self.name, panic, "source panicked: {lost}");
    }

    /// A predicate or handler panicked for a change of an object, or for a payload.
    #[cold]
    pub(crate) fn panicked_for(&self, meta: Option<&ObjectMeta>, type_name: &str, panic: &(dyn Any + Send)) {
        self.panics.inc();
        tracing::error!(
            source = &*self.name,
            namespace = meta.and_then(|meta| meta.namespace.as_deref()),
            name = meta.and_then(|meta| meta.name.as_deref()),
            type_name,
            panic = panic_message(panic),
            "predicate or handler panicked"
        );
    }

    /// An async handler returned an error for a change of an object, or for a payload.
    #[cold]
    pub(crate) fn failed_for(&self, meta: Option<&ObjectMeta>, type_name: &str, error: &str) {
        self.errors.inc();
        tracing::warn!(
            source = &*self.name,
            namespace = meta.and_then(|meta| meta.namespace.as_deref()),
            name = meta.and_then(|meta| meta.name.as_deref()),
            type_name,
            error,
            "handler failed"
        );
    }

    /// A predicate or handler failed for a change of an object, or for a payload, on every attempt.
    #[cold]
    pub(crate) fn retries_exhausted(&self, object: Option<&ObjectKey>, type_name: &str, attempts: u32) {
        self.unhandled.inc();
        tracing::error!(
            source = &*self.name,
            object = object.map(tracing::field::display),
            type_name,
            attempts,
            "change not handled: predicate or handler failed on every attempt; retries exhausted"
        );
    }
}

impl Triggers {
    /// Triggers with one reason.
    pub(crate) fn one(trigger: Trigger) -> Self {
        Self { kept: SmallVec::from_buf([trigger]), more: 0 }
    }

    /// The kept triggers, in the order of their arrival.
    pub fn iter(&self) -> impl Iterator<Item = &Trigger> {
        self.kept.iter()
    }

    /// Number of triggers beyond the maximum, which are not kept.
    #[must_use]
    pub fn more(&self) -> u64 {
        self.more
    }

    /// Whether there is no trigger.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.more == 0
    }

    /// Formats by [`Debug`](fmt::Debug): the shorter way through a span.
    pub(crate) fn line(&self) -> impl fmt::Debug {
        fmt::from_fn(|f| fmt::Display::fmt(self, f))
    }

    /// Counts each kept trigger.
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
    /// All causes, in order.
    pub(crate) const ALL: [Self; 7] = [
        Self::Initial,
        Self::Created,
        Self::Updated,
        Self::Resynced,
        Self::Deleted,
        Self::Generic,
        Self::Requeued,
    ];

    /// One word for logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Resynced => "resynced",
            Self::Deleted => "deleted",
            Self::Generic => "generic",
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

    fn origin(name: &str) -> Arc<TriggerSource> {
        TriggerSource::new(
            name,
            Default::default(),
            Counter::default(),
            Counter::default(),
            Counter::default(),
        )
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
