//! `kube::runtime::Controller`, for a custom resource that owns configmaps.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, ResourceExt as _};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{Event, finalizer};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher;
use kube::{Client, CustomResource, CustomResourceExt as _, Resource as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{clusters, soon};

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "demo.example.com", version = "v1", kind = "Website", namespaced, status = "WebsiteStatus")]
struct WebsiteSpec {
    text: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
struct WebsiteStatus {
    shown: Option<String>,
}

const FINALIZER: &str = "demo.example.com/page";

/// Sees to it that there is a configmap with the text, and says so in the status.
async fn reconcile(
    site: Arc<Website>,
    client: Arc<Client>,
) -> Result<Action, kube::runtime::finalizer::Error<kube::Error>> {
    let client = (*client).clone();
    let namespace = site.namespace().unwrap_or_default();
    let sites: Api<Website> = Api::namespaced(client.clone(), &namespace);
    finalizer(&sites, FINALIZER, site, |event| async move {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
        let site = match event {
            Event::Apply(site) => site,
            Event::Cleanup(site) => {
                let _ = maps.delete(&site.name_any(), &DeleteParams::default()).await?;
                return Ok(Action::await_change());
            }
        };
        let name = site.name_any();
        let mut entry = maps.entry(&name).await?.or_insert(ConfigMap::default).and_modify(|map| {
            map.metadata.owner_references = Some(site.controller_owner_ref(&()).into_iter().collect());
            map.data.get_or_insert_default().insert("text".to_owned(), site.spec.text.clone());
        });
        entry.commit(&PostParams::default()).await.map_err(|error| match error {
            kube::api::entry::CommitError::Save(error) => error,
            kube::api::entry::CommitError::Validate(error) => kube::Error::Service(error.into()),
        })?;
        let sites: Api<Website> = Api::namespaced(client, &namespace);
        let status = Patch::Merge(json!({"status": {"shown": site.spec.text}}));
        sites.patch_status(&name, &PatchParams::default(), &status).await?;
        Ok(Action::requeue(Duration::from_secs(3600)))
    })
    .await
}

#[tokio::test]
async fn a_controller_keeps_what_it_owns() {
    for cluster in clusters().await {
        let client = cluster.client.clone();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        definitions.create(&PostParams::default(), &Website::crd()).await.expect("it is defined");
        let name = "websites.demo.example.com";
        let established = await_condition(definitions.clone(), name, conditions::is_crd_established());
        soon("the definition", Box::pin(established)).await.expect("it can be watched");

        let sites: Api<Website> = Api::default_namespaced(client.clone());
        let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
        let config = watcher::Config::default;
        let running = Controller::new(sites.clone(), config())
            .owns(maps.clone(), config())
            .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(10)), Arc::new(client))
            .for_each(|_| std::future::ready(()));
        let using = async {
            let site = Website::new("blog", WebsiteSpec { text: "hello".to_owned() });
            sites.create(&PostParams::default(), &site).await.expect("it is created");
            let is_shown = |site: Option<&Website>| {
                site.and_then(|site| site.status.as_ref()).is_some_and(|status| status.shown.is_some())
            };
            await_condition(sites.clone(), "blog", is_shown).await.expect("it can be watched");
            let map = maps.get("blog").await.expect("it is made");
            assert_eq!(map.data.and_then(|data| data.get("text").cloned()).as_deref(), Some("hello"));

            // It is deleted, and comes back.
            let gone = map.metadata.uid.expect("it has a uid");
            maps.delete("blog", &DeleteParams::default()).await.expect("it is deleted");
            let is_back =
                |map: Option<&ConfigMap>| map.is_some_and(|map| map.metadata.uid.as_ref() != Some(&gone));
            await_condition(maps.clone(), "blog", is_back).await.expect("it can be watched");

            // The text in the spec changes.
            let patch = Patch::Merge(json!({"spec": {"text": "bye"}}));
            sites.patch("blog", &PatchParams::default(), &patch).await.expect("it is patched");
            let has_changed = |map: Option<&ConfigMap>| {
                let data = map.and_then(|map| map.data.as_ref());
                data.and_then(|data| data.get("text")).is_some_and(|text| text == "bye")
            };
            await_condition(maps.clone(), "blog", has_changed).await.expect("it can be watched");

            // The finalizer holds the site until its page is gone.
            let deleted = sites.delete("blog", &DeleteParams::default()).await.expect("it is deleted");
            let uid = deleted.left().and_then(|site| site.metadata.uid).expect("it is still there");
            await_condition(sites.clone(), "blog", conditions::is_deleted(&uid))
                .await
                .expect("it can be watched");
            assert_eq!(maps.get_opt("blog").await.expect("it can be asked for"), None);
        };
        tokio::select! {
            biased;
            () = Box::pin(soon("all that the controller does", using)) => {}
            () = running => panic!("the controller ended"),
        }
    }
}
