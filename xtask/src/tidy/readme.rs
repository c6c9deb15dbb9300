//! Checks the README's commands: `.ci/run` runs each command line of its `sh` blocks.
//!
//! Compares text. CI finds out whether the command succeeds.

use std::collections::BTreeSet;

use super::problem::Problem;

const README: &str = "README.md";

/// Comment after a command that exempts it, followed by the reason.
const EXEMPTION: &str = "# not in CI:";

pub(super) fn problems(readme: &str, script: &str) -> Vec<Problem> {
    let runs: BTreeSet<_> =
        script.lines().filter_map(|line| line.trim().strip_prefix("run ")).map(str::trim).collect();
    let mut found = Vec::new();
    let mut commands = 0;
    for (line, Line { language, text }) in fenced(readme) {
        match language {
            "sh" => {
                if text.is_empty() || text.starts_with('#') {
                    continue;
                }
                commands += 1;
                found.extend(problem_of(text, &runs).map(|message| Problem::at(README, line, message)));
            }
            "bash" | "console" | "shell" | "shell-session" | "zsh" => {
                let message =
                    format!("commands in a `{language}` block are not checked: make it a `sh` block");
                found.push(Problem::at(README, line, message));
            }
            _ => {}
        }
    }
    if commands == 0 {
        found.push(Problem::new(README, "no command in a `sh` block: tell a newcomer what to run"));
    }
    found
}

fn problem_of(text: &str, runs: &BTreeSet<&str>) -> Option<String> {
    if let Some((_, reason)) = text.split_once(EXEMPTION) {
        return reason.trim().is_empty().then(|| format!("say the reason behind `{EXEMPTION}`"));
    }
    let command = text.split(" #").next().unwrap_or(text).trim();
    (!runs.contains(command)).then(|| {
        format!("add `run {command}` to .ci/run, or say behind the command why not: `{EXEMPTION} <reason>`")
    })
}

/// A line inside a fenced block.
struct Line<'a> {
    language: &'a str,
    text: &'a str,
}

/// The lines inside the fenced blocks, with their numbers.
fn fenced(readme: &str) -> Vec<(usize, Line<'_>)> {
    let mut found = Vec::new();
    let mut open = None;
    for (number, text) in readme.lines().enumerate() {
        let text = text.trim();
        match (open, text.strip_prefix("```")) {
            (None, Some(information)) => {
                open = Some(information.split([' ', ',']).next().unwrap_or_default());
            }
            (None, None) => {}
            (Some(_), Some("")) => open = None,
            (Some(language), _) => found.push((number + 1, Line { language, text })),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::problem::printed;
    use super::*;

    const SCRIPT: &str =
        "run() {\n  \"$@\"\n}\nrun cargo test --workspace\n  run cargo xtask tidy\n# run cargo bench\n";

    fn messages(readme: &str) -> Vec<String> {
        printed(&problems(readme, SCRIPT))
    }

    #[test]
    fn a_command_that_ci_does_not_run_is_reported() {
        assert_eq!(
            messages("# A\n\n```sh\ncargo test\n```\n"),
            [
                "README.md:4: add `run cargo test` to .ci/run, or say behind the command why not: `# not in CI: <reason>`"
            ]
        );
        assert_eq!(messages("```sh\ncargo bench\n```").len(), 1, "a comment in the script runs nothing");
    }

    #[test]
    fn commands_that_ci_runs_are_fine() {
        let readme = "```sh\n# All tests.\ncargo test --workspace\n\ncargo xtask tidy  # The rest.\n```\n```rust\nfn a() {}\n```";
        assert_eq!(messages(readme), [""; 0]);
    }

    #[test]
    fn an_exempted_command_needs_a_reason() {
        assert_eq!(messages("```sh\ncargo bench # not in CI: takes an hour\n```"), [""; 0]);
        assert_eq!(
            messages("```sh\ncargo bench # not in CI:\n```"),
            ["README.md:2: say the reason behind `# not in CI:`"]
        );
    }

    #[test]
    fn a_readme_without_commands_is_reported() {
        let expected = ["README.md: no command in a `sh` block: tell a newcomer what to run"];
        assert_eq!(messages(""), expected);
        assert_eq!(messages("```sh\n# Nothing.\n```\ncargo test --workspace\n"), expected);
    }

    #[test]
    fn a_block_that_would_escape_the_check_is_reported() {
        let found = messages("```console\ncargo test\n```\n```sh\ncargo xtask tidy\n```");
        assert_eq!(
            found,
            ["README.md:2: commands in a `console` block are not checked: make it a `sh` block"]
        );
    }
}
