//! The selection of requests, watches and events, for rules and for queries of the record.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::Faults;
use crate::hooks::{RequestInfo, WatchFrame};
use crate::request::Verb;

/// Verbs of a rule: one [`Verb`], or an array of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verbs(Vec<Verb>);

impl From<Verb> for Verbs {
    fn from(verb: Verb) -> Self {
        Self(vec![verb])
    }
}

impl<const N: usize> From<[Verb; N]> for Verbs {
    fn from(verbs: [Verb; N]) -> Self {
        Self(verbs.to_vec())
    }
}

/// Selects requests; its faults are methods like [`conflict`](RequestFilter::conflict).
#[derive(Clone, Copy, Debug)]
pub enum Requests {}

/// Selects watches as streams: to end those that are open, or to silence them.
#[derive(Clone, Copy, Debug)]
pub enum Watches {}

/// Selects single events of watches.
#[derive(Clone, Copy, Debug)]
pub enum Events {}

/// Selects requests in the record.
#[derive(Clone, Copy, Debug)]
pub enum Recorded {}

/// Targets of rules: [`Requests`], [`Watches`] and [`Events`].
pub trait Rules: sealed::Sealed {}

impl Rules for Requests {}
impl Rules for Watches {}
impl Rules for Events {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Requests {}
    impl Sealed for super::Watches {}
    impl Sealed for super::Events {}
}

/// A selection that narrows with each method, and ends in a fault or, for the [record](Faults::requests), in a query.
///
/// Everything is selected by default. All conditions must hold. `T` is what is selected: [`Requests`], [`Watches`],
/// [`Events`] or [`Recorded`].
#[must_use = "a selection does nothing until a fault or a query ends it"]
pub struct RequestFilter<T> {
    pub(super) faults: Faults,
    pub(super) selection: Selection,
    pub(super) limits: Limits,
    pub(super) stage: Stage,
    target: PhantomData<T>,
}

/// Stage at which a fault applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Before the server does the request.
    Request,
    /// After the server did it.
    Response,
    /// While a watch is open.
    Watch,
    /// Before an event of a watch is sent.
    Event,
}

/// The selected requests to which a rule applies.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    pub(super) skip: u64,
    pub(super) times: Option<u64>,
    pub(super) probability: Option<f64>,
    pub(super) seed: Option<u64>,
}

type Condition = Arc<dyn Fn(&RequestInfo) -> bool + Send + Sync>;

/// Conditions of a selection; all must hold.
#[derive(Clone, Default)]
pub(super) struct Selection {
    verbs: Verbs,
    group: Option<String>,
    resource: Option<String>,
    kind: Option<String>,
    subresource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    user: Option<String>,
    user_agent: Option<String>,
    event: Option<String>,
    conditions: Vec<Condition>,
}

impl<T> RequestFilter<T> {
    pub(super) fn new(faults: &Faults, stage: Stage) -> Self {
        Self {
            faults: faults.clone(),
            selection: Selection::default(),
            limits: Limits::default(),
            stage,
            target: PhantomData,
        }
    }

    /// Only requests with this verb, or one of these verbs. Default: every verb.
    pub fn verb(mut self, verbs: impl Into<Verbs>) -> Self {
        self.selection.verbs = verbs.into();
        self
    }

    /// Only resources of this API group; the core group is empty. Default: every group.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.selection.group = Some(group.into());
        self
    }

    /// Only this resource: its plural name, for example `deployments`. Its subresources are selected too, unless
    /// [`subresource`](Self::subresource) says otherwise. Default: every resource.
    pub fn resource(mut self, plural: impl Into<String>) -> Self {
        self.selection.resource = Some(plural.into());
        self
    }

    /// Only this kind, for example `Deployment`. The plural name of its resource is accepted too. Default: every kind.
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.selection.kind = Some(kind.into());
        self
    }

    /// Only this subresource, for example `status`. Empty selects objects and collections themselves. Default: both.
    pub fn subresource(mut self, name: impl Into<String>) -> Self {
        self.selection.subresource = Some(name.into());
        self
    }

    /// Only this namespace; empty for requests that name none. Default: every namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.selection.namespace = Some(namespace.into());
        self
    }

    /// Only the object with this name. For a create it is the name in the body; for an event it is the name of the
    /// event's object. Default: every object, and collections.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.selection.name = Some(name.into());
        self
    }

    /// Only requests of this user, as authenticated. Default: every user.
    pub fn user(mut self, name: impl Into<String>) -> Self {
        self.selection.user = Some(name.into());
        self
    }

    /// Only clients whose user agent begins with this text. Default: every client.
    pub fn user_agent(mut self, prefix: impl Into<String>) -> Self {
        self.selection.user_agent = Some(prefix.into());
        self
    }

    /// Only requests for which the function returns true. It runs after all other conditions, and must not wait. Several
    /// functions must all return true.
    pub fn filter(mut self, condition: impl Fn(&RequestInfo) -> bool + Send + Sync + 'static) -> Self {
        self.selection.conditions.push(Arc::new(condition));
        self
    }
}

impl<T: Rules> RequestFilter<T> {
    /// Lets the first requests that are selected pass. Default: 0.
    pub fn skip(mut self, requests: u64) -> Self {
        self.limits.skip = requests;
        self
    }

    /// Applies the fault at most this number of times. Default: until the rule is removed.
    ///
    /// # Panics
    /// If it is zero: such a rule would never be applied.
    #[track_caller]
    pub fn times(mut self, times: u64) -> Self {
        assert!(times > 0, "a fault that is applied 0 times is none: pass 1 or more");
        self.limits.times = Some(times);
        self
    }

    /// Applies the fault with this probability to each request that is selected. Default: 1.
    ///
    /// Random numbers come from [`seed`](Self::seed), or else from the server's clock: both repeat in a simulation.
    ///
    /// # Panics
    /// If it is not between 0 and 1.
    #[track_caller]
    pub fn probability(mut self, probability: f64) -> Self {
        assert!(
            (0.0..=1.0).contains(&probability),
            "a probability is between 0 and 1, and this one is {probability}"
        );
        self.limits.probability = Some(probability);
        self
    }

    /// Seed of the rule's random numbers: the same seed and the same order of requests give the same faults. Default: a
    /// generator forked from the server's clock when the first number is drawn.
    pub fn seed(mut self, seed: u64) -> Self {
        self.limits.seed = Some(seed);
        self
    }
}

impl RequestFilter<Events> {
    /// Only events of this type: `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`. Default: every type.
    pub fn event_type(mut self, event_type: impl Into<String>) -> Self {
        self.selection.event = Some(event_type.into());
        self
    }
}

/// Values that conditions are checked against.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) info: &'a RequestInfo,
    pub(super) kind: &'a str,
    pub(super) event: Option<WatchFrame<'a>>,
}

impl Selection {
    pub(super) fn matches(&self, subject: Subject<'_>) -> bool {
        let Subject { info, kind, event } = subject;
        let is =
            |wanted: &Option<String>, actual: &str| wanted.as_ref().is_none_or(|wanted| wanted == actual);
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        let (namespace, name) = match event {
            Some(event) => (event.namespace.to_owned(), event.name.to_owned()),
            None => (text(&info.namespace), text(&info.name)),
        };
        (self.verbs.0.is_empty() || self.verbs.0.contains(&info.verb))
            && is(&self.group, &info.group)
            && is(&self.resource, &info.resource)
            && (is(&self.kind, kind) || is(&self.kind, &info.resource))
            && is(&self.subresource, info.subresource.as_deref().unwrap_or_default())
            && is(&self.namespace, &namespace)
            && is(&self.name, &name)
            && is(&self.user, &info.user)
            && self.user_agent.as_ref().is_none_or(|prefix| info.user_agent.starts_with(prefix))
            && is(&self.event, event.map_or("", |event| event.event))
            && self.conditions.iter().all(|condition| condition(info))
    }
}

impl fmt::Display for Selection {
    /// For example `update of resource=deployments name=web`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verbs: Vec<&str> = self.verbs.0.iter().map(|verb| verb.as_str()).collect();
        f.write_str(if verbs.is_empty() { "any verb".to_owned() } else { verbs.join("/") }.as_str())?;
        let parts = [
            ("group", &self.group),
            ("resource", &self.resource),
            ("kind", &self.kind),
            ("subresource", &self.subresource),
            ("namespace", &self.namespace),
            ("name", &self.name),
            ("user", &self.user),
            ("user-agent", &self.user_agent),
            ("event", &self.event),
        ];
        for (name, value) in parts {
            if let Some(value) = value {
                write!(f, " {name}={value}")?;
            }
        }
        if self.conditions.is_empty() { Ok(()) } else { f.write_str(" and a function") }
    }
}

impl<T> Clone for RequestFilter<T> {
    fn clone(&self) -> Self {
        Self {
            faults: self.faults.clone(),
            selection: self.selection.clone(),
            limits: self.limits.clone(),
            stage: self.stage,
            target: PhantomData,
        }
    }
}

impl<T> fmt::Debug for RequestFilter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RequestFilter").field(&self.selection.to_string()).finish()
    }
}
