//! Evictions: deletions of pods that obey disruption budgets.

use std::fmt;
use std::future::IntoFuture;
use std::time::Duration;

use bowline_cache::ObjectKey;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::Client;
use super::error::{ClientError, Verb};

/// The eviction of one pod: sent when it is awaited. From [`Client::evict`].
#[must_use = "nothing is evicted until it is awaited"]
pub struct Evict {
    client: Client,
    key: ObjectKey,
    grace_period: Option<Duration>,
    uid: Option<String>,
    resource_version: Option<String>,
}

impl Client {
    /// Evicts a pod: deletes it if its disruption budgets allow it. Options are set on the returned value, which is then
    /// awaited.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use bowline_cache::ObjectKey;
    /// # use bowline_runtime::{Action, Client, ClientError};
    /// # async fn example(client: Client, key: ObjectKey) -> Result<Action, ClientError> {
    /// match client.evict(&key).grace_period(Duration::from_secs(30)).await {
    ///     Ok(()) => Ok(Action::done()),
    ///     Err(error) if error.is_blocked_by_disruption_budget() => Ok(Action::requeue_after(Duration::from_secs(10))),
    ///     Err(error) => Err(error),
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// When a disruption budget forbids it now
    /// ([`is_blocked_by_disruption_budget`](ClientError::is_blocked_by_disruption_budget)), there is no such pod, or the
    /// server refuses it. A [`Transport`](crate::transport::Transport) does not repeat an eviction after a 429, so that the
    /// error arrives at once.
    pub fn evict(&self, pod: &ObjectKey) -> Evict {
        Evict {
            client: self.clone(),
            key: pod.clone(),
            grace_period: None,
            uid: None,
            resource_version: None,
        }
    }
}

impl Evict {
    /// Time for the pod to end, in whole seconds. Default: the pod's own.
    pub fn grace_period(mut self, period: Duration) -> Self {
        self.grace_period = Some(period);
        self
    }

    /// Evicts the pod only if it has this uid; otherwise it is a conflict. Default: any pod of the name.
    pub fn uid(mut self, uid: impl Into<String>) -> Self {
        self.uid = Some(uid.into());
        self
    }

    /// Evicts the pod only in this version; otherwise it is a conflict. Default: any version.
    pub fn resource_version(mut self, version: impl Into<String>) -> Self {
        self.resource_version = Some(version.into());
        self
    }

    async fn run(self) -> Result<(), ClientError> {
        let Self { client, key, grace_period, uid, resource_version } = self;
        let pods = client.typed::<Pod>();
        let key = pods.place(Verb::Create, &key)?;
        let mut options = Map::new();
        if let Some(period) = grace_period {
            options.insert("gracePeriodSeconds".to_owned(), period.as_secs().into());
        }
        let mut preconditions = Map::new();
        for (name, value) in [("uid", uid), ("resourceVersion", resource_version)] {
            if let Some(value) = value {
                preconditions.insert(name.to_owned(), value.into());
            }
        }
        if !preconditions.is_empty() {
            options.insert("preconditions".to_owned(), preconditions.into());
        }
        if client.options.dry_run {
            options.insert("dryRun".to_owned(), json!(["All"]));
        }
        let mut eviction = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": key.namespace(), "name": key.name()},
        });
        if !options.is_empty() {
            eviction["deleteOptions"] = Value::Object(options);
        }
        pods.create_subresource::<IgnoredAny>(&key, "eviction", &eviction).await?;
        Ok(())
    }
}

impl IntoFuture for Evict {
    type Output = Result<(), ClientError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl fmt::Debug for Evict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Evict")
            .field("key", &self.key)
            .field("grace_period", &self.grace_period)
            .finish_non_exhaustive()
    }
}
