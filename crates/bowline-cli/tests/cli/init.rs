//! `bowline init`: the tree of a new project, and what is in the way of one.

use crate::folder::Folder;
use crate::result_of;

#[test]
fn init_help_has_examples() {
    insta::assert_snapshot!(result_of(&["init", "--help"]), @"
    exit code: 0
    --- stdout
    Make a project for an operator, in a new folder

    Usage: bowline init [OPTIONS] --domain <DOMAIN> <NAME>

    Arguments:
      <NAME>
              Name of the project: of its folder, its package and its program

    Options:
          --domain <DOMAIN>
              Domain with which its API groups end

          --license <SPDX>
              License of the project, as an expression of SPDX

              It stands in Cargo.toml and at the top of each Rust file.

          --owner <NAME>
              Owner of the copyright, named at the top of each Rust file

          --bowline <PATH>
              Root of a clone of Bowline whose crates to use

              Default: the one that this tool was built from, if it is still there; or else the
              registry, in the version of this tool.

      -h, --help
              Print help (see a summary with '-h')

    Examples:
      bowline init games --domain example.com
      bowline init games --domain example.com --license Apache-2.0 --owner 'The Games Authors'

      The folder must not exist, or be empty. The project builds, runs and passes its tests at once:
      add a kind with 'bowline create api'.
    --- stderr
    ");
}

#[test]
fn a_project_has_six_files() {
    let folder = Folder::new();
    insta::assert_snapshot!(folder.run(".", &["init", "games", "--domain", "example.com"]), @"
    exit code: 0
    --- stdout
    wrote games/Cargo.toml
    wrote games/src/main.rs
    wrote games/bowline.toml
    wrote games/README.md
    wrote games/.gitignore
    wrote games/.github/workflows/ci.yaml

    Next:
      cd games
      bowline create api --group GROUP --version v1 --kind KIND
      cargo test
      bowline dev
    --- stderr
    ");
    let tree = folder.tree();
    let files: Vec<_> =
        tree.iter().filter(|(_, content)| content.is_some()).map(|(path, _)| path.as_str()).collect();
    assert_eq!(files.len(), 6);
}

#[test]
fn the_package_builds_fast_and_alone() {
    let folder = Folder::with_project();
    let files = ["games/.github/workflows/ci.yaml", "games/.gitignore", "games/Cargo.toml"];
    insta::assert_snapshot!(folder.contents(&files), @r#"
    === games/.github/workflows/ci.yaml
    name: CI

    on:
      push:
        branches: [main]
      pull_request:

    permissions:
      contents: read

    jobs:
      check:
        runs-on: ubuntu-latest
        steps:
          - uses: actions/checkout@v4
          - run: rustup toolchain install stable --profile minimal --component clippy,rustfmt
          - run: rustup default stable
          - run: cargo fmt --check
          - run: cargo clippy --all-targets -- -D warnings
          - run: cargo test
    === games/.gitignore
    /target
    === games/Cargo.toml
    [package]
    name = "games"
    version = "0.1.0"
    edition = "2024"
    rust-version = "1.95"

    [features]
    # Without a cluster, the operator runs on an API server in its process. Build images with
    # --no-default-features.
    default = ["plane"]
    plane = ["bowline/plane"]

    [dependencies]
    bowline = { path = "[BOWLINE]/crates/bowline", features = ["args", "v1_36"] } # v1_36: version of Kubernetes' types
    tokio = { version = "1", features = ["macros", "rt-multi-thread"] }

    [dev-dependencies]
    bowline-testing = { path = "[BOWLINE]/crates/bowline-testing" }

    # Builds faster. Line tables keep backtraces readable.
    [profile.dev]
    debug = "line-tables-only"

    [profile.dev.package."*"]
    debug = false

    # Independent of a workspace in a folder above this one.
    [workspace]
    "#);
}

#[test]
fn the_program_has_its_own_lease_and_a_test() {
    let folder = Folder::with_project();
    let files = ["games/README.md", "games/bowline.toml", "games/src/main.rs"];
    insta::assert_snapshot!(folder.contents(&files), @r#"
    === games/README.md
    # games

    An operator for Kubernetes, written with Bowline. Its API groups end with `example.com`.

    | command | what it does |
    |---|---|
    | `bowline create api --group GROUP --version v1 --kind KIND` | adds a kind with its controller |
    | `cargo test` | runs the tests; they need no cluster |
    | `cargo run` | runs the operator on an API server in its process, and prints a kubeconfig |
    | `cargo run -- --apply samples/FILE.yaml` | the same, and creates a sample |
    | `bowline dev` | runs it there while you work, again after each change |
    | `cargo run -- --kubeconfig` | runs the operator on the cluster of the current context |
    | `cargo run -- --help` | lists the flags of the operator |
    | `bowline manifests` | writes the manifests for a cluster |
    === games/bowline.toml
    # Settings of this project for `bowline`. `args`, `image` and `namespace` of the operator in a
    # cluster are optional.
    [operator]
    name = "games"
    domain = "example.com"
    === games/src/main.rs
    //! The operator `games`.

    use bowline::args::args_with_lease;
    use bowline::prelude::*;

    /// Adds the controllers to the manager.
    fn operator(_manager: &Manager) -> Result<()> {
        Ok(())
    }

    #[tokio::main]
    async fn main() -> Result<()> {
        let args = args_with_lease::<()>("games.example.com");
        let manager = args.manager().await?;
        operator(&manager)?;
        Ok(manager.run().await?)
    }

    #[cfg(test)]
    mod tests {
        use bowline_testing::TestEnv;

        use super::*;

        #[bowline::test]
        async fn the_operator_starts(env: TestEnv) -> Result<()> {
            env.start(operator).await?;
            env.assert_no_failures();
            Ok(())
        }
    }
    "#);
}

#[test]
fn a_license_and_its_owner_are_at_the_top_of_each_file() {
    let folder = Folder::new();
    let arguments = [
        "init",
        "games",
        "--domain",
        "example.com",
        "--license",
        "Apache-2.0 OR MIT",
        "--owner",
        "The \"Games\" Authors",
    ];
    folder.succeed(".", &arguments);
    assert!(folder.read("games/Cargo.toml").contains("\nlicense = \"Apache-2.0 OR MIT\"\n"));
    let head = "// Copyright The \"Games\" Authors\n// SPDX-License-Identifier: Apache-2.0 OR MIT\n\n//! ";
    assert!(folder.read("games/src/main.rs").starts_with(head));
    folder.created("--group games --version v1 --kind Game");
    assert!(folder.read("games/src/game.rs").starts_with(head));
}

#[test]
fn the_crates_of_a_named_checkout_are_used() {
    let folder = Folder::new();
    for name in ["bowline", "bowline-testing"] {
        std::fs::create_dir_all(folder.path(&format!("clone/crates/{name}"))).unwrap();
        folder.write(&format!("clone/crates/{name}/Cargo.toml"), "");
    }
    folder.succeed(".", &["init", "games", "--domain", "example.com", "--bowline", "clone"]);
    let lines = folder.contents(&["games/Cargo.toml"]);
    let lines: Vec<_> = lines.lines().filter(|line| line.contains("path = ")).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    bowline = { path = "[FOLDER]/clone/crates/bowline", features = ["args", "v1_36"] } # v1_36: version of Kubernetes' types
    bowline-testing = { path = "[FOLDER]/clone/crates/bowline-testing" }
    "#);
}

#[test]
fn a_folder_that_is_no_checkout_is_refused() {
    let folder = Folder::new();
    let arguments = ["init", "games", "--domain", "example.com", "--bowline", "."];
    insta::assert_snapshot!(folder.run(".", &arguments), @"
    exit code: 1
    --- stdout
    --- stderr
    error: there is no checkout of Bowline in .: `crates/bowline/Cargo.toml` is missing
    hint: name the root of a clone, or leave out `--bowline` to use the registry
    ");
    assert!(folder.tree().is_empty());
}

#[test]
fn a_folder_with_anything_in_it_is_left_alone() {
    let folder = Folder::with_project();
    folder.write("games/src/main.rs", "mine");
    let before = folder.tree();
    insta::assert_snapshot!(folder.run(".", &["init", "games", "--domain", "example.com"]), @"
    exit code: 1
    --- stdout
    --- stderr
    error: games exists already, and is not an empty folder
    hint: choose another name, or move it away
    ");
    folder.assert_unchanged(&before);
}

#[test]
fn an_empty_folder_is_used_and_a_file_is_not() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("games")).unwrap();
    folder.succeed(".", &["init", "games", "--domain", "example.com"]);
    folder.write("chess", "mine");
    let before = folder.tree();
    insta::assert_snapshot!(folder.run(".", &["init", "chess", "--domain", "example.com"]), @"
    exit code: 1
    --- stdout
    --- stderr
    error: chess exists already, and is not an empty folder
    hint: choose another name, or move it away
    ");
    folder.assert_unchanged(&before);
}

#[test]
fn bad_names_are_usage_errors_that_say_the_rule() {
    let folder = Folder::new();
    let results = [
        &["init"][..],
        &["init", "Games", "--domain", "example.com"],
        &["init", "../games", "--domain", "example.com"],
        &["init", "async", "--domain", "example.com"],
        &["init", "test", "--domain", "example.com"],
        &["init", "bowline", "--domain", "example.com"],
        &["init", "deps", "--domain", "example.com"],
        &["init", "games", "--domain", "Example"],
        &["init", "games", "--domain", "games.k8s.io"],
        &["init", "games", "--domain", "example.com", "--license", "MIT\n"],
        &["init", "games", "--domain", "example.com", "--owner", " "],
    ]
    .map(|arguments| folder.run(".", arguments));
    assert!(results.iter().all(|result| result.starts_with("exit code: 2\n--- stdout\n--- stderr\n")));
    let messages: Vec<_> = results.iter().filter_map(|result| result.lines().nth(3)).collect();
    insta::assert_snapshot!(messages.join("\n"), @"
    error: the following required arguments were not provided:
    error: invalid value 'Games' for '<NAME>': use lower-case letters, digits and '-', a letter first, at most 63 characters: chess-games
    error: invalid value '../games' for '<NAME>': use lower-case letters, digits and '-', a letter first, at most 63 characters: chess-games
    error: invalid value 'async' for '<NAME>': it is a keyword of Rust
    error: invalid value 'test' for '<NAME>': it is the name of a crate of Rust itself
    error: invalid value 'bowline' for '<NAME>': it is the name of a crate that the project uses
    error: invalid value 'deps' for '<NAME>': cargo needs this name for a folder of its own
    error: invalid value 'Example' for '--domain <DOMAIN>': use lower-case letters, digits and '-', in parts with dots between them, at most 253 characters: example.com
    error: invalid value 'games.k8s.io' for '--domain <DOMAIN>': it is reserved for Kubernetes itself: use a domain of your own
    error: invalid value 'MIT
    error: invalid value ' ' for '--owner <NAME>': the owner is one line of text
    ");
    assert!(folder.tree().is_empty());
}

#[test]
fn a_lease_that_would_be_too_long_is_refused() {
    let folder = Folder::new();
    let domain = ["a"; 125].join(".");
    let result = folder.run(".", &["init", "games", "--domain", &domain]).replace(&domain, "[DOMAIN]");
    insta::assert_snapshot!(result, @"
    exit code: 1
    --- stdout
    --- stderr
    error: `games.[DOMAIN]` cannot be the name of a lease: use lower-case letters, digits and '-', in parts with dots between them, at most 253 characters: example.com
    hint: choose a shorter name or domain
    ");
    assert!(folder.tree().is_empty());
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_leaves_nothing() {
    let folder = Folder::new();
    let tool = folder.command(".", &[]).get_program().to_owned();
    // A tmpfs that only this command sees, with room for two files.
    let script = "mount -t tmpfs -o size=8k tmpfs \"$1\" && cd \"$1\" || { echo skipped; exit; }
                  \"$0\" init games --domain example.com; echo \"exit code: $?\"; ls -A";
    let mut command = std::process::Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", script]).arg(tool).arg(folder.path("."));
    let output = command.output();
    let Some(output) = output.ok().filter(|output| output.stdout.starts_with(b"exit code")) else {
        println!("skipped: `unshare` cannot mount a file system here");
        return;
    };
    let (stdout, stderr) = (crate::text(&output.stdout), crate::text(&output.stderr));
    insta::assert_snapshot!(format!("{stdout}{stderr}"), @"
    exit code: 1
    error: cannot write games/bowline.toml: No space left on device (os error 28); nothing was changed
    hint: make room on the disk
    ");
}
