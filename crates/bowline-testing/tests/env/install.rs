//! Custom kinds.

use std::sync::Arc;
use std::time::Duration;

use bowline_runtime::{Action, Context, DefinitionError, Error, Manager};
use bowline_testing::{InstallError, TestEnv, Verb};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, CustomResourceExt as _, ResourceExt as _};

use crate::website::{LongWebsite, LongWebsiteSpec, Website, WebsiteSpec};

const WIDGETS: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.demo.example.com
spec:
  group: demo.example.com
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  scope: Cluster
  versions:
  - &version
    name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
# Nothing here.
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: gadgets.demo.example.com
spec:
  group: demo.example.com
  names: {kind: Gadget, plural: gadgets, singular: gadget, listKind: GadgetList}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

#[test]
fn a_kind_that_is_installed_from_its_type_is_served() {
    TestEnv::test(async |env| {
        env.install::<Website>().await.unwrap();
        let websites = Api::<Website>::default_namespaced(env.kube_client().clone());
        let website = Website::new("blog", WebsiteSpec { host: "example.com".to_owned() });
        websites.create(&PostParams::default(), &website).await.unwrap();
        let seen = env.wait_for::<Website>("blog", |_| true).await.unwrap();
        assert_eq!(seen.spec.host, "example.com");
    });
}

#[test]
fn a_definition_that_is_there_is_left_alone_or_replaced() {
    // On a server of its own, for other tests use the same kind.
    TestEnv::builder().test(async |env| {
        let definitions = Api::<CustomResourceDefinition>::all(env.kube_client().clone());
        let version = async || {
            let definition = definitions.get(Website::crd_name()).await.unwrap();
            definition.resource_version().unwrap()
        };
        env.install::<Website>().await.unwrap();
        let first = version().await;
        env.install::<Website>().await.unwrap();
        assert_eq!(version().await, first);

        env.install::<LongWebsite>().await.unwrap();
        assert_ne!(version().await, first);
        let websites = Api::<LongWebsite>::default_namespaced(env.kube_client().clone());
        let spec = LongWebsiteSpec { host: "example.com".to_owned(), path: Some("/blog".to_owned()) };
        let website = websites.create(&PostParams::default(), &LongWebsite::new("blog", spec)).await.unwrap();
        assert_eq!(website.spec.path.as_deref(), Some("/blog"));
    });
}

#[test]
fn definitions_are_installed_from_yaml_and_from_files() {
    TestEnv::builder().test(async |env| {
        env.install_yaml(WIDGETS).await.unwrap();
        let definitions = Api::<CustomResourceDefinition>::all(env.kube_client().clone());
        assert!(definitions.get_opt("widgets.demo.example.com").await.unwrap().is_some());
        assert!(definitions.get_opt("gadgets.demo.example.com").await.unwrap().is_some());

        let directory = tempfile::tempdir().unwrap();
        let json = serde_json::to_string(&Website::crd()).unwrap();
        std::fs::write(directory.path().join("website.json"), json).unwrap();
        std::fs::write(directory.path().join("README.md"), "not YAML: {").unwrap();
        env.install_from(directory.path()).await.unwrap();
        env.wait_for_all::<Website>("websites to be served", |_| true).await.unwrap();
    });
}

#[test]
fn what_is_no_definition_is_refused_by_name() {
    TestEnv::builder().test(async |env| {
        let refused = async |text: &str| env.install_yaml(text).await.unwrap_err().to_string();
        assert_eq!(
            refused("kind: ConfigMap\napiVersion: v1").await,
            r#"the text is not a list of CRDs: one of its documents is of kind "ConfigMap""#
        );
        assert_eq!(refused("---\n").await, "the text has no CRD");
        assert!(refused("kind: [").await.starts_with("the text is not a list of CRDs: "));
        let missing = env.install_from("no/such/file.yaml").await.unwrap_err();
        assert!(missing.to_string().starts_with("cannot read no/such/file.yaml: "), "{missing}");
    });
}

#[test]
fn what_the_server_does_not_take_or_serve_is_said() {
    TestEnv::builder().test(async |env| {
        let bad = WIDGETS.replace("name: widgets.demo.example.com", "name: widgets");
        let refused = env.install_yaml(&bad).await.unwrap_err();
        let InstallError::Definition(DefinitionError::Refused { name, .. }) = &refused else {
            panic!("{refused}")
        };
        assert_eq!(name, "widgets");
        // The kind is taken by another definition, so that this one never comes into force.
        env.install_yaml(WIDGETS).await.unwrap();
        let taken = WIDGETS.replace("widgets", "wadgets").replace("gadgets", "wedgets");
        let Err(unserved) = env.install_yaml(&taken).await else { panic!("it is served") };
        let InstallError::Definition(DefinitionError::NotServed { name, problem, .. }) = &unserved else {
            panic!("{unserved}")
        };
        assert_eq!(name, "wadgets.demo.example.com");
        assert!(problem.starts_with("it is not established (NamesAccepted is False: "), "{problem}");
    });
}

#[test]
fn a_definition_that_is_being_deleted_is_created_again_after_its_end() {
    TestEnv::builder().test(async |env| {
        env.install::<Website>().await.unwrap();
        let definitions = Api::<CustomResourceDefinition>::all(env.kube_client().clone());
        let first = definitions.get(Website::crd_name()).await.unwrap();
        // The definition stays until this object is gone.
        let websites = Api::<Website>::default_namespaced(env.kube_client().clone());
        let mut website = Website::new("blog", WebsiteSpec { host: "example.com".to_owned() });
        website.finalizers_mut().push("demo.example.com/wait".to_owned());
        websites.create(&PostParams::default(), &website).await.unwrap();
        definitions.delete(Website::crd_name(), &DeleteParams::default()).await.unwrap();

        let short = env.within(Duration::from_millis(500));
        let Err(late) = short.install::<Website>().await else { panic!("it is being deleted") };
        let InstallError::Definition(DefinitionError::NotServed { problem, .. }) = &late else {
            panic!("{late}")
        };
        assert_eq!(problem, "the one that exists is being deleted");

        let release = async {
            env.clock().sleep(Duration::from_secs(1)).await;
            let none = Patch::Merge(serde_json::json!({"metadata": {"finalizers": null}}));
            websites.patch("blog", &PatchParams::default(), &none).await.unwrap();
        };
        let (installed, ()) = tokio::join!(env.install::<Website>(), release);
        installed.unwrap();
        let second = definitions.get(Website::crd_name()).await.unwrap();
        assert_ne!(second.uid(), first.uid());
        assert_eq!(second.metadata.deletion_timestamp, None);
        websites.create(&PostParams::default(), &website).await.unwrap();
    });
}

#[test]
fn an_installation_that_always_conflicts_ends_at_its_limit() {
    TestEnv::builder().test(async |env| {
        env.install::<Website>().await.unwrap();
        env.faults().unwrap().on(Verb::Update).resource("customresourcedefinitions").conflict();
        let start = env.clock().now();
        let Err(error) = env.install::<LongWebsite>().await else { panic!("it is installed") };
        assert_eq!(env.clock().now().duration_since(start), Duration::from_secs(10));
        assert!(error.to_string().contains("is not served after 10s: "), "{error}");
    });
}

#[test]
fn declared_kinds_are_served_before_the_operator_starts() {
    TestEnv::test(async |env| {
        let operator = |manager: &Manager| {
            manager.crd::<Website>();
            manager
                .controller::<Website>()
                .register(async |_: Context, _: Arc<Website>| Ok::<_, Error>(Action::done()))
        };
        env.start(operator).await.unwrap();
        env.start(|manager: &Manager| {
            manager.crd::<LongWebsite>();
            Ok::<_, Error>(())
        })
        .await
        .map(drop)
        .expect_err("two different definitions of one name");
    });
}
