//! The server's record of requests and lease holders, with times, and the invariants that it must satisfy.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_apiserver::{Hook, HookFuture, RequestInfo, Verb, Verdict};
use bowline_clock::{Clock, Instant, Rng};

/// Prefix of the replicas' user agents; their identity follows.
pub(crate) const AGENT: &str = "failover/";

/// Namespace of the tests for abandoned requests: none of its requests is slow.
pub(crate) const FROZEN: &str = "frozen";

/// Number of lines shown before and after a violation.
const AROUND: Duration = Duration::from_millis(700);

/// A time, on the record's clock.
pub(crate) type Moment = Duration;

/// A write request.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) identity: String,
    pub(crate) verb: String,
    /// The name of the object.
    pub(crate) object: String,
    pub(crate) start: Moment,
    /// Time of its commit; `None` if it changed nothing, or has not ended.
    pub(crate) end: Option<Moment>,
}

/// All events in one namespace, each list in the order of start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    /// Writes through fenced clients.
    pub(crate) writes: Vec<Write>,
    /// Writes of the lease.
    pub(crate) leases: Vec<Write>,
    /// Number of reads of the lease, by replica.
    pub(crate) reads: BTreeMap<String, usize>,
}

/// A write by a process that was frozen between its last check of the fence and the moment at which it sent.
pub(crate) type Stray = Write;

impl Story {
    /// Last writer, and its number of writes since it began.
    pub(crate) fn writer(&self) -> Option<(&str, usize)> {
        let last = self.writes.iter().rev().find(|write| write.end.is_some())?;
        Some((&last.identity, self.count(&last.identity)))
    }

    /// Number of committed writes of a replica.
    pub(crate) fn count(&self, identity: &str) -> usize {
        self.writes.iter().filter(|write| write.identity == identity && write.end.is_some()).count()
    }

    /// Time without a leader: from the last renewal of one leader until another acquired the lease.
    ///
    /// # Errors
    /// A message, when one of them never held it.
    pub(crate) fn takeover(&self, from: &str, to: &str) -> Result<Duration, String> {
        let by = |identity: &str| {
            let identity = identity.to_owned();
            self.leases.iter().filter(move |lease| lease.identity == identity).filter_map(|lease| lease.end)
        };
        let taken = by(to).min().ok_or_else(|| format!("{to} never had the lease"))?;
        let renewed = by(from).filter(|end| *end <= taken).max();
        let renewed = renewed.ok_or_else(|| format!("{from} never had the lease"))?;
        Ok(taken.saturating_sub(renewed))
    }

    /// Checks that no two replicas wrote in the same span of time, and that none wrote before it held the lease. A
    /// replica's span is from the start of its first write to the end of its last.
    ///
    /// `thawed` has the times at which frozen replicas continue, after another one led. Their writes since then are set
    /// aside and returned: at most one per object, since each worker has one object. Any further one is an error.
    ///
    /// # Errors
    /// A message with the violation and the events around it.
    pub(crate) fn check(&self, thawed: &BTreeMap<String, Moment>) -> Result<Vec<Stray>, String> {
        let is_stray =
            |write: &&Write| thawed.get(&write.identity).is_some_and(|thawed| *thawed <= write.start);
        let strays: Vec<Stray> = self.writes.iter().filter(is_stray).cloned().collect();
        let mut sent = BTreeSet::new();
        for stray in &strays {
            if !sent.insert((&stray.identity, &stray.object)) {
                return Err(self.around(
                    stray.start,
                    &format!(
                        "{} went on after it was frozen, and wrote {} more than once",
                        stray.identity, stray.object
                    ),
                ));
            }
        }
        let mut spans: BTreeMap<&str, (Moment, Moment)> = BTreeMap::new();
        for write in self.writes.iter().filter(|write| !is_stray(write)) {
            let end = write.end.unwrap_or(write.start);
            let span = spans.entry(&write.identity).or_insert((write.start, end));
            *span = (span.0.min(write.start), span.1.max(end));
        }
        let mut order: Vec<_> = spans.into_iter().collect();
        order.sort_by_key(|(_, span)| *span);
        for pair in order.windows(2) {
            let ((before, (_, end)), (after, (start, _))) = (pair[0], pair[1]);
            if start <= end {
                let what = format!("{after} wrote from {start:?} on, {before} until {end:?}");
                return Err(self.around(start, &what));
            }
        }
        for (identity, (start, _)) in order {
            let taken = self.leases.iter().find(|lease| lease.identity == identity && lease.end.is_some());
            if taken.is_none_or(|lease| start <= lease.start) {
                return Err(self.around(start, &format!("{identity} wrote before it had the lease")));
            }
        }
        Ok(strays)
    }

    /// The writes of the lease, or the others.
    fn part(&mut self, is_lease: bool) -> &mut Vec<Write> {
        if is_lease { &mut self.leases } else { &mut self.writes }
    }

    /// A message, and the record around a moment.
    fn around(&self, moment: Moment, what: &str) -> String {
        let mut text = format!("{what}\n");
        let mut near: Vec<_> = self
            .writes
            .iter()
            .chain(&self.leases)
            .filter(|write| {
                write.start <= moment + AROUND && moment <= write.end.unwrap_or(write.start) + AROUND
            })
            .collect();
        near.sort_by_key(|write| write.start);
        for Write { identity, verb, object, start, end } in near {
            let end = end.map_or_else(|| "nothing done".to_owned(), |end| format!("{end:?}"));
            let _ = writeln!(text, "  {start:?} .. {end}: {identity} {verb} {object}");
        }
        text
    }
}

/// The record of a server, by namespace, filled as a [`Hook`] of an embedded one. Clones share it.
#[derive(Clone)]
pub(crate) struct Record {
    clock: Clock,
    /// Requests take a random time, so that some are always in progress.
    rng: Rng,
    stories: Arc<Mutex<BTreeMap<String, Story>>>,
    is_away: Arc<AtomicBool>,
}

/// A request of a replica.
pub(crate) struct Request<'a> {
    pub(crate) identity: &'a str,
    pub(crate) verb: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) name: &'a str,
}

/// Position of a write in the record.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    namespace: String,
    is_lease: bool,
    number: usize,
}

impl Record {
    pub(crate) fn new(clock: &Clock, rng: &Rng) -> Self {
        let (stories, is_away) = (Arc::default(), Arc::default());
        Self { clock: clock.clone(), rng: rng.fork(), stories, is_away }
    }

    /// Calls a closure with the record of a namespace so far.
    pub(crate) fn read<T>(&self, namespace: &str, look: impl FnOnce(&Story) -> T) -> T {
        look(self.stories().entry(namespace.to_owned()).or_default())
    }

    /// Whether the server cuts all connections of replicas.
    pub(crate) fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::SeqCst);
    }

    /// Adds a request. Returns its position, if it is a write.
    pub(crate) fn begin(&self, request: &Request<'_>, start: Moment) -> Option<Place> {
        let mut stories = self.stories();
        let story = stories.entry(request.namespace.to_owned()).or_default();
        let is_lease = request.resource == "leases";
        match request.verb {
            "get" if is_lease => *story.reads.entry(request.identity.to_owned()).or_default() += 1,
            "create" | "update" | "patch" | "delete" if request.resource != "events" => {
                let writes = story.part(is_lease);
                writes.push(Write {
                    identity: request.identity.to_owned(),
                    verb: request.verb.to_owned(),
                    object: request.name.to_owned(),
                    start,
                    end: None,
                });
                let number = writes.len() - 1;
                return Some(Place { namespace: request.namespace.to_owned(), is_lease, number });
            }
            _ => {}
        }
        None
    }

    /// Marks a write as committed.
    pub(crate) fn end(&self, place: &Place, end: Moment) {
        let mut stories = self.stories();
        let story = stories.entry(place.namespace.clone()).or_default();
        story.part(place.is_lease)[place.number].end = Some(end);
    }

    fn stories(&self) -> MutexGuard<'_, BTreeMap<String, Story>> {
        self.stories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Moment {
        self.clock.now().duration_since(Instant::ZERO)
    }
}

impl<'a> Request<'a> {
    /// The replica that sent a request, if one did.
    fn of(call: &'a RequestInfo, verb: &'a str) -> Option<Self> {
        let identity = call.user_agent.strip_prefix(AGENT)?;
        let (namespace, name) = (call.namespace.as_deref()?, call.name.as_deref().unwrap_or_default());
        Some(Self { identity, verb, namespace, resource: &call.resource, name })
    }
}

impl Hook for Record {
    fn before_request<'a>(&'a self, call: &'a RequestInfo) -> HookFuture<'a, Verdict> {
        Box::pin(async move {
            if call.user_agent.starts_with(AGENT) && self.is_away.load(Ordering::SeqCst) {
                return Verdict::Disconnect;
            }
            let verb = verb(call);
            if let Some(request) = Request::of(call, &verb) {
                self.begin(&request, self.now());
            }
            if call.resource == "configmaps" && call.verb == Verb::Patch {
                // No term may end while one of these is in progress, which is likely at its end. They end before
                // another replica can acquire a lease that was not released.
                let is_slow = self.rng.range(0..25) == 0 && call.namespace.as_deref() != Some(FROZEN);
                let millis = if is_slow { 200..600 } else { 0..8 };
                self.clock.sleep(Duration::from_millis(self.rng.range(millis))).await;
            }
            Verdict::Proceed
        })
    }

    fn after_commit<'a>(&'a self, call: &'a RequestInfo) -> HookFuture<'a, Verdict> {
        let (end, verb) = (self.now(), verb(call));
        if let Some(request) = Request::of(call, &verb) {
            let mut stories = self.stories();
            let story = stories.entry(request.namespace.to_owned()).or_default();
            // One worker writes one object, and waits for the end of one request before the next.
            let write = story.part(request.resource == "leases").iter_mut().rev().find(|write| {
                write.identity == request.identity && write.object == request.name && write.end.is_none()
            });
            if let Some(write) = write {
                write.end = Some(end);
            }
        }
        Box::pin(std::future::ready(Verdict::Proceed))
    }
}

/// The verb as the audit log names it.
fn verb(call: &RequestInfo) -> String {
    format!("{:?}", call.verb).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Duration::from_millis(millis)
    }

    fn write(identity: &str, object: &str, start: u64, end: u64) -> Write {
        let (identity, object) = (identity.to_owned(), object.to_owned());
        Write { identity, verb: "patch".to_owned(), object, start: at(start), end: Some(at(end)) }
    }

    fn story(writes: Vec<Write>) -> Story {
        let leases =
            vec![write("a", "lease", 0, 1), write("a", "lease", 30, 31), write("b", "lease", 50, 52)];
        Story { writes, leases, reads: BTreeMap::new() }
    }

    #[test]
    fn spans_of_different_replicas_that_touch_are_wrong_and_shown() {
        let apart = story(vec![write("a", "x", 10, 12), write("a", "y", 11, 40), write("b", "x", 60, 61)]);
        assert_eq!(apart.check(&BTreeMap::new()).unwrap().len(), 0);
        assert_eq!(apart.takeover("a", "b"), Ok(at(21)));
        let touching = story(vec![write("a", "x", 10, 12), write("a", "y", 11, 60), write("b", "x", 60, 61)]);
        let wrong = touching.check(&BTreeMap::new()).unwrap_err();
        assert!(wrong.starts_with("b wrote from 60ms on, a until 60ms\n"), "{wrong}");
        assert!(wrong.contains("  11ms .. 60ms: a patch y\n"), "{wrong}");
        let back = story(vec![write("a", "x", 10, 12), write("b", "x", 60, 61), write("a", "x", 70, 71)]);
        assert!(back.check(&BTreeMap::new()).is_err());
    }

    #[test]
    fn a_frozen_replica_may_send_one_request_per_object_after_it_went_on() {
        let thawed = BTreeMap::from([("a".to_owned(), at(70))]);
        let mut writes = vec![write("a", "x", 10, 12), write("b", "x", 60, 90), write("a", "x", 71, 72)];
        writes.push(write("a", "y", 71, 72));
        assert_eq!(story(writes.clone()).check(&thawed).unwrap().len(), 2);
        writes.push(write("a", "x", 73, 74));
        let wrong = story(writes).check(&thawed).unwrap_err();
        assert!(wrong.starts_with("a went on after it was frozen, and wrote x more than once\n"), "{wrong}");
        // A write before it continued does not count.
        let early = story(vec![write("a", "x", 10, 12), write("b", "x", 60, 61), write("a", "x", 65, 66)]);
        assert!(early.check(&thawed).is_err());
    }

    #[test]
    fn who_writes_before_it_has_the_lease_is_told_of() {
        let wrong = story(vec![write("b", "x", 49, 50)]).check(&BTreeMap::new()).unwrap_err();
        assert!(wrong.starts_with("b wrote before it had the lease\n"), "{wrong}");
    }
}
