//! `greeting describe`: what the program declares, without a connection.

use std::process::Command;

use bowline::runtime::OperatorDescription;

#[test]
fn the_program_describes_its_kinds_and_permissions_without_a_connection() {
    let output = Command::new(env!("CARGO_BIN_EXE_greeting"))
        .args(["--namespace=a,b", "--leader-election-id=greetings", "--kubeconfig=/nowhere", "describe"])
        .env("KUBECONFIG", "/nowhere")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let described: OperatorDescription = bowline::serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(described.crds[0].metadata.name.as_deref(), Some("greetings.demo.example.com"));
    assert_eq!(
        (described.namespaces, described.lease.as_deref()),
        (vec!["a".into(), "b".into()], Some("greetings"))
    );
    let permissions: Vec<_> = described.permissions.iter().map(ToString::to_string).collect();
    assert_eq!(
        permissions,
        [
            "create, patch, update configmaps",
            "get, list, watch configmaps",
            "get, list, watch greetings.demo.example.com",
            "update greetings.demo.example.com/finalizers",
            "patch, update greetings.demo.example.com/status",
            "create, patch events.events.k8s.io",
        ]
    );
}
