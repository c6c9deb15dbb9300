//! A candidate: stands for election until it leads, renews while it does, knows when it does not any more.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_clock::{Clock, Instant};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};

use super::complaint::Complaint;
use super::fence::Fence;
use super::lease::{LeaseError, LeaseLock};
use super::observation::{Observation, Step};
use super::{Called, JITTER, LeaderElection, Told};
use crate::{ElectionMetrics, Metrics};

/// One candidate of an election.
///
/// [`acquire`](Self::acquire) waits until it leads, and gives a [`Leadership`], whose [`hold`](Leadership::hold) renews the
/// lease until it is lost. Both go on only while they are polled: run them as a task of their own, on a client of their own.
/// A future that is dropped stops; nothing is released then, and the lease ends by itself.
pub struct Elector {
    options: LeaderElection,
    identity: Arc<str>,
    lock: LeaseLock,
    clock: Clock,
    fence: Fence,
    seen: Mutex<Observation>,
    is_leading: AtomicBool,
    hooks: Hooks,
}

/// Who is told what.
#[derive(Default)]
struct Hooks {
    new_leader: Option<Told>,
    started: Option<Called>,
    stopped: Option<Called>,
    metrics: Option<ElectionMetrics>,
}

/// The lease is ours. See [`hold`](Self::hold).
#[must_use = "a lease that nobody holds is lost"]
pub struct Leadership<'e> {
    elector: &'e Elector,
}

/// The lease is not ours any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Lost {
    /// It could not be renewed in time.
    #[error("leader election lost: {election} was not renewed within {deadline:?}: {last}")]
    NotRenewed {
        /// The lease, as `namespace/name`.
        election: String,
        /// How long it was tried.
        deadline: Duration,
        /// What the last try came to.
        last: String,
    },
    /// Somebody else has it.
    #[error("leader election lost: {election} is held by {holder} now")]
    Taken {
        /// The lease, as `namespace/name`.
        election: String,
        /// Who has it.
        holder: String,
    },
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
enum Try {
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
            hooks: Hooks::default(),
            options,
        }
    }

    /// Calls a function with the identity of each new leader, this candidate included. Default: nobody is told, but the log.
    ///
    /// It is called where the election goes on, as the other hooks are, and must return at once.
    #[must_use]
    pub fn on_new_leader(mut self, hook: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.hooks.new_leader = Some(Box::new(hook));
        self
    }

    /// Calls a function each time that this candidate begins to lead. The fence is open then. Default: nobody is told, but
    /// the log.
    #[must_use]
    pub fn on_started_leading(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.hooks.started = Some(Box::new(hook));
        self
    }

    /// Calls a function each time that this candidate leads no more, because it lost the lease or
    /// [gives it up](Leadership::release). The fence is closed then. Default: nobody is told, but the log.
    ///
    /// Nobody is told when the future of [`hold`](Leadership::hold) is dropped instead.
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
    pub async fn acquire(&self) -> Leadership<'_> {
        let mut complaint = Complaint::default();
        tracing::info!(lease = %self.options, identity = %self.identity, "stands for election");
        loop {
            let pause = match self.attempt().await {
                Ok(Try::Ours) => {
                    self.start_leading();
                    return Leadership { elector: self };
                }
                // Who waits for an end that is near need not wait longer than that.
                Ok(Try::Theirs(end)) => end
                    .since(self.clock.now_with_suspend())
                    .clamp(Duration::from_millis(10), self.options.retry_period),
                Err(error) => {
                    let text = crate::error::describe(&error);
                    if complaint.is_news(&text, self.clock.now()) {
                        let hint = error.hint();
                        tracing::warn!(lease = %self.options, error = %text, hint, "cannot take the lease, trying again");
                    }
                    self.options.retry_period
                }
            };
            self.clock.sleep(self.clock.rng().jitter(pause, JITTER - 1.0)).await;
        }
    }

    /// One try to have the lease, ours already or not.
    async fn attempt(&self) -> Result<Try, LeaseError> {
        let is_ours = self.seen().holder() == Some(&*self.identity);
        if is_ours {
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
        let lease = self.lock.read().await?;
        let now = self.clock.now_with_suspend();
        self.see(lease);
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
        let lease = match &seen {
            Some(seen) => self.lock.replace(seen, spec).await?,
            None => self.lock.create(spec).await?,
        };
        self.see(Some(lease));
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
            if let Some(hook) = &self.hooks.new_leader {
                hook(&leader);
            }
        }
    }

    fn start_leading(&self) {
        tracing::info!(lease = %self.options, identity = %self.identity, "became the leader");
        self.is_leading.store(true, Ordering::SeqCst);
        self.hooks.metrics.iter().for_each(|metrics| metrics.set_leading(true));
        self.hooks.started.iter().for_each(|hook| hook());
    }

    /// Whatever the reason, once for each term.
    fn stop_leading(&self) {
        self.fence.close();
        if self.is_leading.swap(false, Ordering::SeqCst) {
            self.hooks.metrics.iter().for_each(|metrics| metrics.set_leading(false));
            self.hooks.stopped.iter().for_each(|hook| hook());
        }
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Observation> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leadership<'_> {
    /// Renews the lease until it is lost, and says why it was. The [fence](Elector::fence) is closed then.
    pub async fn hold(&self) -> Lost {
        let lost = self.renew().await;
        self.elector.stop_leading();
        lost
    }

    async fn renew(&self) -> Lost {
        let Elector { options, clock, fence, .. } = self.elector;
        let election = options.to_string();
        let mut last = "this process was frozen, or too busy to try".to_owned();
        loop {
            let Ok(left) = fence.remaining() else {
                return Lost::NotRenewed { election, deadline: options.renew_deadline, last };
            };
            clock.sleep(options.retry_period.min(left)).await;
            let Ok(left) = fence.remaining() else { continue };
            match clock.timeout(left, self.elector.attempt()).await {
                Ok(Ok(Try::Ours)) => {}
                Ok(Ok(Try::Theirs(_))) => {
                    let holder = self.elector.leader().unwrap_or_else(|| "another candidate".to_owned());
                    return Lost::Taken { election, holder };
                }
                Ok(Err(error)) => {
                    last = crate::error::describe(&error);
                    tracing::warn!(lease = %options, error = %last, "cannot renew the lease, trying again");
                }
                Err(_) => "the server did not answer".clone_into(&mut last),
            }
        }
    }

    /// Stops leading: closes the fence, and gives the lease up, if the options say so, so that another candidate may take it
    /// at once. To be called when all that needs leadership has stopped.
    pub async fn release(self) {
        let Elector { options, clock, lock, .. } = self.elector;
        self.elector.stop_leading();
        if !options.release_on_stop {
            return;
        }
        let give_up = async {
            loop {
                let seen = self.elector.seen().lease().cloned();
                let Some(seen) = seen else { return Ok(()) };
                if self.elector.seen().holder() != Some(&*self.elector.identity) {
                    return Ok(());
                }
                let old = seen.spec.clone().unwrap_or_default();
                let now = lock.wall();
                let spec = LeaseSpec {
                    holder_identity: Some(String::new()),
                    lease_duration_seconds: Some(1),
                    acquire_time: now.clone(),
                    renew_time: now,
                    ..old
                };
                match lock.replace(&seen, spec).await {
                    Ok(lease) => {
                        self.elector.see(Some(lease));
                        return Ok(());
                    }
                    Err(error) if error.is_conflict() => {
                        let lease = lock.read().await?;
                        self.elector.see(lease);
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        match clock.timeout(options.renew_deadline, give_up).await {
            Ok(Ok(())) => tracing::info!(lease = %options, "gave the lease up"),
            Ok(Err(error)) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(lease = %options, error, "cannot give the lease up: it ends by itself");
            }
            Err(_) => tracing::warn!(lease = %options, "cannot give the lease up in time: it ends by itself"),
        }
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

impl fmt::Debug for Leadership<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Leadership").field(&self.elector).finish()
    }
}
