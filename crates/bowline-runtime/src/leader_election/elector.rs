//! A candidate: acquires the lease, renews it while it leads, and detects the loss of leadership.

use std::convert::Infallible;
use std::fmt;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_clock::{Clock, Instant};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};

use super::fence::Fence;
use super::hooks::Hooks;
use super::leadership::Leadership;
use super::lease::{LeaseError, LeaseLock};
use super::observation::{Observation, Step};
use super::{JITTER, LeaderElectionConfig};
use crate::Metrics;
use crate::log_throttle::LogThrottle;

/// Minimum pause before a lease expires, unless the retry period is shorter.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

/// One candidate of an election.
///
/// [`acquire`](Self::acquire) waits until this candidate leads, and returns a [`Leadership`]. Its
/// [`renew_until_lost`](Leadership::renew_until_lost) renews the lease until it is lost. Both make progress only while
/// they are polled: run them in their own task, with their own client. Dropping a future stops it without a release, so
/// that the lease expires. A process that may stop before it leads calls [`acquire_unless`](Self::acquire_unless).
///
/// # Hooks
/// Hooks run inside the election: while one runs, the lease is not renewed. A hook must be fast and must not block; it
/// hands longer work to a task. A panic in a hook is logged with the hook's name and changes nothing else.
pub struct LeaderElector {
    pub(super) options: LeaderElectionConfig,
    identity: Arc<str>,
    lock: LeaseLock,
    pub(super) clock: Clock,
    pub(super) fence: Fence,
    seen: Mutex<Observation>,
    is_leading: AtomicBool,
    /// A write was sent, and its outcome is unknown.
    is_in_doubt: AtomicBool,
    hooks: Hooks,
}

/// This candidate holds the lease, but has not renewed it for so long that the process must be faulty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the lease {election} is held by {identity}, which has not renewed it for {age:?}; it lasts {lasts:?}"
)]
#[non_exhaustive]
pub struct LeaseExpired {
    /// The lease, as `namespace/name`.
    pub election: String,
    /// The holder: this candidate.
    pub identity: String,
    /// Time since the last renewal.
    pub age: Duration,
    /// The lease duration.
    pub lasts: Duration,
}

/// The result of an attempt to take or renew the lease.
pub(super) enum LeaseAttempt {
    Held,
    HeldByOther(Instant),
}

impl LeaderElector {
    pub(super) fn new(options: LeaderElectionConfig, kube: kube::Client, clock: &Clock) -> Self {
        let identity = options.identity.clone().unwrap_or_else(|| identity(clock));
        // A request that hangs must leave time for another one before the deadline.
        let limit = (options.renew_deadline / 2).max(Duration::from_secs(1)).min(options.renew_deadline);
        Self {
            lock: LeaseLock::new(kube, &options.namespace, &options.name, clock, limit),
            identity: identity.into(),
            clock: clock.clone(),
            fence: Fence::closed(clock),
            seen: Mutex::default(),
            is_leading: AtomicBool::new(false),
            is_in_doubt: AtomicBool::new(false),
            hooks: Hooks::default(),
            options,
        }
    }

    /// Calls a function with the identity of each new leader, this candidate included. Default: only a log line.
    ///
    /// It must be fast and must not block, see [hooks](Self#hooks).
    #[must_use]
    pub fn on_new_leader(mut self, hook: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.hooks.new_leader = Some(Box::new(hook));
        self
    }

    /// Calls a function each time this candidate starts to lead. The fence is open then. Default: only a log line.
    ///
    /// It must be fast and must not block, see [hooks](Self#hooks).
    #[must_use]
    pub fn on_started_leading(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.hooks.started = Some(Box::new(hook));
        self
    }

    /// Calls a function each time this candidate stops leading, because it lost the lease,
    /// [released](Leadership::release) it or [abandoned](Leadership::abandon) it. The fence is closed then. Default:
    /// only a log line.
    ///
    /// Dropping the future of [`renew_until_lost`](Leadership::renew_until_lost) does not call it. It must be fast and
    /// must not block, see [hooks](Self#hooks).
    #[must_use]
    pub fn on_stopped_leading(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.hooks.stopped = Some(Box::new(hook));
        self
    }

    /// The metrics that report whether this candidate leads (`leader_election_master_status`, labelled with the name of
    /// the lease). Default: none.
    #[must_use]
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        let metrics = metrics.election(&self.options.name);
        metrics.set_leading(false);
        self.hooks.metrics = Some(metrics);
        self
    }

    /// The identity of this candidate.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The identity of the last observed leader.
    #[must_use]
    pub fn leader(&self) -> Option<String> {
        self.seen().holder().map(str::to_owned)
    }

    /// The fence: open while this candidate leads and renews in time.
    #[must_use]
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// Checks the process, for a liveness probe. It fails if this candidate holds the lease, as last observed, but did
    /// not renew it before it expired, nor for `tolerance` after that. Then
    /// [`renew_until_lost`](Leadership::renew_until_lost) should have returned and the process should have ended. A
    /// candidate that does not lead passes.
    ///
    /// # Errors
    /// [`LeaseExpired`] if the check fails.
    pub fn check(&self, tolerance: Duration) -> Result<(), LeaseExpired> {
        let seen = self.seen();
        let lasts = self.options.lease_duration;
        let age = self.clock.now_with_suspend().duration_since(seen.since());
        if seen.holder() != Some(&*self.identity) || age <= lasts.saturating_add(tolerance) {
            return Ok(());
        }
        let (election, identity) = (self.options.to_string(), (*self.identity).to_owned());
        Err(LeaseExpired { election, identity, age, lasts })
    }

    /// Waits until this candidate leads. Failed requests are retried without limit; the same error is logged once a
    /// minute.
    ///
    /// Dropping this during a request may leave a lease that no process renews, see
    /// [`acquire_unless`](Self::acquire_unless).
    pub async fn acquire(&self) -> Leadership<'_> {
        match self.compete(std::future::pending::<Infallible>()).await {
            Ok(leadership) => leadership,
            Err(never) => match never {},
        }
    }

    /// Like [`acquire`](Self::acquire), but returns `None` when `stop` completes: for a process that may end before it
    /// leads.
    ///
    /// `None` is returned at once, unless an attempt to take the lease is in progress or its outcome is unknown. Then
    /// this waits for the outcome, and releases the lease if this candidate got it, so that the next one need not wait
    /// until it expires. [`release_on_stop`](LeaderElectionConfig::release_on_stop) does not matter, since no work was
    /// started. This takes at most the requests of one attempt and the renew deadline. Hooks are not called.
    pub async fn acquire_unless(&self, stop: impl Future<Output = ()>) -> Option<Leadership<'_>> {
        self.compete(stop).await.ok()
    }

    async fn compete<S>(&self, stop: impl Future<Output = S>) -> Result<Leadership<'_>, S> {
        tracing::info!(lease = %self.options, identity = %self.identity, "candidate started; waiting for the lease");
        // A lease that an earlier term left must expire, so it is not released here.
        let was_ours = self.is_holder();
        let outcome = self.campaign(pin!(stop)).await;
        if outcome.is_err() {
            self.fence.close();
            if !was_ours && (self.is_holder() || self.is_in_doubt()) {
                self.release_lease().await;
            }
        }
        outcome
    }

    /// Retries until it leads or is stopped. When stopped, it may hold the lease.
    async fn campaign<S>(&self, mut stop: Pin<&mut impl Future<Output = S>>) -> Result<Leadership<'_>, S> {
        let mut throttle = LogThrottle::default();
        loop {
            let mut attempt = pin!(self.attempt());
            let outcome = tokio::select! {
                biased;
                stopped = &mut stop => {
                    // A request that only reads can be dropped.
                    if self.is_in_doubt() {
                        let _: Result<LeaseAttempt, LeaseError> = attempt.await;
                    }
                    return Err(stopped);
                }
                outcome = &mut attempt => outcome,
            };
            let pause = match outcome {
                Ok(LeaseAttempt::Held) => {
                    self.start_leading();
                    return Ok(Leadership::new(self));
                }
                // If the lease expires sooner than the next attempt, wait only until then.
                Ok(LeaseAttempt::HeldByOther(end)) => {
                    let left = end.duration_since(self.clock.now_with_suspend());
                    left.max(SHORTEST_PAUSE).min(self.options.retry_period)
                }
                Err(error) => {
                    let text = crate::error::describe(&error);
                    if throttle.is_news(&text, self.clock.now()) {
                        let hint = error.hint();
                        tracing::warn!(lease = %self.options, error = %text, hint, "cannot take the lease; will retry");
                    }
                    self.options.retry_period
                }
            };
            tokio::select! {
                biased;
                stopped = &mut stop => return Err(stopped),
                () = self.clock.sleep(self.clock.rng().jitter(pause, JITTER - 1.0)) => {}
            }
        }
    }

    /// One attempt to take or renew the lease.
    pub(super) async fn attempt(&self) -> Result<LeaseAttempt, LeaseError> {
        if self.is_holder() {
            // The last written version is most likely current, so it need not be read first. If not, the write fails
            // with a conflict or 404, and the lease is read then.
            match self.write(Step::Renew).await {
                Ok(()) => return Ok(LeaseAttempt::Held),
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::debug!(lease = %self.options, error, "cannot renew the lease; reading it");
                }
            }
        }
        let now = self.read_lease().await?;
        let step = self.seen().step(&self.identity, self.options.lease_duration, now);
        match step {
            Step::Wait(end) => Ok(LeaseAttempt::HeldByOther(end)),
            Step::Create | Step::Renew | Step::Take => match self.write(step).await {
                Ok(()) => Ok(LeaseAttempt::Held),
                // Another candidate came first.
                Err(error) if error.is_conflict() && step != Step::Renew => {
                    Ok(LeaseAttempt::HeldByOther(now))
                }
                Err(error) => Err(error),
            },
        }
    }

    /// Reads the lease. Returns the time of the response.
    async fn read_lease(&self) -> Result<Instant, LeaseError> {
        let lease = self.lock.read().await?;
        let now = self.clock.now_with_suspend();
        self.is_in_doubt.store(false, Ordering::SeqCst);
        self.see(lease);
        Ok(now)
    }

    async fn write(&self, step: Step) -> Result<(), LeaseError> {
        let sent = self.clock.now_with_suspend();
        let seen = self.seen().lease().cloned();
        let now = self.lock.wall();
        let old = seen.as_ref().and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let spec = match step {
            Step::Renew => LeaseSpec { renew_time: now, ..self.spec(old) },
            Step::Create | Step::Take | Step::Wait(_) => {
                let transitions = match step {
                    Step::Create => 0,
                    _ => old.lease_transitions.unwrap_or(0).saturating_add(1),
                };
                LeaseSpec {
                    acquire_time: now.clone(),
                    renew_time: now,
                    lease_transitions: Some(transitions),
                    ..self.spec(old)
                }
            }
        };
        self.is_in_doubt.store(true, Ordering::SeqCst);
        let answer = match &seen {
            Some(seen) => self.lock.replace(seen, spec).await,
            None => self.lock.create(spec).await,
        };
        if answer.as_ref().err().is_none_or(LeaseError::is_refusal) {
            self.is_in_doubt.store(false, Ordering::SeqCst);
        }
        self.see(Some(answer?));
        self.fence.open_until(sent + self.options.renew_deadline);
        Ok(())
    }

    fn spec(&self, old: LeaseSpec) -> LeaseSpec {
        // Rounded up: others may wait longer than necessary, never shorter.
        let seconds = self.options.lease_duration.as_millis().div_ceil(1000);
        LeaseSpec {
            holder_identity: Some((*self.identity).to_owned()),
            lease_duration_seconds: Some(i32::try_from(seconds).unwrap_or(i32::MAX)),
            ..old
        }
    }

    /// Stores a response about the lease. The record may have been written up to this moment, so its duration counts
    /// from here, not from the time of the request.
    fn see(&self, lease: Option<Lease>) {
        let now = self.clock.now_with_suspend();
        let new_leader = {
            let mut seen = self.seen();
            let before = seen.holder().map(str::to_owned);
            seen.see(lease, now);
            let after = seen.holder();
            (after != before.as_deref()).then(|| after.map(str::to_owned)).flatten()
        };
        if let Some(leader) = new_leader {
            tracing::info!(lease = %self.options, leader, "new leader");
            self.hooks.new_leader(&leader);
        }
    }

    fn start_leading(&self) {
        tracing::info!(lease = %self.options, identity = %self.identity, "became the leader");
        self.is_leading.store(true, Ordering::SeqCst);
        self.hooks.started();
    }

    /// Ends the term, once, for any reason. Closes the fence first, so that hooks cannot write as the leader.
    pub(super) fn stop_leading(&self) {
        self.fence.close();
        if self.is_leading.swap(false, Ordering::SeqCst) {
            self.hooks.stopped();
        }
    }

    /// Releases the lease if this candidate holds it. Retries until the renew deadline, and logs the result once.
    pub(super) async fn release_lease(&self) {
        let Self { options, clock, .. } = self;
        let mut last = None;
        let tries = async {
            loop {
                match self.try_release().await {
                    Ok(was_ours) => return was_ours,
                    Err(error) => last = Some(error),
                }
                clock.sleep(options.retry_period).await;
            }
        };
        match clock.timeout(options.renew_deadline, tries).await {
            Ok(true) => tracing::info!(lease = %options, "lease released"),
            Ok(false) => tracing::info!(lease = %options, "lease not held; nothing to release"),
            Err(_) => {
                let error =
                    last.map_or_else(|| "no answer".to_owned(), |error| crate::error::describe(&error));
                tracing::warn!(lease = %options, error, "cannot release the lease in time; left to expire");
            }
        }
    }

    /// One attempt to release the lease. False if this candidate does not hold it, or it does not exist.
    async fn try_release(&self) -> Result<bool, LeaseError> {
        if self.is_in_doubt() {
            self.read_lease().await?;
        }
        let mut has_read = false;
        loop {
            if !self.is_holder() {
                return Ok(false);
            }
            let Some(seen) = self.seen().lease().cloned() else { return Ok(false) };
            let now = self.lock.wall();
            let spec = LeaseSpec {
                holder_identity: Some(String::new()),
                lease_duration_seconds: Some(1),
                acquire_time: now.clone(),
                renew_time: now,
                ..seen.spec.clone().unwrap_or_default()
            };
            match self.lock.replace(&seen, spec).await {
                Ok(lease) => {
                    self.see(Some(lease));
                    return Ok(true);
                }
                Err(error) if error.is_not_found() => {
                    self.see(None);
                    return Ok(false);
                }
                // Only once: a server that always returns a conflict must not be called without a pause.
                Err(error) if error.is_conflict() && !has_read => {
                    self.read_lease().await?;
                    has_read = true;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether this candidate holds the lease, as last observed.
    fn is_holder(&self) -> bool {
        self.seen().holder() == Some(&*self.identity)
    }

    fn is_in_doubt(&self) -> bool {
        self.is_in_doubt.load(Ordering::SeqCst)
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Observation> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The host's name, if known, and a random suffix: two processes of one host are two candidates.
fn identity(clock: &Clock) -> String {
    let host = hostname::get().ok().and_then(|host| host.into_string().ok()).filter(|host| !host.is_empty());
    let random = (clock.rng().next_u64(), clock.rng().next_u64());
    format!("{}_{:016x}{:016x}", host.as_deref().unwrap_or("unknown"), random.0, random.1)
}

impl fmt::Debug for LeaderElector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elector")
            .field("lease", &format_args!("{}", self.options))
            .field("identity", &self.identity)
            .field("leader", &self.leader())
            .finish_non_exhaustive()
    }
}
