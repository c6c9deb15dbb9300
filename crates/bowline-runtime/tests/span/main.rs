//! Log lines are inside the spans that they belong to. Runs alone in its process, since tracing caches for all threads
//! whether a span is enabled.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_apiserver::ApiServer;
use bowline_clock::Simulation;
use bowline_runtime::{Action, Context, Manager, Request, Runnable};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, Client};

#[test]
fn what_is_logged_is_inside_of_the_span_that_was_given() {
    let logs = Logs::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_writer(logs.clone())
        .with_ansi(false)
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        Simulation::new(1).run(|clock| async move {
            let server = ApiServer::builder().clock(clock.clone()).build().unwrap();
            let client = Client::new(server, "default");
            let map =
                serde_json::from_value::<ConfigMap>(serde_json::json!({"metadata": {"name": "a"}})).unwrap();
            Api::default_namespaced(client.clone()).create(&PostParams::default(), &map).await.unwrap();
            let scope = clock.scope("test");
            let span = tracing::info_span!("operator", region = "north");
            let manager = Manager::builder(&scope.spawner(), client).span(span).build().unwrap();
            let reconcile = |_: Context, _: Request| async {
                tracing::info!("in a reconcile");
                Ok::<_, std::io::Error>(Action::done())
            };
            manager.controller::<ConfigMap>().register(reconcile).unwrap();
            let log = |_| async {
                tracing::info!("in a runnable");
                Ok::<_, std::io::Error>(())
            };
            manager.add(Runnable::new("talker", log)).unwrap();
            let start = {
                let manager = manager.clone();
                scope.spawn("start", async move { manager.run().await })
            };
            manager.wait_ready().await.unwrap();
            clock.sleep(Duration::from_secs(1)).await;
            manager.request_stop();
            start.await.unwrap().unwrap();
        });
    });
    let text = logs.text();
    let line = |said: &str| text.lines().find(|line| line.contains(said)).unwrap_or_default().to_owned();
    assert!(line("in a runnable").contains("region=\"north\""), "{text}");
    assert!(line("in a reconcile").contains("region=\"north\""), "{text}");
    assert!(line("in a reconcile").contains("controller=configmap"), "{text}");
    assert!(line("reconciled outcome=Done").contains("controller=configmap"), "{text}");
}

/// The captured log.
#[derive(Clone, Default)]
struct Logs(Arc<Mutex<Vec<u8>>>);

impl Logs {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("nobody panics with it")).into_owned()
    }
}

impl io::Write for Logs {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics with it").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> tracing_subscriber::fmt::MakeWriter<'a> for Logs {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
