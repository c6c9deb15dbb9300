//! Waiting for what an operator does, by watching it.

use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_cache::{Event, Kind, Namespaces, Selectors, SharedInformer, Subscription};
use bowline_runtime::Object;

use super::TestEnv;
use super::report::{Report, Seen};

/// How often a condition is looked at that nothing tells about.
const LOOK: Duration = Duration::from_millis(10);

/// What was waited for did not come. It shows itself, in `Debug` too, as a text of several lines: what was waited for and
/// where, what was last seen of it, the last events in the test's namespace, and the last reconciles with what triggered
/// them and how they ended.
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
    /// Waits until there is an object of this name of which a condition holds, and returns it as it was then. If its kind is
    /// namespaced, it is in the test's namespace.
    ///
    /// The object is watched: the condition sees it as it is now, and after each change that the server tells about.
    ///
    /// # Errors
    /// [`WaitError`] when it takes too long: [`within`](Self::within) says how long that is.
    #[track_caller]
    pub fn wait_for<K: Object>(
        &self,
        name: &str,
        mut condition: impl FnMut(&K) -> bool,
    ) -> impl Future<Output = Result<Arc<K>, WaitError>> {
        let what = format!("for {} to be as the condition says", self.name_of::<K>(name));
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
                Err(_) => Err(self.failure(what, location, view.seen()).await),
            }
        }
    }

    /// Waits until there is no object of this name, whether there was one or not.
    ///
    /// # Errors
    /// [`WaitError`] when it takes too long: [`within`](Self::within) says how long that is.
    #[track_caller]
    pub fn wait_until_gone<K: Object>(&self, name: &str) -> impl Future<Output = Result<(), WaitError>> {
        let what = format!("for {} to be gone", self.name_of::<K>(name));
        let all = self.wait_in(View::<K>::new(self, Some(name)), what, Location::caller(), <[_]>::is_empty);
        async { all.await.map(drop) }
    }

    /// Waits until a condition holds of all objects of a kind, in the order of their names, and returns them as they were
    /// then. If the kind is namespaced, they are those of the test's namespace. What it is that is waited for goes into the
    /// failure: `two deployments`, for example.
    ///
    /// # Errors
    /// [`WaitError`] when it takes too long: [`within`](Self::within) says how long that is.
    #[track_caller]
    pub fn wait_for_all<K: Object>(
        &self,
        what: &str,
        condition: impl FnMut(&[Arc<K>]) -> bool,
    ) -> impl Future<Output = Result<Vec<Arc<K>>, WaitError>> {
        self.wait_in(View::<K>::new(self, None), format!("for {what}"), Location::caller(), condition)
    }

    /// Waits until anything else is so. The condition is looked at every 10 ms. What it is that is waited for goes into the
    /// failure: `the queue is empty`, for example.
    ///
    /// # Errors
    /// [`WaitError`] when it takes too long: [`within`](Self::within) says how long that is.
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
                    self.clock().sleep(LOOK).await;
                }
            };
            match self.clock().timeout(self.timeout, holds).await {
                Ok(()) => Ok(()),
                Err(_) => Err(self.failure(what, location, Seen::Nothing).await),
            }
        }
    }

    async fn wait_in<K: Object>(
        &self,
        mut view: View<K>,
        what: String,
        location: &'static Location<'static>,
        mut condition: impl FnMut(&[Arc<K>]) -> bool,
    ) -> Result<Vec<Arc<K>>, WaitError> {
        let holds = async {
            view.informer.synced().await;
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
            Err(_) => Err(self.failure(what, location, view.seen()).await),
        }
    }

    /// As people say it: `Deployment test/web`.
    fn name_of<K: Object>(&self, name: &str) -> String {
        let kind = Kind::<K>::typed();
        let namespace = if kind.is_namespaced() { format!("{}/", self.namespace()) } else { String::new() };
        format!("{} {namespace}{name}", kind.resource().kind)
    }

    async fn failure(&self, what: String, location: &'static Location<'static>, seen: Seen) -> WaitError {
        WaitError { report: Box::new(Report::write(self, what, location, seen).await) }
    }
}

/// What is watched for the sake of one wait, beside whatever the operator watches.
struct View<K> {
    informer: SharedInformer<K>,
    events: Subscription<K>,
    /// What was there last of what is gone.
    gone: Option<Arc<K>>,
    /// Why it may be that nothing is seen.
    error: Arc<Mutex<Option<String>>>,
}

impl<K: Object> View<K> {
    /// Of one object, or of all of a kind.
    fn new(env: &TestEnv, name: Option<&str>) -> Self {
        let kind = Kind::<K>::typed();
        let namespaces =
            if kind.is_namespaced() { Namespaces::One(env.namespace().to_owned()) } else { Namespaces::All };
        let fields = name.map_or_else(String::new, |name| format!("metadata.name={name}"));
        let selectors = Selectors { fields, ..Selectors::default() };
        let error = Arc::new(Mutex::new(None));
        let last_error = error.clone();
        let informer = SharedInformer::builder(&env.spawner(), kind)
            .selected(env.kube().clone(), namespaces, selectors)
            .on_error(move |error| {
                let tip = if error.code() == Some(404) { "; is its definition installed?" } else { "" };
                let error = format!("{error}{tip}");
                *last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            })
            .build()
            .expect("an informer of one namespace, or of all, has nothing to contradict itself with");
        let events = informer.subscribe();
        informer.start();
        Self { informer, events, gone: None, error }
    }

    async fn next(&mut self) -> Event<K> {
        let Some(event) = self.events.next().await else {
            // The environment is finished: nothing happens here any more.
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
