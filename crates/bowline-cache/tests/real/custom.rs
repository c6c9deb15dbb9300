//! Custom kinds that are installed and removed while informers run.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::arm::Arm;

/// A custom kind of one test.
pub(crate) struct Custom {
    pub(crate) resource: ApiResource,
}

impl Custom {
    pub(crate) fn of(arm: &Arm) -> Self {
        let group = format!("{}.example.com", arm.namespace);
        Self { resource: ApiResource::from_gvk(&GroupVersionKind::gvk(&group, "v1", "Website")) }
    }

    /// Installs its CRD, and waits until it is served.
    pub(crate) async fn install(&self, arm: &Arm) {
        let ApiResource { group, version, kind, plural, .. } = &self.resource;
        let name = format!("{plural}.{group}");
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": name},
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": "website", "listKind": "WebsiteList"},
                "versions": [{"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }}}],
            },
        });
        let definition: CustomResourceDefinition = serde_json::from_value(definition).expect("a definition");
        let definitions = Api::<CustomResourceDefinition>::all(arm.client.clone());
        definitions.create(&PostParams::default(), &definition).await.expect("created");
        let established = async {
            loop {
                let definition = definitions.get(&name).await.expect("it is there");
                let conditions = definition.status.and_then(|status| status.conditions).unwrap_or_default();
                if conditions.iter().any(|is| is.type_ == "Established" && is.status == "True") {
                    return;
                }
                arm.clock.sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        arm.clock.timeout(crate::arm::PATIENCE, established).await.expect("it comes into force");
    }

    /// Creates an object, with retries: a CRD is served a moment after its condition.
    pub(crate) async fn create(&self, arm: &Arm, name: &str) {
        let object = DynamicObject::new(name, &self.resource).data(json!({"spec": {"host": "example.com"}}));
        let websites =
            Api::<DynamicObject>::namespaced_with(arm.client.clone(), &arm.namespace, &self.resource);
        let created = async {
            while let Err(error) = websites.create(&PostParams::default(), &object).await {
                assert!(matches!(&error, kube::Error::Api(status) if status.code == 404), "{error}");
                arm.clock.sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        arm.clock.timeout(crate::arm::PATIENCE, created).await.expect("it can be created");
    }
}

mod tests {
    use std::time::Duration;

    use bowline_cache::{CacheError, Kind, ListQuery, ReflectorPhase};

    use super::*;
    use crate::arm::{PATIENCE, names};

    #[test]
    fn an_informer_of_a_kind_that_is_installed_later_recovers() {
        Arm::run(|arm| async move {
            let custom = Custom::of(&arm);
            let cache = arm.cache();
            let websites = Kind::dynamic(custom.resource.clone(), true);
            let informer = cache.get_informer(&websites).expect("an informer");
            let maps = Kind::<k8s_openapi::api::core::v1::ConfigMap>::typed();
            let _maps = cache.get_informer(&maps).expect("an informer");
            cache.start();
            let error = cache.wait_for_sync(Duration::from_secs(2)).await.expect_err("there is no such kind");
            assert_eq!(error.missing().len(), 1, "only the missing kind is named: {error}");
            assert_eq!(error.missing()[0].kind, websites.to_string());
            assert_ne!(error.missing()[0].phase, ReflectorPhase::Stopped);
            assert!(error.to_string().contains("404"), "{error}");
            custom.install(&arm).await;
            custom.create(&arm, "a").await;
            cache.wait_for_sync(PATIENCE).await.expect("in sync");
            arm.until("a is held", || informer.indexer().len() == 1).await;
            let held = informer.indexer().list();
            assert_eq!(held[0].data["spec"]["host"], "example.com");
            assert_eq!(held[0].types.as_ref().expect("it says what it is").kind, "Website");
            custom.create(&arm, "b").await;
            arm.until("b is held", || informer.indexer().len() == 2).await;
        });
    }

    #[test]
    fn a_read_of_a_missing_kind_fails_with_the_reason() {
        Arm::run(|arm| async move {
            let custom = Custom::of(&arm);
            let cache = arm.cache_with(arm.options().sync_timeout(Duration::from_secs(2)));
            cache.start();
            let websites = Kind::dynamic(custom.resource.clone(), true);
            let error = cache.list(&websites, &ListQuery::new()).await.expect_err("there is no such kind");
            assert!(matches!(error, CacheError::NotSynced(_)), "{error:?}");
            let text = error.to_string();
            for part in ["not in sync after 2s", &websites.to_string(), &arm.namespace, "404"] {
                assert!(text.contains(part), "{text:?} has {part:?}");
            }
        });
    }

    #[test]
    fn a_waiting_read_continues_when_the_kind_is_installed() {
        Arm::run(|arm| async move {
            let custom = Custom::of(&arm);
            let cache = arm.cache_with(arm.options().sync_timeout(PATIENCE));
            cache.start();
            let websites = Kind::metadata_of(custom.resource.clone(), true);
            let query = ListQuery::new();
            let (found, ()) = tokio::join!(cache.list(&websites, &query), custom.install(&arm));
            assert_eq!(names(&found.expect("in sync")), [""; 0]);
            custom.create(&arm, "a").await;
            let informer = cache.get_informer(&websites).expect("an informer");
            arm.until("a is held", || informer.indexer().len() == 1).await;
            let found = cache.list(&websites, &query).await.expect("in sync");
            assert_eq!(found[0].name_any(), "a");
        });
    }
}
