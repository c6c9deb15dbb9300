//! How a controller is put together.

use std::error::Error as StdError;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use bowline_cache::Kind;
use bowline_workqueue::{ItemExponentialFailure, RateLimiter};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::DeserializeOwned;

use super::error::BuildError;
use super::handle::Controller;
use super::home::Home;
use super::session::{Core, Options};
use crate::predicate::Predicate;
use crate::reconciler::IntoReconciler;
use crate::watch::AnyWatch;
use crate::{Cluster, Request, Watch, handler, source};

/// What a controller watches, and how it works; from [`Controller::builder`]. `K` is the kind that it reconciles, `()` if there
/// is none; `H` is where the builder was made.
#[must_use = "a builder does nothing until `build`"]
pub struct ControllerBuilder<K, H = Cluster> {
    home: H,
    name: Option<String>,
    kind: Option<Kind<K>>,
    /// Of the kind that is reconciled.
    own: Option<Watch<K>>,
    watches: Vec<Arc<dyn AnyWatch>>,
    filters: Vec<Box<dyn Predicate<ObjectMeta>>>,
    options: Options,
}

/// What a [hook](ControllerBuilder::max_retries) is told when an object is given up.
#[derive(Debug)]
#[non_exhaustive]
pub struct GaveUp<'a> {
    /// What was reconciled.
    pub request: &'a Request,
    /// How often it was tried.
    pub attempts: u32,
    /// What it failed with the last time.
    pub error: &'a (dyn StdError + Send + Sync + 'static),
}

impl<H: Home> ControllerBuilder<(), H> {
    /// One that is made there.
    pub(crate) fn at(home: H) -> Self {
        Self {
            home,
            name: None,
            kind: None,
            own: None,
            watches: Vec::new(),
            filters: Vec::new(),
            options: Options {
                concurrency: NonZeroUsize::MIN,
                limiter: Box::new(|| Box::new(ItemExponentialFailure::default())),
                max_retries: None,
                sync_timeout: None,
                timeout: Duration::from_secs(600),
                stop_timeout: Duration::from_secs(30),
                recover_panics: true,
                resync: None,
                needs_leadership: true,
                warm_up: true,
            },
        }
    }

    /// Reconciles objects of this kind: each that there is, and whenever something happens to one.
    pub fn for_<K>(self) -> ControllerBuilder<K, H>
    where
        K: Resource<DynamicType = (), Scope: 'static> + DeserializeOwned + Send + Sync + 'static,
    {
        self.for_kind(Kind::typed())
    }

    /// The same as [`for_`](Self::for_), for a kind in any form: known only at run time, or of which only the metadata is
    /// kept.
    pub fn for_kind<K: Resource + Send + Sync + 'static>(self, kind: Kind<K>) -> ControllerBuilder<K, H> {
        let own = Watch::new(source::kind_of(kind.clone()), handler::object());
        ControllerBuilder {
            home: self.home,
            name: self.name,
            kind: Some(kind),
            own: Some(own),
            watches: self.watches,
            filters: self.filters,
            options: self.options,
        }
    }
}

impl<K: Resource + Send + Sync + 'static, H: Home> ControllerBuilder<K, H> {
    /// Of the kind that is reconciled, only changes that the predicate accepts.
    pub fn for_filter(mut self, predicate: impl Predicate<K>) -> Self {
        self.own = self.own.map(|own| own.filter(predicate));
        self
    }

    /// Reconciles the owner of an object of this kind when something happens to it: the one whose owner reference says
    /// `controller: true`, and the old one when that changes.
    ///
    /// For all owners, or with predicates, say it in full:
    /// `watches(Watch::new(source::kind::<D>(), handler::owner::<K>().any()).filter(…))`.
    ///
    /// # Panics
    /// Never: whoever has this type has called [`for_`](ControllerBuilder::for_).
    pub fn owns<D>(self) -> Self
    where
        D: Resource<DynamicType = (), Scope: 'static> + DeserializeOwned + Send + Sync + 'static,
    {
        self.owns_kind(Kind::<D>::typed())
    }

    /// The same as [`owns`](Self::owns), for a kind in any form: known only at run time, or of which only the metadata is
    /// kept.
    ///
    /// # Panics
    /// Never: whoever has this type has called [`for_`](ControllerBuilder::for_).
    pub fn owns_kind<D: Resource + Send + Sync + 'static>(self, kind: Kind<D>) -> Self {
        let owner = handler::owner_of(self.kind.as_ref().expect("`for_` gave it a kind"));
        self.watches(Watch::new(source::kind_of(kind), owner))
    }
}

impl<K: 'static, H: Home> ControllerBuilder<K, H> {
    /// Watches something else.
    pub fn watches<D: 'static>(mut self, watch: Watch<D>) -> Self {
        self.watches.push(watch.erase());
        self
    }

    /// Of all watches, only changes that the predicate accepts, which sees their metadata. May be called several times: all
    /// have to accept a change.
    pub fn filter(mut self, predicate: impl Predicate<ObjectMeta>) -> Self {
        self.filters.push(Box::new(predicate));
        self
    }

    /// Every object of the kinds that it watches is shown once more after each period (at least a second), with low priority,
    /// although nothing happened to it; a watch whose [source](crate::source::KindSource::resync) has a period of its own
    /// keeps that. By default as the cache has it.
    pub fn resync(mut self, period: Duration) -> Self {
        self.options.resync = Some(period);
        self
    }

    /// What it is called in logs, metrics and events, and as the owner of fields that it writes, unless the cluster's client
    /// has a name for that. By default the kind that it reconciles, in lower case. No two controllers of one cluster, or of
    /// clusters that share their [metrics](crate::Metrics), may have the same name.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How many objects are reconciled at the same time: 1 by default. The same object never is twice at the same time.
    pub fn concurrency(mut self, workers: NonZeroUsize) -> Self {
        self.options.concurrency = workers;
        self
    }

    /// Decides how long an object waits after an error. It is made anew each time the controller starts. By default
    /// [`ItemExponentialFailure`]: 5 ms, doubled with each error up to 1000 s.
    pub fn limiter<L: RateLimiter<Request>>(
        mut self,
        limiter: impl Fn() -> L + Send + Sync + 'static,
    ) -> Self {
        self.options.limiter = Box::new(move || Box::new(limiter()));
        self
    }

    /// Gives an object up after it failed and was tried again so many times, and calls the hook then; until something
    /// happens to the object. By default nothing is given up: the delay grows to 1000 s and stays there. Runs that
    /// [back off](crate::Action::back_off) did not fail.
    ///
    /// The hook must be quick, and must not block its thread.
    pub fn max_retries(mut self, retries: u32, hook: impl Fn(&GaveUp<'_>) + Send + Sync + 'static) -> Self {
        self.options.max_retries = Some((retries, Box::new(hook)));
        self
    }

    /// How long the controller waits, when it starts, until it has seen all that there is. By default 2 minutes, and in a
    /// manager as long as it takes. Then it ends with an error that says what it waits for, and nobody else is affected;
    /// whoever started it decides what then.
    ///
    /// With [`Duration::MAX`] it waits as long as it takes, for somebody to create the CRD or to grant the right that is
    /// missing. Meanwhile it says what it waits for: in the log after 10 seconds and then each minute, in
    /// [`Controller::waiting_for`], and by the metric `bowline_controller_ready`.
    pub fn sync_timeout(mut self, limit: Duration) -> Self {
        self.options.sync_timeout = Some(limit);
        self
    }

    /// How long a reconcile may take: 10 minutes by default. One that takes longer is dropped where it waits, counts as an
    /// error and is tried again. [`Duration::MAX`] never comes.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.options.timeout = limit;
        self
    }

    /// How long a [stop](Controller::stop) waits for reconciles that run, and for the sources of changes: 30 seconds by
    /// default, for all of it. Then they are dropped where they wait.
    pub fn stop_timeout(mut self, limit: Duration) -> Self {
        self.options.stop_timeout = limit;
        self
    }

    /// Whether a reconcile that panics counts as an error, and all goes on: yes, by default. Otherwise the controller ends
    /// with an error.
    pub fn recover_panics(mut self, recover: bool) -> Self {
        self.options.recover_panics = recover;
        self
    }

    /// Whether it may run only where the leader is: yes, by default. In a manager with leader election it then reconciles
    /// only while this replica leads, and what it writes through [`Context::client`](crate::Context::client) has to pass a
    /// [fence](crate::leader_election::Fence). One that does not need leadership reconciles on every replica, from the start.
    ///
    /// Without a manager, or without an election, it means nothing.
    pub fn needs_leadership(mut self, needs: bool) -> Self {
        self.options.needs_leadership = needs;
        self
    }

    /// Whether what it watches is in the cache while it waits for leadership: yes, by default. When this replica begins to
    /// lead, nothing has to be listed then. Its handlers are called only from there on, with all that there is; until then
    /// nothing is queued, and sources that are no kind do not begin. Otherwise informers begin together with the leadership.
    ///
    /// It means nothing for one that does not wait for leadership.
    pub fn warm_up(mut self, warm_up: bool) -> Self {
        self.options.warm_up = warm_up;
        self
    }

    /// Puts the controller together. It does nothing until it is [started](Controller::start).
    ///
    /// The reconciler is one of
    /// - a function or closure of a [`Context`](crate::Context) and a [`Request`],
    /// - a function or closure of a [`Context`](crate::Context) and an `Arc<K>`: it is called for objects that are there,
    /// - a type that implements [`Reconciler`](crate::Reconciler) or [`ObjectReconciler`](crate::ObjectReconciler).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use bowline_runtime::{Action, Cluster, Context, Controller, Request, Result};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// async fn by_object(ctx: Context, config: Arc<ConfigMap>) -> Result<Action> {
    ///     Ok(Action::done())
    /// }
    ///
    /// fn controllers(cluster: &Cluster) -> Result<()> {
    ///     Controller::builder(cluster).for_::<ConfigMap>().build(by_object)?;
    ///     Controller::builder(cluster)
    ///         .for_::<ConfigMap>()
    ///         .named("by-request")
    ///         .build(|_: Context, _: Request| async { Ok::<_, std::io::Error>(Action::done()) })?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// When the name is taken, there is none, or there is nothing to watch.
    pub fn build<F>(self, reconciler: impl IntoReconciler<K, F>) -> Result<Controller, BuildError> {
        self.build_at(reconciler).map(|(controller, _)| controller)
    }

    /// Puts the controller together, for who goes on with where it was made.
    pub(crate) fn build_at<F>(
        self,
        reconciler: impl IntoReconciler<K, F>,
    ) -> Result<(Controller, H), BuildError> {
        let (group, kind) = match &self.kind {
            Some(kind) => (kind.resource().group.clone(), kind.resource().kind.clone()),
            None => Default::default(),
        };
        let name = match self.name.unwrap_or_else(|| kind.to_lowercase()) {
            name if name.is_empty() => return Err(BuildError::NoName),
            name => Arc::<str>::from(name),
        };
        let mut watches: Vec<_> = self.own.map(Watch::erase).into_iter().collect();
        watches.extend(self.watches);
        if watches.is_empty() {
            return Err(BuildError::NothingToWatch { name: name.to_string() });
        }
        let cluster = self.home.cluster();
        let Some((metrics, claim)) = cluster.metrics().claim(&name) else {
            return Err(BuildError::NameTaken { name: name.to_string() });
        };
        let (journal, clock) = (cluster.journal(), cluster.clock());
        let client = if self.options.needs_leadership { cluster.elected_client() } else { cluster.client() };
        let workers = self.options.concurrency.get();
        let core = Core {
            requeued: metrics.origin(if kind.is_empty() { &name } else { &kind }),
            by_hand: metrics.origin("somebody"),
            books: (0..workers).map(|_| journal.book(name.clone(), clock.clone())).collect(),
            group,
            kind,
            client: client.field_owner_or(&name),
            recorder: cluster.recorder(&name),
            metrics,
            options: self.options,
            filters: self.filters.into(),
            cluster: cluster.clone(),
            name,
        };
        core.metrics.concurrency.set(i64::try_from(workers).unwrap_or(i64::MAX));
        let task = reconciler.into_task(self.kind.as_ref());
        Ok((Controller::new(core, claim, task, watches), self.home))
    }
}

impl<K, H> fmt::Debug for ControllerBuilder<K, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}
