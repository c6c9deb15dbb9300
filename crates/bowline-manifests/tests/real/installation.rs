//! The manifests of the operator, and their application to a server.

use bowline_manifests::{Manifest, Manifests};
use bowline_runtime::{ConnectionConfig, Manager, OperatorDescription};
use http::header::{CONTENT_TYPE, WARNING};
use http::{Request, StatusCode};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams, Resource as _, TypeMeta};
use kube::client::Body;
use kube::discovery::pinned_kind;
use serde_json::Value;

use crate::arm::Arm;
use crate::operator::{SECRET, operator};

/// An operator with namespaces that no other has.
pub(crate) struct Installation {
    /// Its name, which is that of its service account.
    pub(crate) name: String,
    /// Its own namespace.
    pub(crate) namespace: String,
    /// Where it works; empty for everywhere.
    pub(crate) namespaces: Vec<String>,
    /// The namespace of its Secret.
    pub(crate) vault: String,
    pub(crate) files: Vec<Manifest>,
}

/// Which namespaces an operator works in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    All,
    Limited,
}

impl Installation {
    /// Renders manifests. Nothing is applied but the namespaces that must exist before.
    pub(crate) async fn new(arm: &Arm, mode: Mode) -> Self {
        let vault = arm.new_namespace().await;
        let mut namespaces = Vec::new();
        if mode == Mode::Limited {
            namespaces = vec![arm.new_namespace().await, arm.new_namespace().await];
        }
        // Two operators of one cluster need different names, and this one is new.
        let name = vault.clone();
        let manifests = Manifests::new(&name).namespaces(&namespaces);
        let files = manifests.render(&describe(arm, &vault)).expect("all options are valid");
        Self { namespace: format!("{name}-system"), name, namespaces, vault, files }
    }

    /// Applies all manifests but those for monitoring, and creates the Secret of the operator.
    pub(crate) async fn apply(&self, arm: &Arm) {
        for document in self.documents() {
            Way::Client.apply(arm, document).await;
        }
        let mut secret = Secret::default();
        secret.metadata.name = Some(SECRET.to_owned());
        let secrets = Api::<Secret>::namespaced(arm.admin.clone(), &self.vault);
        secrets.create(&PostParams::default(), &secret).await.expect("it is new");
    }

    /// The text of the documents in the installer.
    pub(crate) fn documents(&self) -> impl Iterator<Item = &str> {
        let install = self.files.iter().find(|file| file.path == "install.yaml").expect("it is there");
        // Text in an object is indented.
        install.text.split("\n---\n")
    }

    /// The objects in the installer.
    pub(crate) fn objects(&self) -> Vec<Value> {
        self.documents().map(read).collect()
    }

    /// The value of an argument of the program.
    pub(crate) fn argument(&self, flag: &str) -> Option<String> {
        let objects = self.objects();
        let deployment = objects.iter().find(|object| object["kind"] == "Deployment").expect("there is one");
        let args = deployment.pointer("/spec/template/spec/containers/0/args").and_then(Value::as_array);
        let mut args = args.expect("there are arguments").iter().filter_map(Value::as_str);
        args.find_map(|argument| argument.strip_prefix(flag)?.strip_prefix('=')).map(str::to_owned)
    }
}

/// What the operator's program prints.
fn describe(arm: &Arm, vault: &str) -> OperatorDescription {
    let manager = Manager::builder(&arm.spawner(), ConnectionConfig::refused()).build().expect("defaults");
    operator(&manager, vault).expect("the operator is valid");
    let text = serde_json::to_string(&manager.describe().expect("the CRDs are valid"));
    serde_json::from_str(&text.expect("it is plain data")).expect("it is a description")
}

fn read(document: &str) -> Value {
    serde_saphyr::from_str(document).expect("it is YAML")
}

/// How a document is applied. `kubectl apply` knows the same two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// An object is created, or patched if it exists.
    Client,
    /// The server reads the text and merges it. The embedded server cannot do that.
    Server,
}

impl Way {
    const STRICT: &str = "fieldManager=test&fieldValidation=Strict";

    /// Applies a document, and returns the object on the server.
    async fn apply(self, arm: &Arm, document: &str) -> Value {
        let object = read(document);
        let path = path(arm, &object).await;
        let sent = match self {
            Self::Client => {
                let (collection, _) = path.rsplit_once('/').expect("it ends with a name");
                let create = Request::post(format!("{collection}?{}", Self::STRICT));
                let sent = send(arm, create, "application/json", object.to_string()).await;
                if sent.as_ref().is_err_and(|(status, _)| *status == StatusCode::CONFLICT) {
                    let patch = Request::patch(format!("{path}?{}", Self::STRICT));
                    send(arm, patch, "application/merge-patch+json", object.to_string()).await
                } else {
                    sent
                }
            }
            Self::Server => {
                let patch = Request::patch(format!("{path}?force=true&{}", Self::STRICT));
                send(arm, patch, "application/apply-patch+yaml", document.to_owned()).await
            }
        };
        let applied = sent.unwrap_or_else(|(_, message)| panic!("{path}: {message}"));
        if let Some(lost) = lost(&object, &applied) {
            panic!("{path}: {lost} is not as it was applied: {applied:#}");
        }
        applied
    }
}

/// Sends a request that must get no warning, but for features that the embedded server does not have, and returns the object, or status and text of a failure.
async fn send(
    arm: &Arm,
    request: http::request::Builder,
    media_type: &str,
    body: String,
) -> Result<Value, (StatusCode, String)> {
    let request = request.header(CONTENT_TYPE, media_type).body(Body::from(body.into_bytes()));
    let response = arm.admin.send(request.expect("it is a request")).await.expect("the server answers");
    let (parts, body) = response.into_parts();
    let body = body.collect_bytes().await.expect("the answer is whole");
    if !parts.status.is_success() {
        return Err((parts.status, String::from_utf8_lossy(&body).into_owned()));
    }
    let warnings = parts.headers.get_all(WARNING).iter().map(|it| it.to_str().expect("it is text"));
    let is_of_test =
        |warning: &&str| arm.is_real() || !warning.contains("is not supported by this server yet");
    assert_eq!(warnings.filter(is_of_test).collect::<Vec<_>>(), [""; 0]);
    Ok(serde_json::from_slice(&body).expect("it is JSON"))
}

/// The path of an object on the server.
pub(crate) async fn path(arm: &Arm, object: &Value) -> String {
    let types: TypeMeta = serde_json::from_value(object.clone()).expect("it has a version and a kind");
    let kind = GroupVersionKind::try_from(types).expect("the version is valid");
    let (resource, _): (ApiResource, _) =
        arm.until("discovery", async || pinned_kind(&arm.admin, &kind).await.ok()).await;
    let path = DynamicObject::url_path(&resource, object["metadata"]["namespace"].as_str());
    format!("{path}/{}", object["metadata"]["name"].as_str().expect("it has a name"))
}

/// The first place where something of the desired object is missing, or is something else.
fn lost(desired: &Value, actual: &Value) -> Option<String> {
    match (desired, actual) {
        (Value::Object(desired), Value::Object(actual)) => desired.iter().find_map(|(key, value)| {
            Some(format!(".{key}{}", lost(value, actual.get(key).unwrap_or(&Value::Null))?))
        }),
        (Value::Array(desired), Value::Array(actual)) if desired.len() == actual.len() => {
            let mut pairs = desired.iter().zip(actual).enumerate();
            pairs.find_map(|(index, (desired, actual))| Some(format!("[{index}]{}", lost(desired, actual)?)))
        }
        // A server may omit what is empty.
        (Value::Array(desired), Value::Null) if desired.is_empty() => None,
        _ => (desired != actual).then(String::new),
    }
}

async fn accepts_all_manifests_twice(arm: Arm, mode: Mode) {
    let installation = Installation::new(&arm, mode).await;
    let ways: &[_] = if arm.is_real() { &[Way::Client, Way::Server] } else { &[Way::Client] };
    for way in ways {
        let mut count = 0;
        for document in installation.documents() {
            way.apply(&arm, document).await;
            count += 1;
        }
        assert!(count > 20, "{count}");
        wait_established(&arm, &installation).await;
        let mut first = Vec::new();
        for document in installation.documents() {
            first.push(way.apply(&arm, document).await);
        }
        for (document, first) in installation.documents().zip(first) {
            assert_eq!(way.apply(&arm, document).await, first, "{way:?}");
        }
    }
}

/// Waits until the server has completed the status of the CRDs.
async fn wait_established(arm: &Arm, installation: &Installation) {
    for crd in installation.objects().iter().filter(|it| it["kind"] == "CustomResourceDefinition") {
        let path = path(arm, crd).await;
        let is_established = async || {
            let request = Request::get(&path).body(Vec::new()).expect("it is a request");
            let crd: Value = arm.admin.request(request).await.expect("it exists");
            let conditions = crd.pointer("/status/conditions")?.as_array()?;
            let is_established = |it: &Value| it["type"] == "Established" && it["status"] == "True";
            conditions.iter().any(is_established).then_some(())
        };
        arm.until("an established CRD", is_established).await;
    }
}

#[test]
fn a_server_accepts_the_manifests_of_an_operator_for_all_namespaces_twice() {
    Arm::run(|arm| accepts_all_manifests_twice(arm, Mode::All));
}

#[test]
fn a_server_accepts_the_manifests_of_an_operator_limited_to_namespaces_twice() {
    Arm::run(|arm| accepts_all_manifests_twice(arm, Mode::Limited));
}

#[test]
#[should_panic(expected = "nosuchfield")]
fn a_server_refuses_a_manifest_with_an_unknown_field() {
    Arm::run(|arm| async move {
        let installation = Installation::new(&arm, Mode::All).await;
        for document in installation.documents() {
            Way::Client
                .apply(&arm, &document.replace("  replicas: 2\n", "  replicas: 2\n  nosuchfield: 2\n"))
                .await;
        }
    });
}
