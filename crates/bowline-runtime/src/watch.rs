//! One thing that a controller watches, as one value: where changes come from, which count, and what is to be done.

use std::fmt;
use std::sync::Arc;

use bowline_cache::CacheError;
use bowline_clock::Spawner;

use crate::Client;
use crate::controller::Session;
use crate::handler::Handler;
use crate::predicate::Predicate;
use crate::source::{Begin, Begun, Feed, Place, Progress, Rules, Source};
use crate::trigger::Origin;

/// One thing that a controller watches: a [source](crate::source) of changes, a [handler](crate::handler) that says which
/// objects are to be reconciled because of one, and [predicates](crate::predicate) that say which count.
///
/// ```
/// use bowline_runtime::predicate::labels_changed;
/// use bowline_runtime::{Request, Watch, handler, source};
/// use k8s_openapi::api::core::v1::{Node, Secret};
///
/// let secrets = Watch::new(
///     source::kind::<Secret>(),
///     handler::map(|secret: &Secret| secret.metadata.labels.iter().flatten()
///         .filter(|(label, _)| *label == "site")
///         .map(|(_, site)| Request::new("default", site))
///         .collect::<Vec<_>>()),
/// );
/// let nodes = Watch::new(source::metadata::<Node>(), handler::object()).filter(labels_changed());
/// # let _ = (secrets, nodes);
/// ```
#[must_use = "a watch does nothing until a controller has it"]
pub struct Watch<K> {
    source: Box<dyn Begin<K>>,
    rules: Rules<K>,
}

impl<K: 'static> Watch<K> {
    /// Reconciles what the handler says when something comes from the source.
    pub fn new(source: impl Source<K>, handler: impl Handler<K>) -> Self {
        Self { source: Box::new(source), rules: Rules { predicates: Vec::new(), handler: Box::new(handler) } }
    }

    /// Only changes that the predicate accepts. May be called several times: all have to accept a change.
    pub fn filter(mut self, predicate: impl Predicate<K>) -> Self {
        self.rules.predicates.push(Box::new(predicate));
        self
    }

    pub(crate) fn erase(self) -> Arc<dyn AnyWatch> {
        Arc::new(Erased { source: self.source, rules: Arc::new(self.rules) })
    }
}

/// A watch, whatever its objects are.
pub(crate) trait AnyWatch: Send + Sync {
    fn name(&self) -> &str;
    fn declare(&self, client: &Client);
    fn undeclare(&self, client: &Client);
    fn warm(&self, session: &Session) -> Result<Option<Arc<dyn Progress>>, CacheError>;
    fn begin(&self, origin: &Arc<Origin>, session: &Session) -> Result<Arc<dyn Begun>, CacheError>;
}

struct Erased<K> {
    source: Box<dyn Begin<K>>,
    rules: Arc<Rules<K>>,
}

impl<K: 'static> AnyWatch for Erased<K> {
    fn name(&self) -> &str {
        self.source.name()
    }

    fn declare(&self, client: &Client) {
        self.source.declare(client);
    }

    fn undeclare(&self, client: &Client) {
        self.source.undeclare(client);
    }

    fn warm(&self, session: &Session) -> Result<Option<Arc<dyn Progress>>, CacheError> {
        self.source.warm(&place(session, &session.spawner()))
    }

    fn begin(&self, origin: &Arc<Origin>, session: &Session) -> Result<Arc<dyn Begun>, CacheError> {
        let queue = session.queue().clone();
        let feed = Feed::new(self.rules.clone(), session.filters().clone(), origin.clone(), queue);
        self.source.begin(feed, &place(session, &session.spawner()))
    }
}

fn place<'a>(session: &'a Session, spawner: &'a Spawner) -> Place<'a> {
    Place {
        controller: session.name(),
        cluster: session.cluster(),
        spawner,
        resync: session.core().options.resync,
    }
}

impl<K: 'static> fmt::Debug for Watch<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("source", &self.source.name())
            .field("predicates", &self.rules.predicates.len())
            .finish_non_exhaustive()
    }
}
