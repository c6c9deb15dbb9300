//! The fault kit: every fault, every selection and the record, on simulated time.

mod events;
mod record;
mod requests;
mod selection;
mod stale;
mod watches;

use std::time::Duration;

use bowline_apiserver::ApiServer;
use bowline_apiserver::faults::Faults;
use bowline_clock::{Clock, Simulation};
use futures::{AsyncBufReadExt as _, Stream, StreamExt as _};
use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

const SECOND: Duration = Duration::from_secs(1);

/// A server with a fault kit, and a client of it.
struct World {
    clock: Clock,
    server: ApiServer,
    faults: Faults,
    client: Client,
}

/// How a request ended: with an HTTP status code, or `None` if the connection was cut.
type Code = Option<u16>;

impl World {
    fn run<F: Future<Output = ()>>(seed: u64, test: impl FnOnce(Self) -> F) {
        Self::run_with(seed, Faults::new(), test);
    }

    fn run_with<F: Future<Output = ()>>(seed: u64, faults: Faults, test: impl FnOnce(Self) -> F) {
        Simulation::new(seed).run(|clock| async move {
            let server = ApiServer::builder().clock(clock.clone()).faults(&faults).build();
            let server = server.expect("it can be built");
            let client = Client::new(server.clone(), "default");
            let test = test(Self { clock: clock.clone(), server, faults, client });
            // A request that nothing releases is a failure, not a test that never ends.
            clock.timeout(Duration::from_secs(86_400), test).await.expect("the test ends");
        });
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::default_namespaced(self.client.clone())
    }

    async fn create(&self, name: &str) -> Code {
        code(self.maps().create(&PostParams::default(), &map(name)).await)
    }

    /// Changes the data of a config map.
    async fn touch(&self, name: &str, value: &str) -> Code {
        let patch = Patch::Merge(json!({"data": {"value": value}}));
        code(self.maps().patch(name, &PatchParams::default(), &patch).await)
    }

    async fn delete(&self, name: &str) -> Code {
        code(self.maps().delete(name, &DeleteParams::default()).await)
    }

    async fn get(&self, name: &str) -> Code {
        code(self.maps().get(name).await)
    }

    /// The names of all config maps.
    async fn names(&self) -> Vec<String> {
        let list = self.maps().list(&ListParams::default()).await.expect("listed");
        list.items.iter().map(ResourceExt::name_any).collect()
    }

    /// Seconds since the start.
    fn seconds(&self) -> u64 {
        self.clock.now().duration_since(bowline_clock::Instant::ZERO).as_secs()
    }

    /// The events of a watch of config maps from now on, as `TYPE name`. An error is a cut connection.
    async fn watch(&self, query: &str) -> impl Stream<Item = Result<String, ()>> + Unpin + use<> {
        let path = format!(
            "/api/v1/namespaces/default/configmaps?watch=true&resourceVersion={}&{query}",
            self.server.revision()
        );
        let request = Request::get(path).body(Vec::new()).expect("a request");
        let lines = self.client.request_stream(request).await.expect("the watch begins").lines();
        lines.map(|line| {
            let event: Value = serde_json::from_str(&line.map_err(drop)?).expect("an event");
            let of =
                |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
            let code = event.pointer("/object/code").map(Value::to_string).unwrap_or_default();
            Ok(format!("{} {}{code}", of("/type"), of("/object/metadata/name")))
        })
    }

    /// The next event of a watch within this time.
    async fn next(
        &self,
        watch: &mut (impl Stream<Item = Result<String, ()>> + Unpin),
        limit: Duration,
    ) -> Next {
        match self.clock.timeout(limit, watch.next()).await {
            Ok(Some(Ok(event))) => Next::Event(event),
            Ok(Some(Err(()))) => Next::Cut,
            Ok(None) => Next::End,
            Err(_) => Next::Nothing,
        }
    }
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).expect("a config map")
}

fn code<T>(answer: kube::Result<T>) -> Code {
    match answer {
        Ok(_) => Some(200),
        Err(kube::Error::Api(status)) => Some(status.code),
        Err(_) => None,
    }
}

/// An event of a watch.
#[derive(Clone, Debug, PartialEq)]
enum Next {
    Event(String),
    /// The connection was cut.
    Cut,
    /// The watch ended in order.
    End,
    Nothing,
}

fn event(text: &str) -> Next {
    Next::Event(text.to_owned())
}
