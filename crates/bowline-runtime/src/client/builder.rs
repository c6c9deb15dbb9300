//! How a client is put together.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bowline_cache::InformerCache;
use bowline_clock::Clock;
use bowline_machinery::GroupKind;

use super::binding::Bindings;
use super::options::Options;
use super::request::Warning;
use super::{Client, FieldValidation, Object, Shared, WarningHook};
use crate::transport::Route;
use crate::{RestMapper, Scheme};

/// How long a read from the cache waits for a write, by default.
const DEADLINE: Duration = Duration::from_secs(5);

/// Puts a client together.
#[must_use = "a builder does nothing until `build`"]
pub struct ClientBuilder {
    route: Route,
    cache: Option<InformerCache>,
    clock: Clock,
    scheme: Scheme,
    mapper: Option<Arc<dyn RestMapper>>,
    live: BTreeSet<(String, String)>,
    deadline: Duration,
    on_warning: Option<WarningHook>,
    options: Options,
}

impl ClientBuilder {
    pub(super) fn new(route: Route) -> Self {
        Self {
            route,
            cache: None,
            clock: Clock::real(),
            scheme: Scheme::new(),
            mapper: None,
            live: BTreeSet::new(),
            deadline: DEADLINE,
            on_warning: None,
            options: Options::default(),
        }
    }

    /// Where declared kinds are read from. All reads are live, by default.
    pub fn cache(mut self, cache: InformerCache) -> Self {
        self.cache = Some(cache);
        self
    }

    /// By which it waits. The real one, by default.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Which types kinds have. None, by default: it is needed only by who starts from a kind.
    pub fn scheme(mut self, scheme: Scheme) -> Self {
        self.scheme = scheme;
        self
    }

    /// Knows where objects are served. By default the API server is asked, when it is needed.
    pub fn mapper(mut self, mapper: Arc<dyn RestMapper>) -> Self {
        self.mapper = Some(mapper);
        self
    }

    /// A kind is never read from the cache, in whichever form, also if a controller watches it.
    pub fn uncached<K: Object>(mut self) -> Self {
        self.live.insert((K::group(&()).into_owned(), K::kind(&()).into_owned()));
        self
    }

    /// As [`uncached`](Self::uncached), of a kind that only its name is known of.
    pub fn uncached_kind(mut self, kind: &GroupKind) -> Self {
        self.live.insert((kind.group.clone(), kind.kind.clone()));
        self
    }

    /// How long after a write a read from the cache waits for the informer to have it; then it asks the server. 5 s, by
    /// default. If zero, it asks the server at once.
    pub fn barrier_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Is told each time what the server warns of. It is logged in any case, once for each kind of object.
    pub fn on_warning(mut self, hook: impl Fn(&Warning) + Send + Sync + 'static) -> Self {
        self.on_warning = Some(Arc::new(hook));
        self
    }

    /// Writes are checked by the server, and not stored.
    pub fn dry_run(mut self) -> Self {
        self.options.dry_run = true;
        self
    }

    /// By this name it owns the fields that it writes. None, by default: the server takes the client's user agent.
    pub fn field_owner(mut self, name: impl Into<String>) -> Self {
        self.options.field_owner = Some(name.into().into());
        self
    }

    /// What the server does about fields that it does not know. It warns, by default.
    pub fn field_validation(mut self, validation: FieldValidation) -> Self {
        self.options.field_validation = Some(validation);
        self
    }

    /// Puts it together.
    #[must_use]
    pub fn build(self) -> Client {
        let mapper = self.mapper.unwrap_or_else(|| {
            Arc::new(crate::DiscoveryMapper::new(self.route.kube().clone(), self.clock.clone()))
        });
        let bindings = Bindings::new(self.live, self.deadline, self.cache.clone());
        Client {
            shared: Arc::new(Shared {
                route: self.route,
                cache: self.cache,
                clock: self.clock,
                scheme: Arc::new(self.scheme),
                mapper,
                bindings: Arc::new(bindings),
                on_warning: self.on_warning,
                warned: Arc::default(),
            }),
            options: self.options,
        }
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}
