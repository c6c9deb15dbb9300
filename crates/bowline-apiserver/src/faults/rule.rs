//! A rule in force: its counters, its removal, and the check that it was used.

use std::fmt;
use std::ops::Deref;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_clock::Rng;

use super::Faults;
use super::effect::Effect;
use super::filter::{Limits, RequestFilter, Selection, Stage, Subject};
use super::open_watch::OpenWatch;

/// A rule of a [`Faults`] kit. It stays in force until it is [removed](Self::remove); dropping the handle does not remove
/// it. Clones are handles to the same rule.
#[derive(Clone)]
pub struct Rule {
    faults: Faults,
    pub(super) state: Arc<RuleState>,
}

/// A rule that is removed when this is dropped. It dereferences to its [`Rule`].
#[derive(Debug)]
#[must_use = "the rule is removed when this is dropped"]
pub struct RuleGuard(Rule);

pub(super) struct RuleState {
    number: u64,
    location: &'static Location<'static>,
    pub(super) selection: Selection,
    limits: Limits,
    stage: Stage,
    pub(super) effect: Effect,
    removed: AtomicBool,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    matched: u64,
    applied: u64,
    rng: Option<Rng>,
}

impl<T> RequestFilter<T> {
    /// Sets a rule.
    #[track_caller]
    pub(super) fn set(self, effect: Effect) -> Rule {
        self.set_among_watches(effect).0
    }

    /// Sets a rule, and returns the watches that are open at that moment. A watch that opens later finds the rule.
    #[track_caller]
    pub(super) fn set_among_watches(self, effect: Effect) -> (Rule, Vec<Arc<OpenWatch>>) {
        let Self { faults, selection, limits, stage, .. } = self;
        let location = Location::caller();
        let mut state = faults.lock();
        state.last_rule += 1;
        let rule = Arc::new(RuleState {
            number: state.last_rule,
            location,
            selection,
            limits,
            stage,
            effect,
            removed: AtomicBool::new(false),
            counts: Mutex::default(),
        });
        state.rules.push(rule.clone());
        let watches = state.watches.values().cloned().collect();
        drop(state);
        (Rule { faults, state: rule }, watches)
    }
}

impl Rule {
    /// Takes the rule out of force. Requests that it holds go on, and so do watches that it silences. A removed rule keeps
    /// its counts.
    pub fn remove(&self) {
        self.faults.remove(&self.state);
    }

    /// A guard that removes the rule when it is dropped.
    pub fn remove_on_drop(self) -> RuleGuard {
        RuleGuard(self)
    }

    /// Number of requests, watches or events that the rule selected, including those that it let pass because of `skip`,
    /// `times` or `probability`. An earlier rule that ends a request hides it from later rules.
    #[must_use]
    pub fn matched(&self) -> u64 {
        self.state.lock().matched
    }

    /// Number of times the fault was applied.
    #[must_use]
    pub fn applied(&self) -> u64 {
        self.state.applied()
    }

    /// Panics if the fault was never applied: a test whose fault did not happen must fail.
    ///
    /// # Panics
    /// If [`applied`](Self::applied) is zero. The message names the rule, the place where it was set, and the number of
    /// requests that it selected.
    #[track_caller]
    pub fn assert_used(&self) {
        assert!(self.applied() > 0, "{}", self.state.unused());
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.fmt(f)
    }
}

impl Deref for RuleGuard {
    type Target = Rule;

    fn deref(&self) -> &Rule {
        &self.0
    }
}

impl Drop for RuleGuard {
    fn drop(&mut self) {
        self.0.remove();
    }
}

impl RuleState {
    /// Whether the rule is about this, now. Counts nothing.
    pub(super) fn selects(&self, stage: Stage, subject: Subject<'_>) -> bool {
        !self.is_removed() && self.stage == stage && self.selection.matches(subject)
    }

    /// Counts something that the rule selects; true if the fault is applied to it.
    pub(super) fn fire(&self, faults: &Faults) -> bool {
        let mut counts = self.lock();
        counts.matched += 1;
        let is_over = self.limits.times.is_some_and(|times| counts.applied >= times);
        if counts.matched <= self.limits.skip || is_over {
            return false;
        }
        if let Some(probability) = self.limits.probability {
            let seeded = || self.limits.seed.map_or_else(|| faults.rng(), Rng::seeded);
            if counts.rng.get_or_insert_with(seeded).unit() >= probability {
                return false;
            }
        }
        counts.applied += 1;
        true
    }

    /// Takes back that the fault was applied: its function let the request pass.
    pub(super) fn passed(&self) {
        let mut counts = self.lock();
        counts.applied = counts.applied.saturating_sub(1);
    }

    pub(super) fn applied(&self) -> u64 {
        self.lock().applied
    }

    pub(super) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Acquire)
    }

    pub(super) fn remove(&self) {
        self.removed.store(true, Ordering::Release);
        if let Effect::Hold(gate) = &self.effect {
            gate.open();
        }
    }

    pub(super) fn unused(&self) -> String {
        format!("a fault was never applied: {self}, set at {}", self.location)
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        // Nothing that can panic runs under this lock.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for RuleState {
    /// For example `rule 2: conflict on update resource=deployments name=web (matched 3, applied 2)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, effect, selection, .. } = self;
        let (matched, applied) = {
            let counts = self.lock();
            (counts.matched, counts.applied)
        };
        let stage = if self.stage == Stage::Response { " before the response" } else { "" };
        write!(f, "rule {number}: {effect}{stage} on {selection} (matched {matched}, applied {applied})")
    }
}
