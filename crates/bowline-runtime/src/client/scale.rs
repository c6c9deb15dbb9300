//! The scale of objects that have replicas.

use bowline_cache::ObjectKey;
use k8s_openapi::api::autoscaling::v1::Scale;
use kube::Resource;
use serde_json::json;

use super::error::{ClientError, Verb};
use super::kind_client::KindClient;
use super::patch::Patch;
use super::{Client, Object};

const SCALE: &str = "scale";

impl Client {
    /// The scale of an object: its desired and current replicas, and the selector of its pods. Asks the server. Custom kinds
    /// have one if their definition declares the subresource `scale`.
    ///
    /// Servers omit a replica count of zero. Here, `spec.replicas` is always set.
    ///
    /// ```
    /// # use bowline_cache::ObjectKey;
    /// # use bowline_runtime::{Client, ClientError};
    /// # use k8s_openapi::api::apps::v1::Deployment;
    /// # async fn example(client: Client, key: ObjectKey) -> Result<(), ClientError> {
    /// let scale = client.scale::<Deployment>(&key).await?;
    /// if scale.spec.and_then(|spec| spec.replicas) == Some(0) {
    ///     client.set_replicas::<Deployment>(&key, 1).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When there is no such object, or its kind has no scale.
    pub async fn scale<K: Object>(&self, key: &ObjectKey) -> Result<Scale, ClientError> {
        self.typed::<K>().scale(key).await
    }

    /// Sets the number of replicas of an object, whatever it is now, and returns the new scale.
    ///
    /// # Errors
    /// When there is no such object, its kind has no scale, or the number is negative.
    pub async fn set_replicas<K: Object>(
        &self,
        key: &ObjectKey,
        replicas: i32,
    ) -> Result<Scale, ClientError> {
        self.typed::<K>().set_replicas(key, replicas).await
    }
}

impl<K: Resource + Send + Sync + 'static> KindClient<K> {
    /// The scale of an object; see [`Client::scale`].
    ///
    /// # Errors
    /// When there is no such object, or its kind has no scale.
    pub async fn scale(&self, key: &ObjectKey) -> Result<Scale, ClientError> {
        Ok(with_replicas(self.get_subresource(key, SCALE).await?))
    }

    /// Sets the number of replicas of an object, whatever it is now, and returns the new scale.
    ///
    /// To change it only if nothing else did meanwhile, write a [`scale`](Self::scale) back with
    /// [`update_subresource`](Self::update_subresource).
    ///
    /// # Errors
    /// When there is no such object, its kind has no scale, or the number is negative.
    pub async fn set_replicas(&self, key: &ObjectKey, replicas: i32) -> Result<Scale, ClientError> {
        let patch = Patch::merge(&json!({"spec": {"replicas": replicas}}))
            .map_err(|error| self.invalid(self.task(Verb::Patch, Some(key)), error.to_string()))?;
        Ok(with_replicas(self.patch_subresource(key, SCALE, &patch).await?))
    }
}

/// A scale whose replica count is set: JSON from Go omits zero.
fn with_replicas(mut scale: Scale) -> Scale {
    scale.spec.get_or_insert_default().replicas.get_or_insert(0);
    scale
}
