//! Records requests and open watches between a client and a server.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use tower::{Service, ServiceExt as _};

/// All requests. A clone shares the record.
#[derive(Clone, Default)]
pub(crate) struct Traffic {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    asked: Vec<Asked>,
    open: BTreeMap<usize, Asked>,
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) accept: String,
}

impl Asked {
    fn of<B>(request: &Request<B>) -> Self {
        let query = request.uri().query().unwrap_or_default();
        let accept = request.headers().get("accept").and_then(|value| value.to_str().ok());
        Self {
            path: request.uri().path().to_owned(),
            query: form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
            accept: accept.unwrap_or_default().to_owned(),
        }
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.query.get("watch").is_some_and(|watch| watch == "true")
    }

    /// Path and selectors: `/api/v1/pods app=web spec.nodeName=a`.
    pub(crate) fn words(&self) -> String {
        let selectors = ["labelSelector", "fieldSelector"].iter().filter_map(|name| self.query.get(*name));
        std::iter::once(&self.path).chain(selectors).cloned().collect::<Vec<_>>().join(" ")
    }
}

/// An open watch; closed on drop.
struct Open {
    traffic: Traffic,
    number: usize,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.traffic.lock().open.remove(&self.number);
    }
}

impl Traffic {
    /// A client whose requests are recorded.
    pub(crate) fn client<S, B>(&self, service: S) -> Client
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send,
        S::Error: Into<Box<dyn Error + Send + Sync>> + Send,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let traffic = self.clone();
        let seen = tower::service_fn(move |request: Request<Body>| {
            let open = traffic.see(&request);
            let answer = service.clone().oneshot(request);
            async move {
                let response = answer.await.map_err(Into::into)?;
                // A refused watch is not open.
                let open = open.filter(|_| response.status().is_success());
                Ok::<_, Box<dyn Error + Send + Sync>>(response.map(|body| {
                    body.map_frame(move |frame| {
                        let _open = &open;
                        frame
                    })
                    .map_err(Into::into)
                    .boxed_unsync()
                }))
            }
        });
        Client::new(seen, "default")
    }

    fn see<B>(&self, request: &Request<B>) -> Option<Open> {
        if request.method() != http::Method::GET {
            return None;
        }
        let asked = Asked::of(request);
        let mut state = self.lock();
        state.asked.push(asked.clone());
        let number = state.asked.len();
        let is_watch = asked.is_watch();
        if is_watch {
            state.open.insert(number, asked);
        }
        drop(state);
        is_watch.then(|| Open { traffic: self.clone(), number })
    }

    /// All lists and watches of a resource.
    pub(crate) fn asked(&self, resource: &str) -> Vec<Asked> {
        let end = format!("/{resource}");
        self.lock().asked.iter().filter(|asked| asked.path.ends_with(&end)).cloned().collect()
    }

    /// The open watches of a resource, and those in progress.
    pub(crate) fn open(&self, resource: &str) -> Vec<Asked> {
        let end = format!("/{resource}");
        self.lock().open.values().filter(|asked| asked.path.ends_with(&end)).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the lock is not poisoned")
    }
}
