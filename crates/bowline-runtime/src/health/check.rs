//! Named checks: each says that something is well, or why not.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_clock::{Clock, panic_message};
use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};

use crate::BoxError;

/// How long a check may take, if nobody says otherwise.
const LIMIT: Duration = Duration::from_secs(5);

/// Checks by name. A clone has the same ones.
#[derive(Clone)]
pub struct Checks {
    shared: Arc<Shared>,
}

struct Shared {
    checks: Mutex<BTreeMap<String, Check>>,
    limit: Duration,
}

/// One check.
type Check = Arc<dyn Fn() -> BoxFuture<'static, Result<(), Reason>> + Send + Sync>;

/// Why a check failed. Any error is one, and so is a text; it is logged, and withheld from whoever probes all checks, as
/// anybody may. What may be seen there says so: [`Reason::shown`].
///
/// Whoever asks for a check alone, by its name (`/readyz/NAME`), gets the reason even if it is withheld, as from
/// controller-runtime; no credentials are needed for that either. So a reason must not have secrets in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    text: String,
    is_shown: bool,
}

/// How a check ended.
pub(super) enum Outcome {
    Passed,
    Excluded,
    Failed(Reason),
}

impl Reason {
    /// A reason that whoever probes may see.
    #[must_use]
    pub fn shown(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_shown: true }
    }

    /// What whoever probes may see.
    pub(super) fn public(&self) -> Option<&str> {
        self.is_shown.then_some(&*self.text)
    }
}

impl<E: Into<BoxError>> From<E> for Reason {
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

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Checks {
    /// None yet: all is well as long as the program answers. Each may take 5 s.
    #[must_use]
    pub fn new() -> Self {
        Self::with_timeout(LIMIT)
    }

    /// None yet, each of which may take so long. One that takes longer fails.
    #[must_use]
    pub fn with_timeout(limit: Duration) -> Self {
        Self { shared: Arc::new(Shared { checks: Mutex::default(), limit }) }
    }

    /// Adds a check, in the place of any that had its name. It is run whenever somebody probes, at the same time as others,
    /// and so that it may be dropped before it is done. One that panics fails.
    pub fn add<F, R, E>(&self, name: impl Into<String>, check: F)
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Reason>,
    {
        let check: Check = Arc::new(move || {
            let checked = check();
            Box::pin(async move { checked.await.map_err(Into::into) })
        });
        self.lock().insert(name.into(), check);
    }

    /// Removes a check, if it is there.
    pub fn remove(&self, name: &str) {
        self.lock().remove(name);
    }

    /// The names of all checks, in order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// Runs all, and gives those that fail, with why: for who waits until all is well, in the same process.
    pub async fn failing(&self, clock: &Clock) -> Vec<(String, Reason)> {
        let failed = |(name, outcome)| match outcome {
            Outcome::Failed(reason) => Some((name, reason)),
            Outcome::Passed | Outcome::Excluded => None,
        };
        self.run(clock, |_| false).await.into_iter().filter_map(failed).collect()
    }

    /// Runs all but some, and says how each ended. With no checks there is one that passes.
    pub(super) async fn run(
        &self,
        clock: &Clock,
        is_excluded: impl Fn(&str) -> bool,
    ) -> Vec<(String, Outcome)> {
        let mut checks: Vec<_> =
            self.lock().iter().map(|(name, check)| (name.clone(), check.clone())).collect();
        if checks.is_empty() {
            checks.push(ping());
        }
        join_all(checks.into_iter().map(|(name, check)| {
            let is_excluded = is_excluded(&name);
            async move {
                let outcome =
                    if is_excluded { Outcome::Excluded } else { self.check(&name, &check, clock).await };
                (name, outcome)
            }
        }))
        .await
    }

    /// Runs one; none if there is none of this name.
    pub(super) async fn run_one(&self, clock: &Clock, name: &str) -> Option<Outcome> {
        let check = {
            let checks = self.lock();
            let ping = || Some(ping()).filter(|(ping, _)| checks.is_empty() && ping == name);
            checks.get(name).cloned().or_else(|| ping().map(|(_, check)| check))?
        };
        Some(self.check(name, &check, clock).await)
    }

    async fn check(&self, name: &str, check: &Check, clock: &Clock) -> Outcome {
        let limit = self.shared.limit;
        let checked = AssertUnwindSafe(async { check().await }).catch_unwind();
        let reason = match clock.timeout(limit, checked).await {
            Ok(Ok(Ok(()))) => return Outcome::Passed,
            Ok(Ok(Err(reason))) => reason,
            Ok(Err(panic)) => format!("it panicked: {}", panic_message(&*panic)).into(),
            Err(_) => format!("it was not done within {limit:?}").into(),
        };
        tracing::info!(check = name, %reason, "a health check failed");
        Outcome::Failed(reason)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Check>> {
        self.shared.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The check that there is when there is no other.
fn ping() -> (String, Check) {
    ("ping".to_owned(), Arc::new(|| Box::pin(std::future::ready(Ok(())))))
}

impl Default for Checks {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Checks").field(&self.names()).finish()
    }
}
