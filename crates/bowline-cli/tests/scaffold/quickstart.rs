//! Runs docs/quickstart.md: its commands and files, in their order, up to those for a cluster.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::process::{run, succeed, tool};
use crate::{cargo_command, cluster, dev, needs_network, terminal, text, turn, workspace};

/// Time limit for a command that may build all dependencies.
const BUILD: Duration = Duration::from_secs(900);

/// A step of the walkthrough.
#[derive(Debug, PartialEq)]
enum Step<'a> {
    Command(Vec<&'a str>),
    File { path: &'a str, content: String },
}

#[test]
#[ignore = "run by `cargo test -p bowline-cli --test scaffold -- --ignored` in .ci/run"]
fn the_quickstart_leads_to_a_running_operator_with_its_manifests() {
    let _turn = turn();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(walk());
}

async fn walk() {
    let document = std::fs::read_to_string(workspace().join("docs/quickstart.md")).unwrap();
    let (walkthrough, _) = document.split_once("\n## On a cluster").expect("it has this heading");
    let steps = steps(walkthrough);
    let is_install =
        |step: &Step<'_>| matches!(step, Step::Command(words) if words.starts_with(&["cargo", "install"]));
    // The tool of this checkout is tested, and not one that is installed.
    let steps: Vec<_> = steps.into_iter().filter(|step| !is_install(step)).collect();
    let commands = steps.iter().filter(|step| matches!(step, Step::Command(_))).count();
    assert!(commands < 10, "{commands} commands");

    let folder = tempfile::tempdir().unwrap();
    let mut current = folder.path().to_owned();
    for step in &steps {
        println!("== {}", shown(step));
        match step {
            Step::File { path, content } => {
                let path = current.join(path);
                assert!(path.is_file(), "no earlier step writes {}", path.display());
                std::fs::write(path, content).unwrap();
            }
            Step::Command(words) => match words[..] {
                ["cd", name] => current.push(name),
                ["cargo", ..] => test(&current, &words[1..]).await,
                ["bowline", "dev"] => {
                    let kubectl = steps.iter().filter_map(kubectl_arguments).collect::<Vec<_>>();
                    dev::check(&current, &kubectl).await;
                    terminal::check(&current).await;
                }
                ["bowline", ..] => {
                    succeed(tool(&current, &words[1..]), BUILD).await;
                }
                ["kubectl", ..] => {} // It has run beside `bowline dev`.
                _ => panic!("{words:?}"),
            },
        }
    }
    check_manifests(&current).await;
    cluster::check(&current).await;
}

fn shown(step: &Step<'_>) -> String {
    match step {
        Step::Command(words) => words.join(" "),
        Step::File { path, .. } => format!("write {path}"),
    }
}

fn kubectl_arguments<'a>(step: &'a Step<'_>) -> Option<&'a [&'a str]> {
    match step {
        Step::Command(words) if words[0] == "kubectl" => Some(&words[1..]),
        _ => None,
    }
}

/// Runs `cargo test`, and looks at the format of the sources.
async fn test(project: &Path, arguments: &[&str]) {
    // The versions that are downloaded already.
    std::fs::copy(workspace().join("Cargo.lock"), project.join("Cargo.lock")).unwrap();
    let mut output = run(cargo_command(project, arguments, true), BUILD).await;
    if needs_network(&output) {
        output = run(cargo_command(project, arguments, false), BUILD).await;
    }
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    println!("{stdout}{stderr}");
    assert!(output.status.success());
    assert!(!stderr.contains("warning: `cnat`"), "the project has warnings");
    assert!(stdout.contains("test result: ok. 2 passed"), "its tests are found");
    succeed(cargo_command(project, &["fmt", "--check"], true), BUILD).await;
}

/// A second run writes nothing, and `--check` finds a file that was changed.
async fn check_manifests(project: &Path) {
    let manifests = project.join("manifests");
    let before = modified_below(&manifests);
    assert!(before.contains_key(&manifests.join("install.yaml")), "{before:?}");
    let report = succeed(tool(project, &["manifests"]), BUILD).await;
    assert!(report.starts_with(&format!("{} files unchanged\n", before.len())), "{report}");
    assert_eq!(modified_below(&manifests), before, "nothing is written");
    succeed(tool(project, &["manifests", "--check"]), BUILD).await;

    let path = manifests.join("rbac/role.yaml");
    let role = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, role.replace("verbs", "verb")).unwrap();
    let output = run(tool(project, &["manifests", "--check"]), BUILD).await;
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("1 file in manifests not up to date:\n  rbac/role.yaml differs\n"), "{errors}");
}

/// The files below a folder, with the times of their last changes.
fn modified_below(folder: &Path) -> BTreeMap<PathBuf, SystemTime> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(modified_below(&path));
        } else {
            let modified = path.metadata().unwrap().modified().unwrap();
            files.insert(path, modified);
        }
    }
    files
}

/// The lines of the blocks for a shell, and the blocks after a line that ends with the path of a file.
fn steps(document: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    let mut before = "";
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let block = lines.by_ref().take_while(|line| *line != "```");
            if language == "sh" {
                steps.extend(block.map(|line| Step::Command(line.split(' ').collect())));
            } else {
                let content = block.flat_map(|line| [line, "\n"]).collect();
                let path = before.strip_suffix("`:").and_then(|before| before.rsplit('`').next());
                let path = path.unwrap_or_else(|| panic!("a block after `{before}` has no path"));
                steps.push(Step::File { path, content });
            }
        } else if !line.is_empty() {
            before = line;
        }
    }
    steps
}

#[test]
fn commands_and_files_of_a_document_are_found() {
    let document =
        "Run:\n\n```sh\ncd a\nls -l\n```\n\nWrite `x` to `src/a.rs`:\n\n```rust\nfn a() {}\n\n```\n";
    assert_eq!(
        steps(document),
        [
            Step::Command(vec!["cd", "a"]),
            Step::Command(vec!["ls", "-l"]),
            Step::File { path: "src/a.rs", content: "fn a() {}\n\n".to_owned() },
        ]
    );
}
