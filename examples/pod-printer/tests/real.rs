//! The controller on a real kube-apiserver, when `BOWLINE_REAL_KUBECONFIG` says where one is (`cargo xtask real test`).

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline::clock::Clock;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::PostParams;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, ResourceExt as _};
use pod_printer::{Controller, Demo, Print};
use serde_json::json;

/// How long a line may take. None takes as long unless something hangs.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn it_prints_what_happens_on_a_real_server() {
    let Some(path) = std::env::var_os("BOWLINE_REAL_KUBECONFIG") else {
        eprintln!("skipped: BOWLINE_REAL_KUBECONFIG is not set");
        return;
    };
    let kubeconfig = Kubeconfig::read_from(path).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let client = Client::try_from(config).unwrap();
    let namespace = serde_json::from_value(json!({"metadata": {"generateName": "pod-printer-"}})).unwrap();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = namespaces.create(&PostParams::default(), &namespace).await.unwrap().name_any();

    let clock = Clock::real();
    let lines = Arc::new(Mutex::new(Vec::<String>::new()));
    let paper = lines.clone();
    let print: Print = Arc::new(move |line| {
        paper.lock().unwrap().push(line.to_owned());
        Ok(())
    });
    let demo = Demo::new(clock.clone(), client.clone(), &namespace, print);

    let scope = clock.scope("test");
    let controller = Controller::new(&scope.spawner(), client, &namespace, demo.output()).unwrap();
    let gone = json!({"metadata": {"name": "mypod", "namespace": namespace}});
    controller.remember(serde_json::from_value::<Pod>(gone).unwrap());

    let is_printed = |line: &str| lines.lock().unwrap().iter().any(|printed| printed == line);
    let last = format!("Pod {namespace}/unprintable does not exist anymore");
    let seen = async {
        demo.play().await.unwrap();
        while !is_printed(&last) {
            clock.sleep(Duration::from_millis(20)).await;
        }
    };
    let stop = async { clock.timeout(PATIENCE, seen).await.unwrap() };
    Box::pin(controller.run(NonZeroUsize::MIN, stop)).await.unwrap();
    for line in [
        "Sync/Add/Update for Pod web-1",
        "Sync/Add/Update for Pod web-2",
        &format!("Pod {namespace}/mypod does not exist anymore"),
        &format!("Pod {namespace}/web-1 does not exist anymore"),
        &format!("Pod {namespace}/web-2 does not exist anymore"),
    ] {
        assert!(is_printed(line), "{line} is missing: {lines:?}");
    }
    assert!(!is_printed("Sync/Add/Update for Pod unprintable"));
}
