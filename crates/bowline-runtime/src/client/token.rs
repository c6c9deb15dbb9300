//! Tokens of service accounts. Owns that a token is shown nowhere by accident.

use std::fmt;
use std::future::IntoFuture;
use std::time::{Duration, SystemTime};

use bowline_cache::ObjectKey;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::error::ClientError;
use super::{Client, Object};
use crate::AsObject;

/// A request for a token of a service account: sent when it is awaited. From [`Client::create_token`].
#[must_use = "no token is created until it is awaited"]
pub struct CreateToken {
    client: Client,
    key: ObjectKey,
    audiences: Vec<String>,
    expires_in: Option<Duration>,
    bound_to: Option<Value>,
}

/// A token of a service account. `Debug` shows when it expires and not the token; nothing in this crate stores or logs it.
#[derive(Clone)]
pub struct ServiceAccountToken {
    token: String,
    expires_at: SystemTime,
}

/// The part of a `TokenRequest` that matters in an answer. No `Debug`: it has the token.
#[derive(Deserialize)]
struct Answer {
    status: AnswerStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnswerStatus {
    token: String,
    expiration_timestamp: Time,
}

impl Client {
    /// Requests a token of a service account. Options are set on the returned value, which is then awaited.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use bowline_cache::ObjectKey;
    /// # use bowline_runtime::{Client, ClientError};
    /// # async fn example(client: Client) -> Result<(), ClientError> {
    /// let account = ObjectKey::new("web", "builder");
    /// let token = client.create_token(&account).audience("registry").expires_in(Duration::from_secs(3600)).await?;
    /// let header = format!("Bearer {}", token.expose());
    /// # drop(header);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When there is no such service account, or the server refuses the options.
    pub fn create_token(&self, service_account: &ObjectKey) -> CreateToken {
        CreateToken {
            client: self.clone(),
            key: service_account.clone(),
            audiences: Vec::new(),
            expires_in: None,
            bound_to: None,
        }
    }
}

impl CreateToken {
    /// Adds a recipient that must accept the token. Default: the API server.
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        self.audiences.push(audience.into());
        self
    }

    /// Requested lifetime, in whole seconds. The server may choose another, and refuses less than ten minutes. Default: one
    /// hour.
    pub fn expires_in(mut self, lifetime: Duration) -> Self {
        self.expires_in = Some(lifetime);
        self
    }

    /// Binds the token to a Pod, a Secret or a Node: it becomes invalid when that object is deleted. Default: it is bound to
    /// the service account alone.
    pub fn bound_to<K: Object>(mut self, object: &impl AsObject<K>) -> Self {
        let meta = object.as_object().meta();
        self.bound_to = Some(json!({
            "apiVersion": K::api_version(&()), "kind": K::kind(&()), "name": meta.name, "uid": meta.uid,
        }));
        self
    }

    async fn run(self) -> Result<ServiceAccountToken, ClientError> {
        let mut spec = Map::new();
        spec.insert("audiences".to_owned(), self.audiences.into());
        if let Some(lifetime) = self.expires_in {
            spec.insert("expirationSeconds".to_owned(), lifetime.as_secs().into());
        }
        if let Some(object) = self.bound_to {
            spec.insert("boundObjectRef".to_owned(), object);
        }
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
        let accounts = self.client.typed::<ServiceAccount>();
        let answer: Answer = accounts.create_subresource(&self.key, "token", &request).await?;
        let AnswerStatus { token, expiration_timestamp } = answer.status;
        Ok(ServiceAccountToken { token, expires_at: expiration_timestamp.0.into() })
    }
}

impl ServiceAccountToken {
    /// The token. Do not log it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.token
    }

    /// Time at which the token becomes invalid.
    #[must_use]
    pub fn expires_at(&self) -> SystemTime {
        self.expires_at
    }
}

impl IntoFuture for CreateToken {
    type Output = Result<ServiceAccountToken, ClientError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl fmt::Debug for CreateToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateToken")
            .field("key", &self.key)
            .field("audiences", &self.audiences)
            .field("expires_in", &self.expires_in)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ServiceAccountToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAccountToken").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}
