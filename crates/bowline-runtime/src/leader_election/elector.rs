//! A candidate: stands for election until it leads, renews while it does, knows when it does not any more.

use std::convert::Infallible;
use std::fmt;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_clock::{Clock, Instant};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};

use super::complaint::Complaint;
use super::fence::Fence;
use super::hooks::Hooks;
use super::leadership::Leadership;
use super::lease::{LeaseError, LeaseLock};
use super::observation::{Observation, Step};
use super::{JITTER, LeaderElection};
use crate::Metrics;

/// Who waits for the end of a lease that is near waits so long at least, unless the retry period is shorter.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

/// One candidate of an election.
///
/// [`acquire`](Self::acquire) waits until it leads, and gives a [`Leadership`], whose [`hold`](Leadership::hold) renews the
/// lease until it is lost. Both go on only while they are polled: run them as a task of their own, on a client of their own.
/// A future that is dropped stops; nothing is released then, and the lease ends by itself: who may have to stop before it
/// leads calls [`acquire_unless`](Self::acquire_unless).
///
/// # Hooks
/// They are called where the election goes on: while one runs, nothing is renewed. One must be quick and must not block;
/// what takes longer is for a task that the hook tells of it. One that panics is logged, by its name, and changes nothing.
pub struct Elector {
    pub(super) options: LeaderElection,
    identity: Arc<str>,
    lock: LeaseLock,
    pub(super) clock: Clock,
    pub(super) fence: Fence,
    seen: Mutex<Observation>,
    is_leading: AtomicBool,
    /// A write was sent, and whether it was done is not known.
    is_in_doubt: AtomicBool,
    hooks: Hooks,
}

/// This candidate should lead, but has not renewed its lease for so long that something is wrong with the process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lease {election} is {identity}'s, and was not renewed for {age:?}, although it lasts {lasts:?}")]
#[non_exhaustive]
pub struct Expired {
    /// The lease, as `namespace/name`.
    pub election: String,
    /// Who has it: this candidate.
    pub identity: String,
    /// How long ago the last renewal was.
    pub age: Duration,
    /// How long a lease lasts.
    pub lasts: Duration,
}

/// What a try to take or to renew the lease came to.
pub(super) enum Try {
    Ours,
    Theirs(Instant),
}

impl Elector {
    pub(super) fn new(options: LeaderElection, kube: kube::Client, clock: &Clock) -> Self {
        let identity = options.identity.clone().unwrap_or_else(|| identity(clock));
        // A request that hangs must leave time for another before the deadline.
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

    /// Calls a function with the identity of each new leader, this candidate included. Default: nobody is told, but the log.
    ///
    /// It must be quick and must not block, see [hooks](Self#hooks).
    #[must_use]
    pub fn on_new_leader(mut self, hook: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.hooks.new_leader = Some(Box::new(hook));
        self
    }

    /// Calls a function each time that this candidate begins to lead. The fence is open then. Default: nobody is told, but
    /// the log.
    ///
    /// It must be quick and must not block, see [hooks](Self#hooks).
    #[must_use]
    pub fn on_started_leading(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.hooks.started = Some(Box::new(hook));
        self
    }

    /// Calls a function each time that this candidate leads no more, because it lost the lease,
    /// [gives it up](Leadership::release) or [leaves it alone](Leadership::abandon). The fence is closed then. Default:
    /// nobody is told, but the log.
    ///
    /// Nobody is told when the future of [`hold`](Leadership::hold) is dropped instead. It must be quick and must not block,
    /// see [hooks](Self#hooks).
    #[must_use]
    pub fn on_stopped_leading(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.hooks.stopped = Some(Box::new(hook));
        self
    }

    /// Where it is told whether this candidate leads (`leader_election_master_status`, by the name of the lease). Default:
    /// nowhere.
    #[must_use]
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        let metrics = metrics.election(&self.options.name);
        metrics.set_leading(false);
        self.hooks.metrics = Some(metrics);
        self
    }

    /// Who this candidate is.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Who leads, as far as is known.
    #[must_use]
    pub fn leader(&self) -> Option<String> {
        self.seen().holder().map(str::to_owned)
    }

    /// Open while this candidate leads and renews in time.
    #[must_use]
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// Whether the process is as it should be. It is not if it has the lease, as far as it knows, and has renewed it neither
    /// while it lasted nor for some time after that: then [`hold`](Leadership::hold) should have returned and the process
    /// ended, and something keeps it from that. For a liveness probe. One that does not lead is as it should be.
    ///
    /// # Errors
    /// [`Expired`] when it is not.
    pub fn check(&self, tolerance: Duration) -> Result<(), Expired> {
        let seen = self.seen();
        let lasts = self.options.lease_duration;
        let age = self.clock.now_with_suspend().since(seen.since());
        if seen.holder() != Some(&*self.identity) || age <= lasts.saturating_add(tolerance) {
            return Ok(());
        }
        let (election, identity) = (self.options.to_string(), (*self.identity).to_owned());
        Err(Expired { election, identity, age, lasts })
    }

    /// Waits until this candidate leads. A server that does not answer, or says no, is asked again and again; what it says is
    /// logged, the same thing once a minute.
    ///
    /// Who drops this in the middle of a request may leave a lease behind that nobody holds, see
    /// [`acquire_unless`](Self::acquire_unless).
    pub async fn acquire(&self) -> Leadership<'_> {
        match self.stand(std::future::pending::<Infallible>()).await {
            Ok(leadership) => leadership,
            Err(never) => match never {},
        }
    }

    /// As [`acquire`](Self::acquire), until `stop` is over, which gives `None`: for a process that may have to end before it
    /// leads.
    ///
    /// `None` comes at once, unless the lease is just being taken, or it is not known whether it was: then what became of
    /// that is waited for, and a lease that came out ours is given up (whatever
    /// [`release_on_stop`](LeaderElection::release_on_stop) says: nothing was begun with it), so that the next candidate
    /// need not wait until it ends. That takes no longer than the requests of one try and the renew deadline. No term began
    /// then: nobody is told that one started or stopped.
    pub async fn acquire_unless(&self, stop: impl Future<Output = ()>) -> Option<Leadership<'_>> {
        self.stand(stop).await.ok()
    }

    async fn stand<S>(&self, stop: impl Future<Output = S>) -> Result<Leadership<'_>, S> {
        tracing::info!(lease = %self.options, identity = %self.identity, "stands for election");
        // A lease that an earlier term left behind was left so that it ends by itself.
        let was_ours = self.has_it();
        let outcome = self.campaign(pin!(stop)).await;
        if outcome.is_err() {
            self.fence.close();
            if !was_ours && (self.has_it() || self.is_in_doubt()) {
                self.give_up().await;
            }
        }
        outcome
    }

    /// Tries until it leads or is stopped. Who is stopped may have the lease.
    async fn campaign<S>(&self, mut stop: Pin<&mut impl Future<Output = S>>) -> Result<Leadership<'_>, S> {
        let mut complaint = Complaint::default();
        loop {
            let mut attempt = pin!(self.attempt());
            let outcome = tokio::select! {
                biased;
                stopped = &mut stop => {
                    // What only reads can be dropped.
                    if self.is_in_doubt() {
                        let _: Result<Try, LeaseError> = attempt.await;
                    }
                    return Err(stopped);
                }
                outcome = &mut attempt => outcome,
            };
            let pause = match outcome {
                Ok(Try::Ours) => {
                    self.start_leading();
                    return Ok(Leadership::new(self));
                }
                // Who waits for an end that is near need not wait longer than that.
                Ok(Try::Theirs(end)) => {
                    let left = end.since(self.clock.now_with_suspend());
                    left.max(SHORTEST_PAUSE).min(self.options.retry_period)
                }
                Err(error) => {
                    let text = crate::error::describe(&error);
                    if complaint.is_news(&text, self.clock.now()) {
                        let hint = error.hint();
                        tracing::warn!(lease = %self.options, error = %text, hint, "cannot take the lease, trying again");
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

    /// One try to have the lease, ours already or not.
    pub(super) async fn attempt(&self) -> Result<Try, LeaseError> {
        if self.has_it() {
            // What was written last is most likely still there: no need to read it first. Whatever speaks against that, a
            // conflict or that it is gone, shows when it is read.
            match self.write(Step::Renew).await {
                Ok(()) => return Ok(Try::Ours),
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::debug!(lease = %self.options, error, "cannot renew the lease, reading it");
                }
            }
        }
        let now = self.look().await?;
        let step = self.seen().step(&self.identity, self.options.lease_duration, now);
        match step {
            Step::Wait(end) => Ok(Try::Theirs(end)),
            Step::Create | Step::Renew | Step::Take => match self.write(step).await {
                Ok(()) => Ok(Try::Ours),
                // Another candidate was quicker.
                Err(error) if error.is_conflict() && step != Step::Renew => Ok(Try::Theirs(now)),
                Err(error) => Err(error),
            },
        }
    }

    /// Reads the lease. Says when the answer came.
    async fn look(&self) -> Result<Instant, LeaseError> {
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
        // Rounded up: others may wait longer than they have to, never shorter.
        let seconds = self.options.lease_duration.as_millis().div_ceil(1000);
        LeaseSpec {
            holder_identity: Some((*self.identity).to_owned()),
            lease_duration_seconds: Some(i32::try_from(seconds).unwrap_or(i32::MAX)),
            ..old
        }
    }

    /// An answer about the lease came just now. What it tells may have been written up to this moment, so that whoever
    /// waits for its end counts from here, and not from when it was asked for.
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
            tracing::info!(lease = %self.options, leader, "there is a new leader");
            self.hooks.new_leader(&leader);
        }
    }

    fn start_leading(&self) {
        tracing::info!(lease = %self.options, identity = %self.identity, "became the leader");
        self.is_leading.store(true, Ordering::SeqCst);
        self.hooks.started();
    }

    /// Whatever the reason, once for each term. The fence comes first: nothing that a hook does may be done as the leader.
    pub(super) fn stop_leading(&self) {
        self.fence.close();
        if self.is_leading.swap(false, Ordering::SeqCst) {
            self.hooks.stopped();
        }
    }

    /// Gives the lease up if it is ours. It is tried until the renew deadline is over, and told once what came of it.
    pub(super) async fn give_up(&self) {
        let Self { options, clock, .. } = self;
        let mut last = None;
        let tries = async {
            loop {
                match self.vacate().await {
                    Ok(was_ours) => return was_ours,
                    Err(error) => last = Some(error),
                }
                clock.sleep(options.retry_period).await;
            }
        };
        match clock.timeout(options.renew_deadline, tries).await {
            Ok(true) => tracing::info!(lease = %options, "gave the lease up"),
            Ok(false) => tracing::info!(lease = %options, "the lease is not ours, nothing to give up"),
            Err(_) => {
                let error =
                    last.map_or_else(|| "no answer".to_owned(), |error| crate::error::describe(&error));
                tracing::warn!(lease = %options, error, "cannot give the lease up in time: it ends by itself");
            }
        }
    }

    /// One try to give the lease up. False if it is not ours, or not there.
    async fn vacate(&self) -> Result<bool, LeaseError> {
        if self.is_in_doubt() {
            self.look().await?;
        }
        let mut has_looked = false;
        loop {
            if !self.has_it() {
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
                // Once: a server that says so whatever it is sent is not to be asked without a pause.
                Err(error) if error.is_conflict() && !has_looked => {
                    self.look().await?;
                    has_looked = true;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the lease is ours, as far as is known.
    fn has_it(&self) -> bool {
        self.seen().holder() == Some(&*self.identity)
    }

    fn is_in_doubt(&self) -> bool {
        self.is_in_doubt.load(Ordering::SeqCst)
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Observation> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The host's name, where it is known, and something random: two processes of one host are two candidates.
fn identity(clock: &Clock) -> String {
    let host = hostname::get().ok().and_then(|host| host.into_string().ok()).filter(|host| !host.is_empty());
    let random = (clock.rng().next_u64(), clock.rng().next_u64());
    format!("{}_{:016x}{:016x}", host.as_deref().unwrap_or("unknown"), random.0, random.1)
}

impl fmt::Debug for Elector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elector")
            .field("lease", &format_args!("{}", self.options))
            .field("identity", &self.identity)
            .field("leader", &self.leader())
            .finish_non_exhaustive()
    }
}
