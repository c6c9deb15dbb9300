//! A process with a working, a failing, a hanging and a forbidden part, and its debug page.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bowline_apiserver::faults::Faults;
use bowline_apiserver::{ApiServer, Verb};
use bowline_clock::{Clock, Scope, Simulation};
use bowline_machinery::Status;
use bowline_runtime::debug::DebugPage;
use bowline_runtime::{Action, Cluster, Context, Controller, Error, Request, Result};
use bytes::Bytes;
use http::Response;
use http::header::ACCEPT;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Client, Resource};
use serde::Deserialize;
use serde_json::{Value, json};

/// The error of a failing reconcile.
const ERROR: &str = "<script>alert('no luck')</script>\u{1b}[31m";

pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) page: DebugPage,
    pub(crate) cluster: Cluster,
    _scope: Scope,
}

/// Config maps whose values must be numbers: others cannot be decoded.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Numbers {
    metadata: ObjectMeta,
    #[expect(dead_code, reason = "it is only decoded")]
    data: Option<BTreeMap<String, u64>>,
}

impl Resource for Numbers {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        ConfigMap::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        ConfigMap::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        ConfigMap::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        ConfigMap::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl World {
    /// Runs a test in a simulation, 90 seconds after the start.
    pub(crate) fn run<F: Future<Output = ()>>(test: impl FnOnce(Self) -> F) {
        Simulation::new(1).run(|clock| async move {
            let faults = Faults::new();
            let forbidden = Status::failure(403, "Forbidden", "secrets is forbidden: you may not");
            faults.on([Verb::List, Verb::Watch]).resource("secrets").fail(forbidden);
            let server = ApiServer::builder().clock(clock.clone()).faults(&faults).build();
            let kube = Client::new(server.expect("it can be built"), "default");
            let scope = clock.scope("test");
            let cluster = Cluster::new(&scope.spawner(), kube).expect("it can be made");
            cluster.start();
            let maps = cluster.controller::<ConfigMap>().named("maps").concurrency(2).build(reconcile);
            let maps = maps.expect("it can be built");
            maps.start().expect("it can be started");
            maps.wait_ready().await.expect("it sees all that there is");
            let secrets = cluster.controller::<Secret>().named("secrets").sync_timeout(Duration::MAX).build(idle);
            let secrets = secrets.expect("it can be built");
            secrets.start().expect("it can be started");
            for name in ["works", "fails", "hangs"] {
                let map = json!({"metadata": {"name": name, "namespace": "default"}, "data": {"password": "hunter2"}});
                let map: ConfigMap = serde_json::from_value(map).expect("a config map");
                cluster.client().create(&map).await.expect("created");
            }
            clock.sleep(Duration::from_secs(90)).await;
            let controllers: Vec<Controller> = vec![secrets, maps];
            let clusters = vec![("main".to_owned(), cluster.clone())];
            let page = DebugPage::new(&clock)
                .clusters(move || clusters.clone())
                .controllers(move || controllers.clone());
            test(Self { clock, page, cluster, _scope: scope }).await;
        });
    }

    pub(crate) fn get(&self, query: &str, accept: &str) -> Response<Bytes> {
        let request = http::Request::get(format!("/debug{query}")).header(ACCEPT, accept);
        self.page.respond(&request.body(()).expect("a request").into_parts().0)
    }

    /// The page for a client without a preferred format.
    pub(crate) fn page(&self, query: &str) -> String {
        let response = self.get(query, "*/*");
        assert_eq!(response.status(), 200);
        String::from_utf8(response.into_body().into()).expect("text")
    }

    pub(crate) fn json(&self, query: &str) -> Value {
        let response = self.get(query, "application/json");
        assert_eq!(response.headers()["content-type"], "application/json");
        serde_json::from_slice(response.body()).expect("JSON")
    }
}

async fn reconcile(context: Context, map: Arc<ConfigMap>) -> Result<Action> {
    match map.metadata.name.as_deref() {
        Some("fails") => Err(Error::message(ERROR)),
        Some("hangs") => {
            context.clock().sleep(Duration::from_secs(599)).await;
            Ok(Action::done())
        }
        _ => Ok(Action::done()),
    }
}

async fn idle(_: Context, _: Request) -> Result<Action> {
    Ok(Action::done())
}
