//! Options of a client.

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
use crate::transport::RequestService;
use crate::{RestMapper, Scheme};

/// Default time that a read from the cache waits for a write.
const DEADLINE: Duration = Duration::from_secs(5);

/// Options of a [`Client`]. From [`Client::builder`].
#[must_use = "a builder does nothing until `build`"]
pub struct ClientBuilder {
    route: RequestService,
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
    pub(super) fn new(route: RequestService) -> Self {
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

    /// The cache for reads of declared kinds. Default: none, all reads are live.
    pub fn cache(mut self, cache: InformerCache) -> Self {
        self.cache = Some(cache);
        self
    }

    /// The clock of waits and timeouts. Default: real time.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// The types of kinds. Default: none. Only [`Client::kind`] needs them.
    pub fn scheme(mut self, scheme: Scheme) -> Self {
        self.scheme = scheme;
        self
    }

    /// The resources of kinds. Default: discovery from the API server, on first use.
    pub fn mapper(mut self, mapper: Arc<dyn RestMapper>) -> Self {
        self.mapper = Some(mapper);
        self
    }

    /// Never reads a kind from the cache, in any representation, also if a controller watches it. Default: declared kinds are
    /// cached.
    pub fn uncached<K: Object>(mut self) -> Self {
        self.live.insert((K::group(&()).into_owned(), K::kind(&()).into_owned()));
        self
    }

    /// As [`uncached`](Self::uncached), for a kind without a type.
    pub fn uncached_kind(mut self, kind: &GroupKind) -> Self {
        self.live.insert((kind.group.clone(), kind.kind.clone()));
        self
    }

    /// Time that a read from the cache waits for a write to arrive there. Then it asks the server; with zero at once. Default:
    /// 5 s.
    pub fn read_your_writes_timeout(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Calls a function with each warning of the server. Default: none. Each warning is also logged once per kind.
    pub fn on_warning(mut self, hook: impl Fn(&Warning) + Send + Sync + 'static) -> Self {
        self.on_warning = Some(Arc::new(hook));
        self
    }

    /// The server validates writes and does not store them. Default: it stores them.
    pub fn dry_run(mut self) -> Self {
        self.options.dry_run = true;
        self
    }

    /// Owner of the fields that it writes. Default: none; the server takes the user agent.
    pub fn field_owner(mut self, name: impl Into<String>) -> Self {
        self.options.field_owner = Some(name.into().into());
        self
    }

    /// Handling of unknown and duplicate fields. Default: the server warns.
    pub fn field_validation(mut self, validation: FieldValidation) -> Self {
        self.options.field_validation = Some(validation);
        self
    }

    /// Builds the client. Sends no request.
    #[must_use]
    pub fn build(self) -> Client {
        let mapper = self.mapper.unwrap_or_else(|| {
            Arc::new(crate::DiscoveryMapper::new(self.route.kube_client().clone(), self.clock.clone()))
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
