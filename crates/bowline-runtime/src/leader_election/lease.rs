//! Requests for the lease, each with a timeout.

use std::time::Duration;

use bowline_clock::Clock;
use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;

/// A request for the lease failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum LeaseError {
    /// The server returned an error, or could not be reached.
    #[error(transparent)]
    Kube(#[from] kube::Error),
    /// The request timed out.
    #[error("no answer within {0:?}")]
    Silent(Duration),
}

impl LeaseError {
    /// Whether another process wrote meanwhile.
    pub(super) fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// Whether the lease does not exist.
    pub(super) fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// Whether it is certain that nothing was written.
    pub(super) fn is_refusal(&self) -> bool {
        self.code().is_some_and(|code| (400..500).contains(&code))
    }

    fn code(&self) -> Option<u16> {
        match self {
            Self::Kube(kube::Error::Api(status)) => Some(status.code),
            Self::Kube(_) | Self::Silent(_) => None,
        }
    }

    /// The remedy, if it is known.
    pub(super) fn hint(&self) -> Option<&'static str> {
        match self.code()? {
            401 => Some("is the token or certificate valid?"),
            403 => Some(
                "may this process get, create and update leases of coordination.k8s.io in that namespace?",
            ),
            404 => Some("is there such a namespace?"),
            _ => None,
        }
    }
}

/// The lease of the election.
#[derive(Clone)]
pub(super) struct LeaseLock {
    api: Api<Lease>,
    namespace: String,
    name: String,
    clock: Clock,
    limit: Duration,
}

impl LeaseLock {
    pub(super) fn new(
        kube: kube::Client,
        namespace: &str,
        name: &str,
        clock: &Clock,
        limit: Duration,
    ) -> Self {
        Self {
            api: Api::namespaced(kube, namespace),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            clock: clock.clone(),
            limit,
        }
    }

    pub(super) async fn read(&self) -> Result<Option<Lease>, LeaseError> {
        self.within(Box::pin(self.api.get_opt(&self.name))).await
    }

    pub(super) async fn create(&self, spec: LeaseSpec) -> Result<Lease, LeaseError> {
        let metadata = ObjectMeta {
            name: Some(self.name.clone()),
            namespace: Some(self.namespace.clone()),
            ..ObjectMeta::default()
        };
        let lease = Lease { metadata, spec: Some(spec) };
        self.within(Box::pin(self.api.create(&PostParams::default(), &lease))).await
    }

    /// Replaces the spec of a lease, unless it was written since it was read.
    pub(super) async fn replace(&self, seen: &Lease, spec: LeaseSpec) -> Result<Lease, LeaseError> {
        let lease = Lease { metadata: seen.metadata.clone(), spec: Some(spec) };
        self.within(Box::pin(self.api.replace(&self.name, &PostParams::default(), &lease))).await
    }

    /// The current time in the form of the object.
    pub(super) fn wall(&self) -> Option<MicroTime> {
        Timestamp::try_from(self.clock.system_time()).ok().map(MicroTime)
    }

    async fn within<T>(&self, request: BoxFuture<'_, kube::Result<T>>) -> Result<T, LeaseError> {
        match self.clock.timeout(self.limit, request).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(LeaseError::Silent(self.limit)),
        }
    }
}
