//! The fault kit: rules that make an [`ApiServer`](crate::ApiServer) fail on purpose, and a record of its requests.
//!
//! Owns the kit and its state. The server calls it at the places listed in `faults/exchange.rs`.
#![doc = include_str!("faults/guide.md")]

mod effect;
mod event_faults;
mod exchange;
mod filter;
mod frame_hook;
mod gate;
mod open_watch;
mod record;
mod request_faults;
mod rule;
mod watch_faults;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bowline_clock::{Clock, Rng};

use crate::request::Verb;
use crate::server::Store;

pub use effect::StaleRead;
pub use filter::{Events, Recorded, RequestFilter, Requests, Rules, Verbs, Watches};
pub use gate::Gate;
pub use record::{RecordedRequest, RecordedRequests, RequestOutcome};
pub use rule::{Rule, RuleGuard};

pub(crate) use exchange::{Exchange, RequestFaults, frame_hook};

use filter::Stage;
use open_watch::OpenWatch;
use rule::RuleState;

/// Requests that a kit keeps by default.
const MAX_REQUESTS: usize = 10_000;

/// Faults of one API server, and the record of its requests. Clones are handles to the same kit.
///
/// The kit gets its server from [`ApiServerBuilder::faults`](crate::ApiServerBuilder::faults). Without rules it changes
/// nothing, and only keeps the record. The [module](self) has a guide.
#[derive(Clone)]
pub struct Faults {
    shared: Arc<Shared>,
}

struct Shared {
    max_requests: usize,
    server: OnceLock<Server>,
    state: Mutex<State>,
}

/// The parts of a server that rules need.
struct Server {
    store: Store,
    clock: Clock,
}

#[derive(Default)]
struct State {
    /// In the order in which they were set. A removed rule stays if it was never applied, for
    /// [`Faults::assert_all_used`].
    rules: Vec<Arc<RuleState>>,
    last_rule: u64,
    /// In the order of their numbers.
    requests: VecDeque<RecordedRequest>,
    last_request: u64,
    dropped_requests: u64,
    /// Watches that are open, by the number of their request.
    watches: BTreeMap<u64, Arc<OpenWatch>>,
}

impl Faults {
    /// A kit without rules that keeps the last 10,000 requests.
    #[must_use]
    pub fn new() -> Self {
        Self::with_max_requests(MAX_REQUESTS)
    }

    /// A kit that keeps at most this number of requests. The oldest are dropped first; zero keeps none.
    #[must_use]
    pub fn with_max_requests(max_requests: usize) -> Self {
        let shared = Shared { max_requests, server: OnceLock::new(), state: Mutex::default() };
        Self { shared: Arc::new(shared) }
    }

    /// Begins a rule about requests with this verb, or one of these verbs.
    pub fn on(&self, verbs: impl Into<Verbs>) -> RequestFilter<Requests> {
        RequestFilter::new(self, Stage::Request).verb(verbs)
    }

    /// Begins a rule about all requests: of every verb, and also those for health, version and discovery.
    pub fn all(&self) -> RequestFilter<Requests> {
        RequestFilter::new(self, Stage::Request)
    }

    /// Begins a rule about gets and lists.
    pub fn reads(&self) -> RequestFilter<Requests> {
        self.on([Verb::Get, Verb::List])
    }

    /// Begins a rule about creates, updates, patches and deletes.
    pub fn writes(&self) -> RequestFilter<Requests> {
        self.on([Verb::Create, Verb::Update, Verb::Patch, Verb::Delete, Verb::DeleteCollection])
    }

    /// Selects watches, to end those that are open or to silence them. For a fault at the start of a watch, use
    /// [`on`](Self::on) with [`Verb::Watch`].
    pub fn watches(&self) -> RequestFilter<Watches> {
        RequestFilter::new(self, Stage::Watch).verb(Verb::Watch)
    }

    /// Begins a rule about single events of watches, bookmarks included.
    pub fn events(&self) -> RequestFilter<Events> {
        RequestFilter::new(self, Stage::Event).verb(Verb::Watch)
    }

    /// Selects requests in the record.
    pub fn requests(&self) -> RequestFilter<Recorded> {
        RequestFilter::new(self, Stage::Request)
    }

    /// Number of requests that the record no longer has because it is bounded.
    #[must_use]
    pub fn dropped_requests(&self) -> u64 {
        self.lock().dropped_requests
    }

    /// Removes all rules. Requests that a rule holds go on, and silent watches go on.
    pub fn remove_all(&self) {
        for rule in self.rules() {
            self.remove(&rule);
        }
    }

    /// Panics if a rule of this kit was never applied, with the rule and the place where it was set. Removed rules count.
    ///
    /// # Panics
    /// If a rule was never applied.
    #[track_caller]
    pub fn assert_all_used(&self) {
        let rules = self.lock().rules.clone();
        let unused: Vec<String> =
            rules.iter().filter(|rule| rule.applied() == 0).map(|rule| rule.unused()).collect();
        assert!(unused.is_empty(), "{}", unused.join("\n"));
    }

    /// Connects the kit to its server; false if it has one already.
    pub(crate) fn attach(&self, store: &Store, clock: &Clock) -> bool {
        self.shared.server.set(Server { store: store.clone(), clock: clock.clone() }).is_ok()
    }

    fn rng(&self) -> Rng {
        self.shared.server.get().map_or_else(|| Rng::seeded(0), |server| server.clock.rng().fork())
    }

    /// The rules that are in force, in the order in which they were set.
    fn rules(&self) -> Vec<Arc<RuleState>> {
        self.lock().rules.iter().filter(|rule| !rule.is_removed()).cloned().collect()
    }

    fn remove(&self, rule: &Arc<RuleState>) {
        rule.remove();
        let mut state = self.lock();
        if rule.applied() > 0 {
            state.rules.retain(|other| !Arc::ptr_eq(other, rule));
        }
        let watches: Vec<_> = state.watches.values().cloned().collect();
        drop(state);
        for watch in watches {
            watch.wake();
        }
    }

    /// Adds a watch that opens, and returns the rules that are in force at that moment. A rule that is set later finds the
    /// watch.
    fn open(&self, watch: &Arc<OpenWatch>) -> Vec<Arc<RuleState>> {
        let mut state = self.lock();
        state.watches.insert(watch.number, watch.clone());
        state.rules.iter().filter(|rule| !rule.is_removed()).cloned().collect()
    }

    /// Writes into the record that a rule was applied to a request. A watch to which a fault is applied often has it once.
    fn note(&self, number: u64, rule: &RuleState) {
        let fault = rule.effect.to_string();
        self.lock().update(number, |request| {
            if !request.faults.contains(&fault) {
                request.faults.push(fault);
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under this lock.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn update(&mut self, number: u64, change: impl FnOnce(&mut RecordedRequest)) {
        if let Ok(place) = self.requests.binary_search_by_key(&number, RecordedRequest::number)
            && let Some(request) = self.requests.get_mut(place)
        {
            change(request);
        }
    }
}

impl Default for Faults {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Faults {
    /// The rules in force, and how often each matched and was applied.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules: Vec<String> = self.rules().iter().map(ToString::to_string).collect();
        f.debug_struct("Faults").field("rules", &rules).finish_non_exhaustive()
    }
}
