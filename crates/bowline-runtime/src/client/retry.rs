//! Retries after a conflict.

use std::time::Duration;

use super::Client;
use super::error::Conflict;

/// Number of attempts, and the pause between two: as client-go's `DefaultRetry`.
const TRIES: u32 = 5;
const REST: Duration = Duration::from_millis(10);

impl Client {
    /// Calls `attempt` until it has no conflict, at most five times, with a short pause between.
    ///
    /// Each attempt has to read the object again. It may read from the cache: after a conflict about a resource version, a
    /// read of that object waits for a newer one. A [field conflict](super::ClientError::is_field_conflict) is not retried.
    ///
    /// ```
    /// # use bowline_runtime::{Client, ClientError};
    /// # use bowline_cache::ObjectKey;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # async fn example(client: Client, key: ObjectKey) -> Result<(), ClientError> {
    /// client
    ///     .retry_on_conflict(|| async {
    ///         let mut map = (*client.get::<ConfigMap>(&key).await?).clone();
    ///         map.data.get_or_insert_default().insert("seen".to_owned(), "yes".to_owned());
    ///         client.update(&map).await
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The last conflict, or any other error of an attempt.
    pub async fn retry_on_conflict<T, E: Conflict, F: Future<Output = Result<T, E>>>(
        &self,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, E> {
        for _ in 1..TRIES {
            match attempt().await {
                Err(error) if error.is_conflict() => {
                    let jitter = 1.0 + 0.1 * self.clock().rng().unit();
                    self.clock().sleep(REST.mul_f64(jitter)).await;
                }
                done => return done,
            }
        }
        attempt().await
    }
}
