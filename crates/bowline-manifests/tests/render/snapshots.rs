//! The whole output. After a change: `INSTA_UPDATE=always cargo test -p bowline-manifests`, and read the difference.

use std::fmt::Write as _;

use bowline_manifests::Manifest;

use crate::description::{file, render};

/// All files but the one that repeats them.
fn written(files: &[Manifest]) -> String {
    let mut all = String::new();
    for Manifest { path, text, .. } in files.iter().filter(|file| file.path != "install.yaml") {
        write!(all, "\n======== {path}\n{text}").expect("a string has room");
    }
    all
}

#[test]
fn an_operator_for_all_namespaces() {
    insta::assert_snapshot!(written(&render(|options| options)));
}

#[test]
fn an_operator_limited_to_namespaces() {
    let all = render(|options| options);
    let limited = render(|options| {
        let options = options.namespace("arcade").namespaces(["blue", "arcade"]).lease("arcade.example.com");
        options.replicas(3).args(["--log-format=json"])
    });
    let paths = |files: &[Manifest]| files.iter().map(|file| file.path.clone()).collect::<Vec<_>>();
    assert_eq!(paths(&all), paths(&limited));
    let changed = ["operator/deployment.yaml", "rbac/leader_election.yaml", "rbac/role.yaml"];
    let changed: Vec<_> = limited.into_iter().filter(|file| changed.contains(&file.path.as_str())).collect();
    insta::assert_snapshot!(written(&changed));
}

#[test]
fn the_alerts_name_the_lease() {
    let files = render(|options| options);
    assert!(file(&files, "monitoring/prometheus_rule.yaml").contains(r#"name="games.example.com""#));
    let files = render(|options| options.lease("other"));
    assert!(file(&files, "monitoring/prometheus_rule.yaml").contains(r#"name="other""#));
}
