//! The debug page: the state of a process, for people on call and for authors of operators.
//!
//! It lists problems, the controllers with their queues, the current reconcile of each worker and its duration, delayed
//! requests with their times, the informers, and the last reconciles with their triggers and outcomes. Of objects it
//! shows only names and errors. Errors are shown in full and may quote values: an API server that refuses an object
//! names the invalid value (`spec.size: Invalid value: "…"`), and reconcilers may do the same. So restrict the page to
//! users who may read the objects.
//!
//! A page is a value that responds to requests; the caller serves it and restricts access. Its formats are
//! - HTML, for browsers: one page without scripts or external resources, in light and dark,
//! - text, for `curl` and other clients without an `Accept` header,
//! - JSON, for programs that accept `application/json`: a [`Report`] with stable field names.
//!
//! # Query
//! - `format=html|text|json`: overrides the `Accept` header,
//! - `controller=NAME`: only this controller and its reconciles,
//! - `object=NAMESPACE/NAME`, or `object=NAME` in any namespace: only past, current and delayed reconciles of this object,
//! - `failed=true`: only failed reconciles,
//! - `limit=N`: maximum number of past reconciles, and of delayed requests, 1 to 256. Default: 100,
//! - `refresh=SECONDS`: interval at which a browser reloads the page, 1 to 3600. Default: never.

mod collect;
mod html;
mod human;
mod query;
mod report;
mod text;

use std::fmt;
use std::sync::Arc;

use bowline_clock::Clock;
use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{Response, StatusCode, request};

use crate::server::refuse_change;
use crate::{Cluster, Controller};
pub use human::is_deceptive;
use query::{Form, Query};
pub use report::{
    Attention, ControllerReport, ControllerState, DelayedReport, InformerReport, LeadershipState,
    ManagerReport, PartReport, ReconcileReport, Report, RunnableReport, RunningReport, UnreadableReport,
};

/// The debug page, which responds to requests. Clones share it.
///
/// ```
/// use bowline_runtime::debug::DebugPage;
/// # fn example(cluster: bowline_runtime::Cluster, controller: bowline_runtime::Controller, request: http::request::Parts) {
/// let page = DebugPage::new(cluster.clock())
///     .clusters(move || vec![("main".to_owned(), cluster.clone())])
///     .controllers(move || vec![controller.clone()]);
/// let response: http::Response<bytes::Bytes> = page.respond(&request);
/// # }
/// ```
#[derive(Clone)]
pub struct DebugPage {
    clock: Clock,
    clusters: Ask<Vec<(String, Cluster)>>,
    controllers: Ask<Vec<Controller>>,
    manager: Ask<Option<ManagerReport>>,
}

/// Called for each request.
type Ask<T> = Arc<dyn Fn() -> T + Send + Sync>;

impl DebugPage {
    /// An empty page.
    #[must_use]
    pub fn new(clock: &Clock) -> Self {
        Self {
            clock: clock.clone(),
            clusters: Arc::new(Vec::new),
            controllers: Arc::new(Vec::new),
            manager: Arc::new(|| None),
        }
    }

    /// Sets the clusters whose informers and reconciles are shown, by name. Names are shown if there are several.
    /// Called for each request. Default: none.
    #[must_use]
    pub fn clusters(mut self, clusters: impl Fn() -> Vec<(String, Cluster)> + Send + Sync + 'static) -> Self {
        self.clusters = Arc::new(clusters);
        self
    }

    /// Sets the controllers. Called for each request. Default: none.
    #[must_use]
    pub fn controllers(mut self, controllers: impl Fn() -> Vec<Controller> + Send + Sync + 'static) -> Self {
        self.controllers = Arc::new(controllers);
        self
    }

    /// Sets the state of the manager. Called for each request. Default: none.
    #[must_use]
    pub fn manager(mut self, manager: impl Fn() -> ManagerReport + Send + Sync + 'static) -> Self {
        self.manager = Arc::new(move || Some(manager()));
        self
    }

    /// The complete report at this moment.
    #[must_use]
    pub fn report(&self) -> Report {
        collect::report(&self.clock, &(self.clusters)(), &(self.controllers)(), (self.manager)())
    }

    /// Responds to a request with any path: with the page, or with the error of the query. Methods other than `GET` and
    /// `HEAD` get 405.
    ///
    /// # Panics
    /// Never, unless there is a bug in Bowline.
    #[must_use]
    pub fn respond(&self, request: &request::Parts) -> Response<Bytes> {
        if let Some(refusal) = refuse_change(&request.method) {
            return refusal;
        }
        let query = match Query::parse(request) {
            Ok(query) => query,
            Err(problem) => {
                return answer(StatusCode::BAD_REQUEST, Form::Text, "'none'", format!("{problem}\n"));
            }
        };
        let report = query.select(self.report());
        // The nonce allows only the style of this response.
        let nonce = format!("{:016x}{:016x}", self.clock.rng().next_u64(), self.clock.rng().next_u64());
        let (style, body) = match query.form {
            Form::Html => (format!("'nonce-{nonce}'"), html::page(&report, &query, &nonce)),
            Form::Text => ("'none'".to_owned(), text::page(&report)),
            Form::Json => {
                let json = serde_json::to_string_pretty(&report).expect("a report has only names as keys");
                ("'none'".to_owned(), json + "\n")
            }
        };
        answer(StatusCode::OK, query.form, &style, body)
    }
}

fn answer(status: StatusCode, form: Form, style: &str, body: String) -> Response<Bytes> {
    let policy = format!(
        "default-src 'none'; style-src {style}; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    );
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(form.content_type()));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.extend(HeaderValue::try_from(policy).ok().map(|policy| (CONTENT_SECURITY_POLICY, policy)));
    response
}

impl fmt::Debug for DebugPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DebugPage").finish_non_exhaustive()
    }
}
