//! A page that says what a process is doing: for people on call, and for those who write operators.
//!
//! It lists what needs attention, the controllers with their queues, what each worker reconciles and for how long, the
//! informers, and the last reconciles with what caused them and how they ended. Of objects it shows names and the errors about
//! them, nothing else of what is in them. But errors are shown as they are, and may quote values: an API server that refuses an
//! object says which value is invalid (`spec.size: Invalid value: "…"`), and so may reconcilers. So the page is for those only who
//! may see the objects.
//!
//! A page is a value that answers requests; who serves it, and to whom, is up to others. It has the forms
//! - HTML, for browsers: one page without scripts or anything from elsewhere, in light and dark,
//! - text, for `curl` and other clients that do not ask for anything,
//! - JSON, for programs that ask for `application/json`: a [`Report`], whose names of fields stay as they are.
//!
//! # Query
//! - `format=html|text|json`: in place of what the client asks for by `Accept`,
//! - `controller=NAME`: only this controller and its reconciles,
//! - `object=NAMESPACE/NAME`, or `object=NAME` in whichever namespace: only reconciles of this object,
//! - `failed=true`: only reconciles that failed,
//! - `limit=N`: so many reconciles, 1 to 256; by default 100,
//! - `refresh=SECONDS`: a browser looks again after so many, 1 to 3600; by default never.

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
use query::{Form, Query};
pub use report::{
    Attention, ControllerReport, ControllerState, InformerReport, Leadership, ManagerReport, PartReport,
    ReconcileReport, Report, RunnableReport, RunningReport, UnreadableReport,
};

/// Says what a process is doing, in answer to requests. A clone is the same page.
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

/// What is asked anew for each request.
type Ask<T> = Arc<dyn Fn() -> T + Send + Sync>;

impl DebugPage {
    /// A page about nothing yet, on a clock.
    #[must_use]
    pub fn new(clock: &Clock) -> Self {
        Self {
            clock: clock.clone(),
            clusters: Arc::new(Vec::new),
            controllers: Arc::new(Vec::new),
            manager: Arc::new(|| None),
        }
    }

    /// Whose informers and reconciles are shown: the clusters that there are now, by names that are shown where there is
    /// more than one; asked each time. By default none.
    #[must_use]
    pub fn clusters(mut self, clusters: impl Fn() -> Vec<(String, Cluster)> + Send + Sync + 'static) -> Self {
        self.clusters = Arc::new(clusters);
        self
    }

    /// Which controllers there are now; asked each time. By default none.
    #[must_use]
    pub fn controllers(mut self, controllers: impl Fn() -> Vec<Controller> + Send + Sync + 'static) -> Self {
        self.controllers = Arc::new(controllers);
        self
    }

    /// How the manager is doing; asked each time. By default nothing is shown of one.
    #[must_use]
    pub fn manager(mut self, manager: impl Fn() -> ManagerReport + Send + Sync + 'static) -> Self {
        self.manager = Arc::new(move || Some(manager()));
        self
    }

    /// All that there is to say, at this moment.
    #[must_use]
    pub fn report(&self) -> Report {
        collect::report(&self.clock, &(self.clusters)(), &(self.controllers)(), (self.manager)())
    }

    /// Answers a request, whatever its path is: the page, or what is wrong with the query. Methods other than `GET` and
    /// `HEAD` are answered with 405.
    ///
    /// # Panics
    /// Never, unless there is a mistake in Bowline.
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
        // A style that was not sent by this page is not applied, wherever it comes from.
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
