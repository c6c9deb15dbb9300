//! Approval and denial of certificate signing requests.

use bowline_cache::ObjectKey;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition};

use super::Client;
use super::error::{ClientError, Verb};

impl Client {
    /// Approves a certificate signing request, as `kubectl certificate approve`: its signer may then issue the certificate.
    /// Returns the request as the server stored it. A request that is approved already stays as it is. A conflict is retried
    /// with the request as it is then.
    ///
    /// This needs the rights to `get` `certificatesigningrequests`, to `update` `certificatesigningrequests/approval`, and to
    /// `approve` for the signer.
    ///
    /// ```
    /// # use bowline_runtime::{Client, ClientError};
    /// # async fn example(client: Client) -> Result<(), ClientError> {
    /// client.approve_certificate("web-1", "NodeIsKnown", "the node is in the inventory").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When there is no such request, it was denied ([`ClientError::Invalid`]), or the server refuses it.
    pub async fn approve_certificate(
        &self,
        name: &str,
        reason: &str,
        message: &str,
    ) -> Result<CertificateSigningRequest, ClientError> {
        self.decide_on_certificate(name, ["Approved", "Denied"], reason, message).await
    }

    /// Denies a certificate signing request, as `kubectl certificate deny`; see
    /// [`approve_certificate`](Self::approve_certificate).
    ///
    /// # Errors
    /// When there is no such request, it was approved ([`ClientError::Invalid`]), or the server refuses it.
    pub async fn deny_certificate(
        &self,
        name: &str,
        reason: &str,
        message: &str,
    ) -> Result<CertificateSigningRequest, ClientError> {
        self.decide_on_certificate(name, ["Denied", "Approved"], reason, message).await
    }

    async fn decide_on_certificate(
        &self,
        name: &str,
        [type_, opposite]: [&str; 2],
        reason: &str,
        message: &str,
    ) -> Result<CertificateSigningRequest, ClientError> {
        let key = ObjectKey::cluster_scoped(name);
        // The approval is the whole object, but few roles grant a read of the subresource. The object is read from the server:
        // the status decides.
        let reader = self.with(|options| {
            options.is_live = true;
            options.subresource = None;
        });
        let requests = self.typed::<CertificateSigningRequest>().subresource("approval");
        self.retry_on_conflict(|| async {
            let mut request = (*reader.get::<CertificateSigningRequest>(&key).await?).clone();
            let conditions = request.status.get_or_insert_default().conditions.get_or_insert_default();
            if conditions.iter().any(|condition| condition.type_ == type_) {
                return Ok(request);
            }
            if conditions.iter().any(|condition| condition.type_ == opposite) {
                let problem = format!(
                    "the request has the condition {opposite}, which is final: create another request"
                );
                return Err(requests.invalid(requests.task(Verb::Update, Some(&key)), problem));
            }
            conditions.push(CertificateSigningRequestCondition {
                type_: type_.to_owned(),
                status: "True".to_owned(),
                reason: Some(reason.to_owned()),
                message: Some(message.to_owned()),
                last_transition_time: None,
                last_update_time: None,
            });
            requests.update(&request).await
        })
        .await
    }
}
