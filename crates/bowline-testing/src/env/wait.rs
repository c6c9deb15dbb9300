//! Waits for states of objects, by watching them.

use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_cache::{Event, Kind, Namespaces, ObjectKey, Selectors, SharedInformer, Subscription};
use bowline_runtime::Object;

use super::TestEnv;
use super::report::{Awaited, Report, Seen};

/// Interval between two checks of a condition that is not about objects.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A wait timed out. Its `Display` and `Debug` are a text of several lines: the awaited state and the place in the test, the
/// last state seen, the last events in the test's namespace, and the last reconciles with triggers and outcome. Reconciles
/// for the awaited object come first: of its name, for its owners, or triggered by it. If the operator was restarted, each
/// reconcile has the number of its run.
pub struct WaitError {
    report: Box<Report>,
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.report.fmt(f)
    }
}

impl fmt::Debug for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for WaitError {}

impl TestEnv {
    /// Waits until an object with this name meets a condition, and returns it in that state. A namespaced object is in the
    /// test's namespace.
    ///
    /// The object is watched: the condition sees its present state and each later one.
    ///
    /// # Errors
    /// [`WaitError`] after the limit; [`within`](Self::within) sets another one.
    #[track_caller]
    pub fn wait_for<K: Object>(
        &self,
        name: &str,
        mut condition: impl FnMut(&K) -> bool,
    ) -> impl Future<Output = Result<Arc<K>, WaitError>> {
        let awaited = self.awaited::<K>(name);
        let what = format!("for {awaited} to meet the condition");
        let location = Location::caller();
        let mut view = View::<K>::new(self, Some(name));
        async move {
            let holds = async {
                loop {
                    if let Event::Add { object, .. } | Event::Update { new: object, .. } = view.next().await
                        && condition(&object)
                    {
                        return object;
                    }
                }
            };
            match self.clock().timeout(self.timeout, holds).await {
                Ok(object) => Ok(object),
                Err(_) => Err(self.failure(what, location, view.seen(), Some(awaited)).await),
            }
        }
    }

    /// Waits until there is no object with this name. Returns at once if there was none.
    ///
    /// # Errors
    /// [`WaitError`] after the limit; [`within`](Self::within) sets another one.
    #[track_caller]
    pub fn wait_until_gone<K: Object>(&self, name: &str) -> impl Future<Output = Result<(), WaitError>> {
        let awaited = self.awaited::<K>(name);
        let what = format!("for {awaited} to be gone");
        let view = View::<K>::new(self, Some(name));
        let all = self.wait_in(view, what, Some(awaited), Location::caller(), <[_]>::is_empty);
        async { all.await.map(drop) }
    }

    /// Waits until the objects of a kind meet a condition, and returns them in that state, in the order of their names. Of a
    /// namespaced kind, they are those in the test's namespace. `what` names the awaited state in the error: `two
    /// deployments`, for example.
    ///
    /// # Errors
    /// [`WaitError`] after the limit; [`within`](Self::within) sets another one.
    #[track_caller]
    pub fn wait_for_all<K: Object>(
        &self,
        what: &str,
        condition: impl FnMut(&[Arc<K>]) -> bool,
    ) -> impl Future<Output = Result<Vec<Arc<K>>, WaitError>> {
        let view = View::<K>::new(self, None);
        self.wait_in(view, format!("for {what}"), None, Location::caller(), condition)
    }

    /// Waits until any other condition holds. It is checked every 10 ms. `what` names it in the error: `the queue is empty`,
    /// for example.
    ///
    /// # Errors
    /// [`WaitError`] after the limit; [`within`](Self::within) sets another one.
    #[track_caller]
    pub fn wait_until(
        &self,
        what: &str,
        mut condition: impl AsyncFnMut() -> bool,
    ) -> impl Future<Output = Result<(), WaitError>> {
        let what = format!("until {what}");
        let location = Location::caller();
        async move {
            let holds = async {
                while !condition().await {
                    self.clock().sleep(POLL_INTERVAL).await;
                }
            };
            match self.clock().timeout(self.timeout, holds).await {
                Ok(()) => Ok(()),
                Err(_) => Err(self.failure(what, location, Seen::Nothing, None).await),
            }
        }
    }

    async fn wait_in<K: Object>(
        &self,
        mut view: View<K>,
        what: String,
        awaited: Option<Awaited>,
        location: &'static Location<'static>,
        mut condition: impl FnMut(&[Arc<K>]) -> bool,
    ) -> Result<Vec<Arc<K>>, WaitError> {
        let holds = async {
            view.informer.wait_synced().await;
            loop {
                let objects = view.informer.indexer().list();
                if condition(&objects) {
                    return objects;
                }
                view.next().await;
            }
        };
        match self.clock().timeout(self.timeout, holds).await {
            Ok(objects) => Ok(objects),
            Err(_) => Err(self.failure(what, location, view.seen(), awaited).await),
        }
    }

    fn awaited<K: Object>(&self, name: &str) -> Awaited {
        let kind = Kind::<K>::typed();
        let namespace = if kind.is_namespaced() { self.namespace() } else { "" };
        Awaited { kind: kind.resource().kind.clone(), key: ObjectKey::new(namespace, name) }
    }

    async fn failure(
        &self,
        what: String,
        location: &'static Location<'static>,
        seen: Seen,
        awaited: Option<Awaited>,
    ) -> WaitError {
        WaitError { report: Box::new(Report::write(self, what, location, seen, awaited).await) }
    }
}

/// The watch of one wait, through the test's client.
struct View<K> {
    informer: SharedInformer<K>,
    events: Subscription<K>,
    /// Last state of the last deleted object.
    gone: Option<Arc<K>>,
    /// Last error of the watch.
    error: Arc<Mutex<Option<String>>>,
}

impl<K: Object> View<K> {
    /// A watch of one object, or of all objects of a kind.
    fn new(env: &TestEnv, name: Option<&str>) -> Self {
        let kind = Kind::<K>::typed();
        let namespaces =
            if kind.is_namespaced() { Namespaces::One(env.namespace().to_owned()) } else { Namespaces::All };
        let fields = name.map_or_else(String::new, |name| format!("metadata.name={name}"));
        let selectors = Selectors::new().fields(fields);
        let error = Arc::new(Mutex::new(None));
        let last_error = error.clone();
        let informer = SharedInformer::builder(&env.spawner(), kind)
            .selected(env.kube_client().clone(), namespaces, selectors)
            .on_error(move |error| {
                let tip = if error.code() == Some(404) { "; is its CRD installed?" } else { "" };
                let error = format!("{error}{tip}");
                *last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            })
            .build()
            .expect("the options of a wait do not contradict each other");
        let events = informer.subscribe();
        informer.start();
        Self { informer, events, gone: None, error }
    }

    async fn next(&mut self) -> Event<K> {
        let Some(event) = self.events.next().await else {
            // The environment is finished: no event follows.
            return std::future::pending().await;
        };
        if let Event::Delete(deleted) = &event {
            self.gone = Some(deleted.object.clone());
        }
        event
    }

    fn seen(&self) -> Seen {
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner).take();
        if !self.informer.has_synced() {
            return Seen::Unknown(error);
        }
        let objects = self.informer.indexer().list();
        match (objects.as_slice(), &self.gone) {
            ([], None) => Seen::Never,
            ([], Some(gone)) => Seen::Gone(serde_json::to_value(&**gone).unwrap_or_default()),
            (objects, _) => Seen::Objects(
                objects.iter().map(|object| serde_json::to_value(&**object).unwrap_or_default()).collect(),
            ),
        }
    }
}
