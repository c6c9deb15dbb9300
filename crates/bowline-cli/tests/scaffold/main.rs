//! Projects as their users make them. Four that cover the options in pairs build without warnings and pass their tests; that of
//! docs/quickstart.md also runs.

#![expect(clippy::unwrap_used, reason = "a test that fails may panic")]

mod cluster;
mod dev;
mod process;
mod quickstart;
mod terminal;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The options of a project, and what is created in it.
struct Scaffold {
    init: &'static [&'static str],
    /// Changes by the user after `init`.
    edit: fn(&Path),
    apis: &'static [&'static str],
}

const SCAFFOLDS: [Scaffold; 4] = [
    Scaffold { init: &[], edit: |_| (), apis: &[] },
    Scaffold {
        init: &["--license", "Apache-2.0", "--owner", "The Games Authors"],
        edit: |_| (),
        apis: &[
            "--group games --version v1 --kind Game",
            "--group games --version v2 --kind Game",
            "--group apps --version v1 --kind Deployment --no-resource",
            "--group games --version v1 --kind Game --no-resource --controller-name audit",
            "--group games --version v2 --kind Game --no-resource --controller-name audit-v2",
        ],
    },
    Scaffold {
        init: &[],
        edit: windows_line_ends,
        apis: &[
            "--group games --version v1alpha1 --kind ChessGame --cluster --no-controller --plural chessmatches",
            "--group games --version v1beta1 --kind ChessGame --controller",
            "--group chess --version v1 --kind ChessGame --controller-name chess",
            "--group games --version v1 --kind Type --namespaced --resource --controller",
            "--group networking --version v1 --kind NetworkPolicy --no-resource",
            "--group games --version v1 --kind Type --force",
        ],
    },
    Scaffold {
        init: &["--owner", "The Games Authors"],
        edit: operator_in_a_library,
        apis: &[
            "--group games --version v1 --kind AVeryLongNameOfAKindThatMakesLinesLong --cluster",
            "--group games --version v1 --kind Game --no-controller",
            "--group games --version v1 --kind Game --no-resource",
            "--group games --version v2 --kind Game --controller-name game-v2",
            "--group core --version v1 --kind ConfigMap --no-resource --controller-name maps",
            "--group chess --version v1 --kind Game --force",
        ],
    },
];

fn windows_line_ends(project: &Path) {
    let main = project.join("src/main.rs");
    let text = std::fs::read_to_string(&main).expect("it is there");
    std::fs::write(main, text.replace('\n', "\r\n")).expect("it can be written");
}

/// Moves the function `operator` and its test into `src/lib.rs`.
fn operator_in_a_library(project: &Path) {
    let path = project.join("src/main.rs");
    let text = std::fs::read_to_string(&path).expect("it is there");
    let (license, rest) = text.split_once("//! ").expect("it is in the template");
    let (start, end) = (
        rest.find("/// Adds").expect("it is in the template"),
        rest.find("#[tokio::main]").expect("it is in the template"),
    );
    let test = rest.find("\n#[cfg(test)]").expect("it is in the template");
    let operator = rest[start..end].replace("fn operator", "pub fn operator");
    let library =
        format!("{license}//! Mine.\n\nuse bowline::prelude::*;\n\n{operator}{}", &rest[test + 1..]);
    std::fs::write(project.join("src/lib.rs"), library).expect("it can be written");
    let main = format!("{license}//! {}use games::operator;\n\n{}", &rest[..start], &rest[end..test]);
    std::fs::write(path, main.replace("prelude::*;\n\nuse", "prelude::*;\nuse")).expect("it can be written");
}

#[test]
#[ignore = "run by `cargo test -p bowline-cli --test scaffold -- --ignored` in .ci/run"]
fn scaffolded_projects_build_and_pass_their_tests() {
    let _turn = turn();
    for (number, scaffold) in SCAFFOLDS.iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let init = ["init", "games", "--domain", "example.com", "--bowline"];
        let root = workspace();
        bowline(folder.path(), &[&init[..], &[root.to_str().unwrap()], scaffold.init].concat());
        let project = folder.path().join("games");
        (scaffold.edit)(&project);
        for api in scaffold.apis {
            let arguments: Vec<_> = ["create", "api"].into_iter().chain(api.split(' ')).collect();
            bowline(&project, &arguments);
        }
        // The versions that are downloaded already.
        std::fs::copy(root.join("Cargo.lock"), project.join("Cargo.lock")).unwrap();
        println!("== project {number}");
        let tested = cargo(&project, &["test"]);
        let (stdout, stderr) = (text(&tested.stdout), text(&tested.stderr));
        println!("{stdout}{stderr}");
        assert!(tested.status.success(), "project {number}");
        assert!(!stderr.contains("warning: `games`"), "project {number} has warnings");
        let tests = stdout.matches("... ok").count();
        assert_eq!(
            tests,
            scaffold.apis.iter().filter(|api| !api.contains("--force") || api.contains("chess")).count() + 1
        );
        if number == 1 {
            // Of one project: its commands for CI need another build of all dependencies.
            let checked = cargo(&project, &["clippy", "--all-targets"]);
            assert!(checked.status.success(), "{}", text(&checked.stderr));
            assert!(!text(&checked.stderr).contains("warning: `games`"), "{}", text(&checked.stderr));
        }
        let formatted = cargo(&project, &["fmt", "--check"]);
        assert!(formatted.status.success(), "project {number}: {}", text(&formatted.stdout));
    }
}

/// The root of this checkout.
fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("it is there")
}

fn bowline(folder: &Path, arguments: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_bowline"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("it starts");
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && stderr.is_empty(), "{arguments:?}: {stdout}{stderr}");
}

/// Runs cargo in a project. Without a network if everything is there.
fn cargo(project: &Path, arguments: &[&str]) -> Output {
    let run = |is_offline| cargo_command(project, arguments, is_offline).output().expect("it starts");
    let output = run(true);
    if needs_network(&output) { run(false) } else { output }
}

fn cargo_command(project: &Path, arguments: &[&str], is_offline: bool) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(project);
    set_environment(&mut command, is_offline);
    command
}

/// Sets the environment of a program that is or starts cargo: one target folder for all projects.
fn set_environment(command: &mut Command, is_offline: bool) {
    // Of this workspace: a user has none of them.
    command.env_remove("K8S_OPENAPI_ENABLED_VERSION").env_remove("RUSTC_WORKSPACE_WRAPPER");
    // Set by the cargo that runs this test. ring would be compiled again, and everything above it.
    let is_of_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_package(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command
        .env("CARGO_TARGET_DIR", workspace().join("target/scaffold"))
        .env("CARGO_NET_OFFLINE", is_offline.to_string());
}

/// Whether cargo failed because it had no network.
fn needs_network(output: &Output) -> bool {
    !output.status.success() && text(&output.stderr).contains("offline")
}

/// Each test takes its turn: at once, they would wait for each other's builds.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
