//! The errors of a controller, with their remedies.

use std::fmt;
use std::time::Duration;

use bowline_cache::{CacheError, NotSynced, ReflectorPhase};

use crate::source::SyncBlocker;
use crate::watch::AnyWatch;
use crate::{Cluster, ClusterName};

/// Why a controller cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// There is another of that name.
    #[error(
        "there is already a controller {name:?} on this cluster, or on one that shares its metrics: metrics and logs would \
         not tell them apart, so give one of them another name with `named`"
    )]
    NameTaken {
        /// The name.
        name: String,
    },
    /// It has no name, and no kind to be named after.
    #[error("a controller without `for_` needs a name: give it one with `named`")]
    NoName,
    /// It would never do anything.
    #[error("the controller {name:?} watches nothing: use `for_`, `owns` or `watches`")]
    NothingToWatch {
        /// The name.
        name: String,
    },
    /// It would have no worker.
    #[error(
        "the controller {name:?} has a concurrency of 0, and would never reconcile: give `concurrency` at least 1, or leave it \
         out for 1"
    )]
    ZeroConcurrency {
        /// The name.
        name: String,
    },
    /// It watches a cluster whose objects requests could not tell from its own.
    #[error(
        "the controller {name:?} watches {watch} in another cluster, which has no name, or that of the controller's own \
         cluster: give it one with `ClusterBuilder::named`"
    )]
    ClusterUnnamed {
        /// The name.
        name: String,
        /// The watch.
        watch: String,
    },
}

/// Why a controller does not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// It runs already.
    #[error("the controller {controller:?} is already running: stop it before it is started again")]
    AlreadyRunning {
        /// Its name.
        controller: String,
    },
    /// A manager starts and stops it.
    #[error(
        "the controller {controller:?} belongs to a manager, which starts it: neither start it by hand nor add it once more"
    )]
    Managed {
        /// Its name.
        controller: String,
    },
    /// It was never started, or was stopped.
    #[error("controller {controller:?} is not running: call `start`")]
    NotRunning {
        /// Its name.
        controller: String,
    },
    /// Its sources did not sync in time.
    #[error(
        "the controller {controller:?} could not begin within {limit:?}, because it waits for {}",
        list(.missing)
    )]
    NotSynced {
        /// Its name.
        controller: String,
        /// The sync timeout.
        limit: Duration,
        /// The sources that did not sync, and why.
        missing: Vec<UnsyncedSource>,
    },
    /// One of its watches makes no sense to the cache.
    #[error("the controller {controller:?} cannot watch {watch}: {error}")]
    Watch {
        /// Its name.
        controller: String,
        /// The watch.
        watch: String,
        /// The error of the cache.
        error: Box<CacheError>,
    },
    /// A watch of a cluster whose objects requests could not tell from the controller's own.
    #[error(
        "the controller {controller:?} cannot watch {watch}: that is in another cluster, which has no name, or that of the \
         controller's own cluster: give it one with `ClusterBuilder::named`"
    )]
    ClusterUnnamed {
        /// Its name.
        controller: String,
        /// The watch.
        watch: String,
    },
    /// A reconcile panicked, and [`recover_panics`](crate::ControllerBuilder::recover_panics) is off.
    #[error("the controller {controller:?} ended because reconciling {request} panicked: {message}")]
    Panicked {
        /// Its name.
        controller: String,
        /// The request that was reconciled.
        request: String,
        /// The text of the panic.
        message: String,
    },
    /// A part of it panicked that should not: a mistake in Bowline.
    #[error("the controller {controller:?} ended because a part of it panicked: {message}")]
    Broken {
        /// Its name.
        controller: String,
        /// The text of the panic.
        message: String,
    },
    /// The tasks of its cluster were aborted.
    #[error("the controller {controller:?} was aborted together with the tasks of its cluster")]
    Aborted {
        /// Its name.
        controller: String,
    },
}

/// A source that has not synced: the controller does not reconcile before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsyncedSource {
    source: String,
    /// The cluster that is watched, and whether it is another than the controller's own.
    cluster: Option<ClusterName>,
    is_elsewhere: bool,
    obstacle: SyncBlocker,
}

impl UnsyncedSource {
    pub(super) fn new(watch: &dyn AnyWatch, home: &Cluster, obstacle: SyncBlocker) -> Self {
        let cluster = watch.cluster().unwrap_or(home);
        Self {
            source: watch.name().to_owned(),
            cluster: cluster.name().cloned(),
            is_elsewhere: !cluster.is_same(home),
            obstacle,
        }
    }

    /// The name of the source, as in triggers: the watched kind, most of the time.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The name of the cluster that is watched, if it has one.
    #[must_use]
    pub fn cluster(&self) -> Option<&ClusterName> {
        self.cluster.as_ref()
    }

    /// The part of an informer that is not in sync, if it is one.
    pub(crate) fn informer(&self) -> Option<&NotSynced> {
        match &self.obstacle {
            SyncBlocker::Informer(missing) => Some(missing),
            SyncBlocker::Begin | SyncBlocker::Handler { .. } | SyncBlocker::InitialContent => None,
        }
    }

    /// Whether it does not come by waiting alone: there is no such kind, or it may not be read.
    pub(crate) fn is_denied(&self) -> bool {
        self.informer().is_some_and(|missing| missing.is_denied)
    }

    /// Whether there is no such kind.
    pub(crate) fn is_missing(&self) -> bool {
        self.informer().is_some_and(|missing| missing.is_missing)
    }

    /// Whether the server was asked, and gave no answer that says what is wrong with the request.
    pub(crate) fn is_unreachable(&self) -> bool {
        self.informer().is_some_and(|missing| missing.error.is_some() && !missing.is_denied)
    }

    /// The missing part and the reason, without the text of the server: for probes.
    pub(crate) fn brief(&self) -> String {
        match self.informer() {
            Some(missing) => format!("{}{}", missing.in_brief(), self.elsewhere()),
            None => self.to_string(),
        }
    }

    /// In which cluster, if it is not the controller's own.
    fn elsewhere(&self) -> String {
        match &self.cluster {
            Some(cluster) if self.is_elsewhere => format!(" in cluster {cluster}"),
            _ => String::new(),
        }
    }
}

impl fmt::Display for UnsyncedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.obstacle {
            SyncBlocker::Informer(missing)
                if missing.phase == ReflectorPhase::Stopped && missing.error.is_none() =>
            {
                write!(f, "{} in {} (stopped: call `Cluster::start`)", missing.kind, missing.namespaces)?;
            }
            SyncBlocker::Informer(missing) => missing.fmt(f)?,
            SyncBlocker::Begin => return write!(f, "{} (about to be watched)", self.source),
            SyncBlocker::InitialContent => {
                return write!(
                    f,
                    "{} (its initial content is not delivered: it calls `Sink::synced`)",
                    self.source
                );
            }
            SyncBlocker::Handler { kind, waiting } => {
                write!(f, "{kind} (listed; {waiting} objects wait for the handler)")?;
            }
        }
        f.write_str(&self.elsewhere())
    }
}

fn list(missing: &[UnsyncedSource]) -> String {
    let missing: Vec<_> = missing.iter().map(ToString::to_string).collect();
    missing.join("; ")
}
