//! `bowline install`, `run` and `uninstall` in the quickstart's project, on the server of `bowline plane` as the cluster.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use bowline::kube::api::{ApiResource, DynamicObject, PostParams};
use bowline::kube::{Api, Client};
use bowline::prelude::Clock;
use bowline::runtime::transport::{self, ConfigSearch, TransportOptions};
use rustix::process::{Pid, Signal, kill_process};

use crate::process::{eventually, run, succeed, tool};
use crate::text;

/// Time limit for a command, which may build the operator.
const COMMAND: Duration = Duration::from_secs(300);
/// Time limit for a state that the operator or a server is about to reach.
const STATE: Duration = Duration::from_secs(60);

pub(crate) async fn check(project: &Path) {
    println!("== bowline install, run and uninstall");
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let mut plane = tokio::process::Command::from(tool(project, &["plane", "--kubeconfig"]));
    let _plane = plane.arg(&kubeconfig).stdout(Stdio::null()).kill_on_drop(true).spawn().unwrap();
    let client = eventually(STATE, async || client(&kubeconfig).await).await.expect("the plane is there");

    let on_plane = |arguments: &[&str]| {
        let mut command = tool(project, arguments);
        command.env("KUBECONFIG", &kubeconfig);
        command
    };
    for _twice in 0..2 {
        assert_eq!(succeed(on_plane(&["install"]), COMMAND).await, "ats.cnat.example.com installed\n");
    }
    let json = succeed(on_plane(&["install", "--output", "json"]), COMMAND).await;
    assert_eq!(json, "[{\"name\":\"ats.cnat.example.com\",\"state\":\"installed\"}]\n");

    let sample = std::fs::read_to_string(project.join("samples/cnat_v1_at.yaml")).unwrap();
    let sample: DynamicObject = serde_saphyr::from_str(&sample).unwrap();
    let ats = Api::<DynamicObject>::namespaced_with(client, "default", &at());
    ats.create(&PostParams::default(), &sample).await.unwrap();
    check_run(on_plane(&["run", "--", "--health-probe-bind-address=0"]), &ats).await;

    let output = run(on_plane(&["uninstall"]), COMMAND).await;
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let expected = "error: 1 object would be deleted:\n  At default/at-sample\nhint: nothing was changed; use `--force` to \
                    delete the CRDs with these objects\n";
    assert!(errors.ends_with(expected), "{errors}");
    assert!(errors.contains("note: context bowline-"), "{errors}");
    ats.get("at-sample").await.expect("nothing was changed");

    let forced = succeed(on_plane(&["uninstall", "--force"]), COMMAND).await;
    assert_eq!(forced, "ats.cnat.example.com deleted\n");
    let gone = eventually(STATE, async || ats.get("at-sample").await.err()).await;
    assert!(gone.is_some(), "the objects go with the kind");
    let again = succeed(on_plane(&["uninstall"]), COMMAND).await;
    assert_eq!(again, "ats.cnat.example.com not installed\n");

    let output = run(on_plane(&["install", "--context", "nowhere"]), COMMAND).await;
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("has no context \"nowhere\""), "{errors}");
}

/// The operator reconciles on the cluster, and ends gracefully by a signal to the command.
async fn check_run(command: Command, ats: &Api<DynamicObject>) {
    let mut command = tokio::process::Command::from(command);
    let mut operator = command.stdout(Stdio::null()).kill_on_drop(true).spawn().unwrap();
    let has_phase = async || {
        let at = ats.get("at-sample").await.ok()?;
        at.data["status"]["phase"].as_str().map(str::to_owned)
    };
    assert!(eventually(COMMAND, has_phase).await.is_some(), "the operator has reconciled");
    let id = operator.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    kill_process(id.expect("it runs"), Signal::TERM).unwrap();
    let ended = Clock::real().timeout(STATE, operator.wait()).await.expect("it ends").unwrap();
    assert!(ended.success(), "{ended}");
}

fn at() -> ApiResource {
    ApiResource {
        group: "cnat.example.com".to_owned(),
        version: "v1".to_owned(),
        api_version: "cnat.example.com/v1".to_owned(),
        kind: "At".to_owned(),
        plural: "ats".to_owned(),
    }
}

/// A client of the plane, once its kubeconfig is there.
async fn client(kubeconfig: &Path) -> Option<Client> {
    let config = ConfigSearch::new().kubeconfig(kubeconfig).find().await.ok()?;
    transport::client(&config, &TransportOptions::new(&Clock::real())).ok()
}
