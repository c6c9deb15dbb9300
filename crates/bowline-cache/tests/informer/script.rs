//! A source of lists and watches with scripted responses, byte by byte. Records its requests.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_cache::{
    ByteStream, InformerBuilder, Kind, ListOptions, ListWatch, ListWatchError, ListWatchFuture, Namespaces,
    SharedInformer, WatchOptions,
};
use bowline_clock::{Clock, Instant, Scope, Simulation};
use bytes::Bytes;
use futures::channel::mpsc::UnboundedReceiver;
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::ConfigMap;

use crate::world::until;

/// More requests than any test needs. Requests in a busy loop stop simulated time; this limit ends them.
const STORM: usize = 1000;

/// A scripted response.
pub(crate) enum Answer {
    /// An error status.
    Refused(u16, &'static str, &'static str),
    /// 429 with a `Retry-After` in seconds.
    Later(u32),
    /// Connection refused.
    Unreachable,
    /// These chunks, then nothing, and no end.
    Open(Vec<String>),
    /// These chunks, then the end.
    Ended(Vec<String>),
    /// These chunks, then a connection error.
    Cut(Vec<String>),
    /// Chunks from this channel.
    Live(UnboundedReceiver<String>),
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A list with version, limit and continue token.
    List { version: Option<String>, limit: Option<u32>, token: Option<String> },
    /// A streaming list.
    Stream { version: Option<String> },
    /// A watch.
    Watch { version: Option<String> },
}

impl Asked {
    /// The request as text: `list@0`, `stream`, `watch@7`, `list limit 2 after t`.
    pub(crate) fn words(&self) -> String {
        let at = |version: &Option<String>| {
            version.as_ref().map_or_else(String::new, |version| format!("@{version}"))
        };
        match self {
            Self::List { version, limit, token } => {
                let limit = limit.map_or_else(String::new, |limit| format!(" limit {limit}"));
                let token = token.as_ref().map_or_else(String::new, |token| format!(" after {token}"));
                format!("list{}{limit}{token}", at(version))
            }
            Self::Stream { version } => format!("stream{}", at(version)),
            Self::Watch { version } => format!("watch{}", at(version)),
        }
    }
}

type Decide = Box<dyn FnMut(usize, &Asked) -> Answer + Send>;

struct State {
    decide: Decide,
    asked: Vec<(Instant, Asked)>,
}

/// A scripted source.
#[derive(Clone)]
pub(crate) struct Script {
    clock: Clock,
    state: Arc<Mutex<State>>,
}

impl Script {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("the lock is not poisoned")
    }

    /// All requests, as text.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.lock().asked.iter().map(|(_, asked)| asked.words()).collect()
    }

    /// The times of all requests.
    pub(crate) fn times(&self) -> Vec<Instant> {
        self.lock().asked.iter().map(|(time, _)| *time).collect()
    }

    fn answer(&self, asked: Asked) -> Result<ByteStream, ListWatchError> {
        let mut state = self.lock();
        let number = state.asked.len();
        if number >= STORM {
            drop(state);
            panic!("a storm of requests");
        }
        let answer = (state.decide)(number, &asked);
        state.asked.push((self.clock.now(), asked));
        let pieces =
            |pieces: Vec<String>| stream::iter(pieces.into_iter().map(|piece| Ok(Bytes::from(piece))));
        match answer {
            Answer::Refused(code, reason, message) => {
                let mut status = kube::core::Status::failure(message, reason);
                status.code = code;
                Err(ListWatchError::Status(Box::new(status)))
            }
            Answer::Later(seconds) => {
                let status = serde_json::json!({
                    "status": "Failure", "message": "slow down", "reason": "TooManyRequests", "code": 429,
                    "details": {"retryAfterSeconds": seconds},
                });
                let status = serde_json::from_value(status).expect("it is a status");
                Err(ListWatchError::Status(status))
            }
            Answer::Unreachable => {
                Err(ListWatchError::transport(io::Error::from(io::ErrorKind::ConnectionRefused)))
            }
            Answer::Open(all) => Ok(pieces(all).chain(stream::pending()).boxed()),
            Answer::Ended(all) => Ok(pieces(all).boxed()),
            Answer::Cut(all) => {
                let cut = ListWatchError::transport(io::Error::from(io::ErrorKind::ConnectionReset));
                Ok(pieces(all).chain(stream::iter([Err(cut)])).boxed())
            }
            Answer::Live(receiver) => Ok(receiver.map(|piece| Ok(Bytes::from(piece))).boxed()),
        }
    }
}

impl ListWatch for Script {
    fn list<'a>(&'a self, options: &'a ListOptions) -> ListWatchFuture<'a, ByteStream> {
        let asked = Asked::List {
            version: options.resource_version.clone(),
            limit: options.limit,
            token: options.continue_token.clone(),
        };
        let answer = self.answer(asked);
        Box::pin(async move { answer })
    }

    fn watch<'a>(&'a self, options: &'a WatchOptions) -> ListWatchFuture<'a, ByteStream> {
        let version = options.resource_version.clone();
        let asked =
            if options.send_initial_events { Asked::Stream { version } } else { Asked::Watch { version } };
        let answer = self.answer(asked);
        Box::pin(async move { answer })
    }
}

/// A simulation without a server.
pub(crate) struct Lab {
    pub(crate) clock: Clock,
    scope: Scope,
}

impl Lab {
    pub(crate) fn run<F: Future<Output = ()>>(seed: u64, test: impl FnOnce(Lab) -> F) {
        Simulation::new(seed).run(|clock| test(Lab { scope: clock.scope("test"), clock }));
    }

    pub(crate) fn script(&self, decide: impl FnMut(usize, &Asked) -> Answer + Send + 'static) -> Script {
        let state = State { decide: Box::new(decide), asked: Vec::new() };
        Script { clock: self.clock.clone(), state: Arc::new(Mutex::new(state)) }
    }

    pub(crate) fn builder(&self) -> InformerBuilder<ConfigMap> {
        SharedInformer::builder(&self.scope.spawner(), Kind::typed())
    }

    /// An informer with this source, not started.
    pub(crate) fn informer(&self, script: &Script) -> SharedInformer<ConfigMap> {
        self.builder().source(Namespaces::All, script.clone()).build().expect("one source")
    }

    pub(crate) async fn until(&self, what: &str, is_so: impl FnMut() -> bool) {
        until(&self.clock, what, is_so).await;
    }

    pub(crate) async fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration).await;
    }
}

/// A config map as JSON. Its uid is its name and a number.
pub(crate) fn object(name: &str, uid: u32, version: u64, value: &str) -> String {
    raw(name, uid, version, &format!(r#"{{"value":"{value}"}}"#))
}

/// A config map with any data, valid or invalid, as JSON.
pub(crate) fn raw(name: &str, uid: u32, version: u64, data: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","namespace":"default","uid":"{name}-{uid}","resourceVersion":"{version}"}},"data":{data}}}"#
    )
}

pub(crate) fn line(kind: &str, object: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

pub(crate) fn added(name: &str, uid: u32, version: u64, value: &str) -> String {
    line("ADDED", &object(name, uid, version, value))
}

pub(crate) fn modified(name: &str, uid: u32, version: u64, value: &str) -> String {
    line("MODIFIED", &object(name, uid, version, value))
}

pub(crate) fn deleted(name: &str, uid: u32, version: u64, value: &str) -> String {
    line("DELETED", &object(name, uid, version, value))
}

pub(crate) fn bookmark(version: u64) -> String {
    line(
        "BOOKMARK",
        &format!(r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"}}}}"#),
    )
}

/// The bookmark at the end of the initial events.
pub(crate) fn initial_end(version: u64) -> String {
    line(
        "BOOKMARK",
        &format!(
            r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}"#
        ),
    )
}

pub(crate) fn error(code: u16, reason: &str) -> String {
    line(
        "ERROR",
        &format!(
            r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"as scripted","reason":"{reason}","code":{code}}}"#
        ),
    )
}

pub(crate) fn list(version: u64, items: &[String]) -> String {
    page(version, "", items)
}

pub(crate) fn page(version: u64, token: &str, items: &[String]) -> String {
    format!(
        r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","continue":"{token}"}},"items":[{}]}}"#,
        items.join(",")
    )
}

/// The objects of an informer: name and value.
pub(crate) fn values(informer: &SharedInformer<ConfigMap>) -> BTreeMap<String, String> {
    let all = informer.indexer().list();
    let named = all.iter().map(|object| {
        (object.metadata.name.clone().unwrap_or_default(), crate::world::value(object).to_owned())
    });
    named.collect()
}

pub(crate) fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}
