//! The user that an operator acts as. Owns its service account and role binding on a real control plane.

use std::time::Duration;

use bowline_apiserver::User;
use bowline_clock::Clock;
use http::HeaderValue;
use http::header::USER_AGENT;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{DeleteParams, PostParams};
use kube::config::AuthInfo;
use kube::{Api, Client, Config};
use serde_json::json;

use super::EnvError;
use super::plane::ConfiguredServer;

/// Name of the operator's service account in the test's namespace.
const ACCOUNT: &str = "operator";
/// User agent of an operator that has no user of its own.
const AGENT: &str = "bowline-testing-operator";
/// Lifetime of the operator's token in seconds: longer than any test.
const TOKEN_SECONDS: i64 = 24 * 60 * 60;
/// Time for a new role binding to take effect: the API server reads bindings from a cache.
const BINDING_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval between two checks of that.
const BINDING_INTERVAL: Duration = Duration::from_millis(20);

/// The operator's user on the embedded server.
pub(super) fn user(namespace: &str) -> User {
    let groups = [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
        "system:authenticated".to_owned(),
    ];
    User::new(user_name(namespace), groups)
}

/// The name of the operator's user, where it has one.
pub(super) fn user_name(namespace: &str) -> String {
    format!("system:serviceaccount:{namespace}:{ACCOUNT}")
}

/// The configuration of an operator on an existing cluster: the test's user, with a user agent that tells them apart.
pub(super) fn with_user_agent(config: &Config) -> Config {
    let mut config = config.clone();
    config.headers.retain(|(name, _)| name != USER_AGENT);
    config.headers.push((USER_AGENT, HeaderValue::from_static(AGENT)));
    config
}

/// The configuration of an operator on a real control plane: a service account in the test's namespace, bound to
/// `cluster-admin`, and a token of it.
pub(super) async fn service_account(
    admin: &ConfiguredServer,
    namespace: &str,
    clock: &Clock,
) -> Result<ConfiguredServer, EnvError> {
    let failed =
        |source: kube::Error| EnvError::Identity { user: user_name(namespace), source: Box::new(source) };
    let client = admin.client(namespace)?;
    let token = token(client, namespace).await.map_err(failed)?;
    let mut config = admin.config.clone();
    config.auth_info = AuthInfo { token: Some(token.into()), ..AuthInfo::default() };
    let server = admin.with(config);
    let operator = server.client(namespace)?;
    match clock.timeout(BINDING_TIMEOUT, wait_allowed(operator, clock)).await {
        Ok(allowed) => allowed.map_err(failed)?,
        Err(_) => return Err(EnvError::Binding { user: user_name(namespace), limit: BINDING_TIMEOUT }),
    }
    Ok(server)
}

/// Creates the account and its binding, and returns a token.
async fn token(client: Client, namespace: &str) -> kube::Result<String> {
    let params = PostParams::default();
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
    let mut account = ServiceAccount::default();
    account.metadata.name = Some(ACCOUNT.to_owned());
    accounts.create(&params, &account).await?;
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": binding_name(namespace)},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": ACCOUNT}],
    }))
    .map_err(kube::Error::SerdeError)?;
    Api::all(client).create(&params, &binding).await?;
    // As JSON, because the versions of k8s-openapi differ in which fields are optional.
    let request: TokenRequest =
        serde_json::from_value(json!({"spec": {"audiences": [], "expirationSeconds": TOKEN_SECONDS}}))
            .map_err(kube::Error::SerdeError)?;
    let answer = accounts.create_token_request(ACCOUNT, &params, &request).await?;
    let answer = serde_json::to_value(answer).map_err(kube::Error::SerdeError)?;
    Ok(answer["status"]["token"].as_str().unwrap_or_default().to_owned())
}

/// Waits until the operator's user may do everything.
async fn wait_allowed(operator: Client, clock: &Clock) -> kube::Result<()> {
    let reviews = Api::<SelfSubjectAccessReview>::all(operator);
    let review: SelfSubjectAccessReview = serde_json::from_value(json!({
        "spec": {"resourceAttributes": {"verb": "*", "group": "*", "resource": "*"}},
    }))
    .map_err(kube::Error::SerdeError)?;
    loop {
        let answer = reviews.create(&PostParams::default(), &review).await?;
        if answer.status.is_some_and(|status| status.allowed) {
            return Ok(());
        }
        clock.sleep(BINDING_INTERVAL).await;
    }
}

/// Deletes what is left of the operator's user outside the test's namespace.
pub(super) async fn delete_binding(client: Client, namespace: &str) -> kube::Result<()> {
    let bindings = Api::<ClusterRoleBinding>::all(client);
    match bindings.delete(&binding_name(namespace), &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error),
    }
}

fn binding_name(namespace: &str) -> String {
    format!("bowline-testing:{namespace}:{ACCOUNT}")
}
