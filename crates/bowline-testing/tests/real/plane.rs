//! Start and stop of a control plane.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use bowline_testing::{Binaries, RealControlPlane, StartError};

use crate::stand_in::{LIMIT, StandIns, runs};

async fn started(stand_ins: &StandIns) -> RealControlPlane {
    stand_ins.start(stand_ins.builder()).await.expect("the stand-ins are ready")
}

#[tokio::test]
async fn stop_ends_exactly_the_processes_of_the_plane() {
    let stand_ins = StandIns::new("stays", "stays");
    // Without this, a failed test would leave it behind with the tests' output open.
    let mut bystander =
        Command::new("sleep").arg("600").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let plane = started(&stand_ins).await;
    let processes: Vec<_> = plane.processes().collect();
    assert_eq!(processes.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["etcd", "kube-apiserver"]);
    assert!(processes.iter().all(|(_, pid)| runs(*pid)));

    plane.stop().await.unwrap();
    assert!(!processes.iter().any(|(_, pid)| runs(*pid)));
    assert_eq!(bystander.try_wait().unwrap(), None);
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[tokio::test]
async fn an_api_server_that_is_restarted_is_another_process_and_etcd_goes_on() {
    let stand_ins = StandIns::new("stays", "stays");
    let policy = "an audit policy";
    let mut plane = stand_ins.start(stand_ins.builder().audit_policy(policy)).await.unwrap();
    let before: Vec<_> = plane.processes().collect();
    plane.restart_api_server().await.unwrap();
    let after: Vec<_> = plane.processes().collect();
    let (old, new) = (before[1].1, after[1].1);
    assert_eq!((after[0], after[1].0), (before[0], "kube-apiserver"));
    assert_ne!(old, new);
    assert_eq!((runs(old), runs(new)), (false, true));
    // Both get the same flags.
    let flag = format!("--audit-log-path={}", plane.audit_log().display());
    let same_flags = async {
        while stand_ins.log("kube-apiserver").iter().filter(|line| **line == flag).count() < 2 {
            stand_ins.clock.sleep(Duration::from_millis(5)).await;
        }
    };
    stand_ins.clock.timeout(LIMIT, same_flags).await.expect("the second has the flags of the first");
    assert_eq!(std::fs::read_to_string(plane.directory().join("audit-policy")).unwrap(), policy);
    plane.stop().await.unwrap();
    assert!(!runs(new));
}

#[tokio::test]
async fn a_dropped_plane_leaves_no_process() {
    let stand_ins = StandIns::new("stays", "stays");
    let plane = started(&stand_ins).await;
    let processes: Vec<_> = plane.processes().collect();
    drop(plane);
    assert!(!processes.iter().any(|(_, pid)| runs(*pid)));
}

#[tokio::test]
async fn readiness_is_asked_for_over_tls_by_the_administrator() {
    let stand_ins = StandIns::new("stays", "stays");
    let plane = started(&stand_ins).await;
    let requests = stand_ins.requests.lock().unwrap().clone();
    assert!(requests[0].starts_with("GET /readyz HTTP/1.0\r\n"), "{requests:?}");
    assert!(requests[0].contains(&format!("Bearer {}\r\n", plane.admin_token().expose())));
    let token = std::fs::read_to_string(plane.directory().join("admin.token")).unwrap();
    assert_eq!(token, plane.admin_token().expose());
}

#[tokio::test]
async fn a_process_that_ends_early_is_reported_with_its_log_and_the_others_end() {
    for (etcd, kube_apiserver, culprit, other) in
        [("fails", "stays", "etcd", "kube-apiserver"), ("stays", "fails", "kube-apiserver", "etcd")]
    {
        let stand_ins = StandIns::new(etcd, kube_apiserver);
        let error = stand_ins.builder().start().await.unwrap_err();
        let StartError::Exited { program, status, log_tail } = &error else { panic!("{error}") };
        assert_eq!((*program, status.code()), (culprit, Some(3)));
        assert!(log_tail.ends_with("error: no luck today"), "{log_tail}");
        assert!(error.to_string().contains("error: no luck today"), "{error}");
        // It may have been killed before it could write.
        let left = stand_ins.log(other).iter().find_map(|line| line.strip_prefix("pid=")?.parse().ok());
        assert!(!left.is_some_and(runs), "{other}");
    }
}

#[tokio::test]
async fn a_plane_that_is_not_ready_in_time_is_given_up_with_the_reason() {
    let stand_ins = StandIns::new("stays", "stays");
    // Its port is closed.
    let start = stand_ins.builder().ready_timeout(Duration::from_millis(1)).start();
    let error = stand_ins.clock.timeout(LIMIT, start).await.expect("it is given up").unwrap_err();
    let StartError::NotReady { program, path, said, .. } = &error else { panic!("{error}") };
    assert_eq!((*program, path.as_str()), ("kube-apiserver", "/readyz"));
    assert!(said.contains("refused"), "{said}");
    let left = stand_ins.log("etcd").iter().find_map(|line| line.strip_prefix("pid=")?.parse().ok());
    assert!(!left.is_some_and(runs));
}

#[tokio::test]
async fn a_server_that_says_that_it_is_not_ready_is_believed_and_nothing_is_left_when_nobody_waits_any_more()
{
    let stand_ins = StandIns::new("stays", "stays");
    let start = stand_ins.builder().start();
    let asked = async {
        stand_ins.serve("500 Internal Server Error").await;
        while stand_ins.requests.lock().unwrap().len() < 3 {
            stand_ins.clock.sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        biased;
        plane = start => panic!("{plane:?}"),
        () = asked => {}
    }
    for program in ["etcd", "kube-apiserver"] {
        let pid = stand_ins.logged(program, "pid=").await.parse().unwrap();
        assert!(!runs(pid), "{program}");
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let stand_ins = StandIns::new("stays", "missing");
    let error = stand_ins.builder().start().await.unwrap_err();
    assert!(matches!(&error, StartError::Spawn { program: Binaries::KUBE_APISERVER, .. }), "{error}");
}

#[tokio::test]
async fn a_port_that_somebody_took_meanwhile_is_chosen_anew() {
    let stand_ins = StandIns::new("finds-its-port-taken-once", "stays");
    // The first API server may have logged its port before it was killed. The logs are removed before the second start.
    let serve = async {
        while !stand_ins.log("etcd").is_empty() || !stand_ins.plane().join("tried-before").exists() {
            stand_ins.clock.sleep(Duration::from_millis(5)).await;
        }
        stand_ins.serve("200 OK").await;
        Ok(())
    };
    let (plane, ()) = tokio::try_join!(stand_ins.builder().start(), serve).unwrap();
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_directory_in_use_is_refused() {
    let stand_ins = StandIns::new("stays", "stays");
    std::fs::create_dir(stand_ins.plane()).unwrap();
    std::fs::write(stand_ins.plane().join("mine"), "").unwrap();
    let error = stand_ins.builder().start().await.unwrap_err();
    assert!(error.to_string().contains("it must be empty"), "{error}");
}

#[tokio::test]
async fn the_controller_manager_is_waited_for_by_what_it_does() {
    let stand_ins = StandIns::new("stays", "stays");
    let plane = stand_ins.start(stand_ins.builder().controller_manager(true)).await.unwrap();
    let names: Vec<_> = plane.processes().map(|(name, _)| name).collect();
    assert_eq!(names, ["etcd", "kube-apiserver", "kube-controller-manager"]);
    let requests = stand_ins.requests.lock().unwrap().clone();
    let account = "GET /api/v1/namespaces/default/serviceaccounts/default ";
    assert!(requests.last().unwrap().starts_with(account), "{requests:?}");
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn no_file_of_the_plane_can_be_read_by_others() {
    let stand_ins = StandIns::new("stays", "stays");
    let plane = started(&stand_ins).await;
    let mut files = 0;
    for entry in std::fs::read_dir(plane.directory()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(format!("{mode:o}"), "600", "{:?}", entry.file_name());
        files += 1;
    }
    assert!(files > 10, "{files}");
    for name in ["kubeconfig", "ca.key", "service-account.key", "admin.token", "etcd.log"] {
        assert!(plane.directory().join(name).exists(), "{name}");
    }
    let mode = std::fs::metadata(plane.directory()).unwrap().permissions().mode();
    assert_eq!(format!("{:o}", mode & 0o777), "700");
}

#[tokio::test]
async fn the_kubeconfig_says_where_the_server_is_and_who_one_is() {
    let stand_ins = StandIns::new("stays", "stays");
    let plane = started(&stand_ins).await;
    let config: serde_json::Value =
        serde_json::from_slice(&std::fs::read(plane.kubeconfig()).unwrap()).unwrap();
    let port = stand_ins.logged("kube-apiserver", "--secure-port=").await;
    assert_eq!(plane.server(), format!("https://127.0.0.1:{port}"));
    assert_eq!(config["clusters"][0]["cluster"]["server"], plane.server());
    assert_eq!(config["contexts"][0]["name"], config["current-context"]);
    assert!(config["users"][0]["user"]["client-key-data"].is_string());
    assert!(plane.admin_certificate().starts_with("-----BEGIN CERTIFICATE-----"));
    assert!(Path::new(plane.directory()).is_absolute());
}
