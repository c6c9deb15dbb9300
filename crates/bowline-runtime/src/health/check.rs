//! Named health checks.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_clock::{Clock, panic_message};
use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};

use crate::BoxError;
use crate::log_throttle::LogThrottle;

/// Default timeout of a check.
const LIMIT: Duration = Duration::from_secs(5);

/// Checks by name. Clones share them.
#[derive(Clone)]
pub struct HealthChecks {
    shared: Arc<Shared>,
}

struct Shared {
    checks: Mutex<BTreeMap<String, Entry>>,
    limit: Duration,
}

/// A check, and whether the summary includes it now. Without a function it always does.
#[derive(Clone)]
struct Entry {
    check: Check,
    /// Probes come every few seconds, and the reason of a check may contain a time or a number that differs each time.
    /// Repeated failures are therefore logged once a minute, whatever their reasons are.
    log: Arc<Mutex<LogThrottle>>,
    is_counted: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

/// One check.
type Check = Arc<dyn Fn() -> BoxFuture<'static, Result<(), CheckFailure>> + Send + Sync>;

/// The reason of a failed check: any error or text. It is logged, but withheld from probes, which are not
/// authenticated: from the list of all checks, and from the response for one check (`/readyz/NAME`), where
/// controller-runtime returns it. Use [`CheckFailure::public`] for a reason that probes may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckFailure {
    text: String,
    is_shown: bool,
}

/// The result of a check.
pub(super) enum Outcome {
    Passed,
    Excluded,
    Failed(CheckFailure),
}

impl CheckFailure {
    /// A reason that probes may see.
    #[must_use]
    pub fn public(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_shown: true }
    }

    /// The text that probes may see.
    pub(super) fn public_text(&self) -> Option<&str> {
        self.is_shown.then_some(&*self.text)
    }
}

impl<E: Into<BoxError>> From<E> for CheckFailure {
    fn from(error: E) -> Self {
        let error = error.into();
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        Self { text, is_shown: false }
    }
}

impl fmt::Display for CheckFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl HealthChecks {
    /// An empty list, which passes while the program responds. Timeout of each check: 5 s.
    #[must_use]
    pub fn new() -> Self {
        Self::with_timeout(LIMIT)
    }

    /// An empty list with another timeout. A check that takes longer fails.
    #[must_use]
    pub fn with_timeout(limit: Duration) -> Self {
        Self { shared: Arc::new(Shared { checks: Mutex::default(), limit }) }
    }

    /// Adds a check, or replaces the one with the same name. It runs at each probe, concurrently with others, and may
    /// be dropped before it completes. One that panics fails.
    pub fn add<F, R, E>(&self, name: impl Into<String>, check: F)
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<CheckFailure>,
    {
        self.lock().insert(name.into(), Entry::new(erase(check), None));
    }

    /// Adds a check that the summary includes only while a function returns true. Its own path always runs it.
    pub(crate) fn add_counted<F, R, E>(
        &self,
        name: impl Into<String>,
        is_counted: impl Fn() -> bool + Send + Sync + 'static,
        check: F,
    ) where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<CheckFailure>,
    {
        let is_counted: Arc<dyn Fn() -> bool + Send + Sync> = Arc::new(is_counted);
        self.lock().insert(name.into(), Entry::new(erase(check), Some(is_counted)));
    }

    /// Removes a check, if it exists.
    pub fn remove(&self, name: &str) {
        self.lock().remove(name);
    }

    /// The names of all checks, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// Runs all checks of the summary, and returns the failed ones with their reasons. Use it to wait for readiness
    /// inside the process.
    pub async fn failing(&self, clock: &Clock) -> Vec<(String, CheckFailure)> {
        let failed = |(name, outcome)| match outcome {
            Outcome::Failed(reason) => Some((name, reason)),
            Outcome::Passed | Outcome::Excluded => None,
        };
        self.run(clock, |_| false).await.into_iter().filter_map(failed).collect()
    }

    /// Runs all checks of the summary except excluded ones, and returns their results. An empty list returns one that
    /// passes.
    pub(super) async fn run(
        &self,
        clock: &Clock,
        is_excluded: impl Fn(&str) -> bool,
    ) -> Vec<(String, Outcome)> {
        let mut checks: Vec<_> =
            self.lock().iter().map(|(name, entry)| (name.clone(), entry.clone())).collect();
        if checks.is_empty() {
            checks.push(ping());
        }
        checks.retain(|(_, entry)| entry.is_counted.as_ref().is_none_or(|is_counted| is_counted()));
        join_all(checks.into_iter().map(|(name, entry)| {
            let is_excluded = is_excluded(&name);
            async move {
                let outcome =
                    if is_excluded { Outcome::Excluded } else { self.check(&name, &entry, clock).await };
                (name, outcome)
            }
        }))
        .await
    }

    /// Runs one check; `None` if it does not exist.
    pub(super) async fn run_one(&self, clock: &Clock, name: &str) -> Option<Outcome> {
        let entry = {
            let checks = self.lock();
            let ping = || Some(ping()).filter(|(ping, _)| checks.is_empty() && ping == name);
            checks.get(name).cloned().or_else(|| ping().map(|(_, entry)| entry))?
        };
        Some(self.check(name, &entry, clock).await)
    }

    async fn check(&self, name: &str, entry: &Entry, clock: &Clock) -> Outcome {
        let limit = self.shared.limit;
        let checked = AssertUnwindSafe(async { (entry.check)().await }).catch_unwind();
        let reason = match clock.timeout(limit, checked).await {
            Ok(Ok(Ok(()))) => {
                if entry.log().reset() {
                    tracing::info!(check = name, "health check passes again");
                }
                return Outcome::Passed;
            }
            Ok(Ok(Err(reason))) => reason,
            Ok(Err(panic)) => format!("the check panicked: {}", panic_message(&*panic)).into(),
            Err(_) => format!("the check did not end within {limit:?}").into(),
        };
        if entry.log().is_due(clock.now()) {
            tracing::info!(check = name, %reason, "health check failed");
        }
        Outcome::Failed(reason)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.shared.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn new(check: Check, is_counted: Option<Arc<dyn Fn() -> bool + Send + Sync>>) -> Self {
        Self { check, log: Arc::default(), is_counted }
    }

    fn log(&self) -> MutexGuard<'_, LogThrottle> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The check of a program without others.
fn ping() -> (String, Entry) {
    let check: Check = Arc::new(|| Box::pin(std::future::ready(Ok(()))));
    ("ping".to_owned(), Entry::new(check, None))
}

/// Erases the types of a check.
fn erase<F, R, E>(check: F) -> Check
where
    F: Fn() -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<CheckFailure>,
{
    Arc::new(move || {
        let checked = check();
        Box::pin(async move { checked.await.map_err(Into::into) })
    })
}

impl Default for HealthChecks {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for HealthChecks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HealthChecks").field(&self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::atomic::{AtomicBool, Ordering};

    use bowline_clock::Simulation;

    use super::*;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no test panics while it writes").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged<F: Future<Output = ()>>(test: impl FnOnce(Clock) -> F) -> String {
        let log = Log::default();
        let writer = log.clone();
        let lines = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(lines, || Simulation::new(1).run(test));
        String::from_utf8(log.0.lock().expect("no test panics").clone()).expect("text is logged")
    }

    #[test]
    fn a_failing_check_whose_reason_changes_each_time_is_logged_once_a_minute() {
        let log = logged(|clock| async move {
            let checks = HealthChecks::new();
            let (started, now) = (clock.now(), clock.clone());
            checks.add("lease", move || {
                let age = now.now().duration_since(started);
                async move { Err::<(), _>(format!("not renewed for {age:?}")) }
            });
            for _ in 0..90 {
                assert_eq!(checks.failing(&clock).await.len(), 1);
                clock.sleep(Duration::from_secs(1)).await;
            }
        });
        assert_eq!(log.matches("health check failed").count(), 2, "{log}");
    }

    #[test]
    fn a_failing_check_is_logged_once_a_minute_and_once_when_it_passes_again() {
        let log = logged(|clock| async move {
            let checks = HealthChecks::new();
            let connected = Arc::new(AtomicBool::new(false));
            let state = connected.clone();
            checks.add("database", move || {
                let is_connected = state.load(Ordering::Relaxed);
                async move { if is_connected { Ok(()) } else { Err("no connection") } }
            });
            for _ in 0..90 {
                assert_eq!(checks.failing(&clock).await.len(), 1);
                clock.sleep(Duration::from_secs(1)).await;
            }
            connected.store(true, Ordering::Relaxed);
            for _ in 0..3 {
                assert!(checks.failing(&clock).await.is_empty());
            }
        });
        assert_eq!(log.matches("health check failed").count(), 2, "{log}");
        assert_eq!(log.matches("health check passes again").count(), 1, "{log}");
    }
}
