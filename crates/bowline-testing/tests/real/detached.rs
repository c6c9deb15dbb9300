//! Planes that outlive the process that started them.
#![cfg(target_os = "linux")]

use std::time::Duration;

use bowline_testing::{DetachedControlPlane, DetachedError};

use crate::stand_in::{LIMIT, StandIns, runs};

/// A detached plane and the ids of its processes.
async fn detached(stand_ins: &StandIns) -> (DetachedControlPlane, Vec<u32>) {
    let plane = stand_ins.start(stand_ins.builder()).await.expect("the stand-ins are ready");
    let pids: Vec<_> = plane.processes().map(|(_, pid)| pid).collect();
    // A script becomes another program at its end; a real program is itself long before the plane is ready.
    let is_asleep =
        |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n");
    let asleep = async {
        while !pids.iter().all(is_asleep) {
            stand_ins.clock.sleep(Duration::from_millis(5)).await;
        }
    };
    stand_ins.clock.timeout(LIMIT, asleep).await.expect("the stand-ins stay");
    (plane.detach().expect("there is /proc"), pids)
}

#[tokio::test]
async fn a_detached_plane_runs_on_and_is_stopped_by_its_record() {
    let stand_ins = StandIns::new("stays", "stays");
    let (plane, pids) = detached(&stand_ins).await;
    let server = plane.server().to_owned();
    drop(plane);
    assert!(pids.iter().all(|pid| runs(*pid)));

    let plane = DetachedControlPlane::load(stand_ins.plane()).unwrap().expect("a record");
    assert_eq!(plane.server(), server);
    assert_eq!(plane.programs().collect::<Vec<_>>(), ["etcd", "kube-apiserver"]);
    assert!(plane.missing().unwrap().is_empty());
    assert!(plane.kubeconfig().exists());
    let stopped = plane.stop(&stand_ins.clock, LIMIT).await.unwrap();
    assert_eq!(stopped.ended, ["kube-apiserver", "etcd"]);
    assert!(stopped.missing.is_empty());
    assert!(DetachedControlPlane::load(stand_ins.plane()).unwrap().is_none());
}

#[tokio::test]
async fn a_process_that_got_a_recorded_id_later_is_left_alone() {
    let stand_ins = StandIns::new("stays", "stays");
    let (plane, pids) = detached(&stand_ins).await;
    drop(plane);
    // Now the record tells of processes that started before those that have the ids.
    let path = stand_ins.plane().join("plane.json");
    let genuine = std::fs::read(&path).unwrap();
    let mut record: serde_json::Value = serde_json::from_slice(&genuine).unwrap();
    for process in record["processes"].as_array_mut().unwrap() {
        process["started"] = (process["started"].as_u64().unwrap() - 1).into();
    }
    std::fs::write(&path, record.to_string()).unwrap();

    let plane = DetachedControlPlane::load(stand_ins.plane()).unwrap().unwrap();
    assert_eq!(plane.missing().unwrap(), ["etcd", "kube-apiserver"]);
    let stopped = plane.stop(&stand_ins.clock, LIMIT).await.unwrap();
    assert!(stopped.ended.is_empty());
    assert_eq!(stopped.missing, ["kube-apiserver", "etcd"]);
    assert!(pids.iter().all(|pid| runs(*pid)));

    std::fs::write(&path, genuine).unwrap();
    let plane = DetachedControlPlane::load(stand_ins.plane()).unwrap().unwrap();
    assert_eq!(plane.stop(&stand_ins.clock, LIMIT).await.unwrap().ended.len(), 2);
}

#[tokio::test]
async fn a_process_that_crashed_is_reported_missing() {
    let stand_ins = StandIns::new("stays", "stays");
    let (plane, pids) = detached(&stand_ins).await;
    std::process::Command::new("kill").args(["-KILL", &pids[0].to_string()]).status().unwrap();
    let crashed = async {
        while plane.missing().unwrap() != ["etcd"] {
            stand_ins.clock.sleep(Duration::from_millis(5)).await;
        }
    };
    stand_ins.clock.timeout(LIMIT, crashed).await.unwrap();
    let stopped = plane.stop(&stand_ins.clock, LIMIT).await.unwrap();
    assert_eq!(
        (stopped.ended, stopped.missing),
        (vec!["kube-apiserver".to_owned()], vec!["etcd".to_owned()])
    );
}

#[test]
fn no_record_is_no_plane_and_a_broken_one_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    assert!(DetachedControlPlane::load(directory.path()).unwrap().is_none());
    std::fs::write(directory.path().join("plane.json"), "{").unwrap();
    let error = DetachedControlPlane::load(directory.path()).unwrap_err();
    assert!(matches!(error, DetachedError::Record { .. }), "{error}");
}
