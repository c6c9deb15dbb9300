//! `bowline dev` in a terminal of tmux: the live view is drawn in one place, and Ctrl-C ends it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::dev::{BUILD, LIMIT};
use crate::process::{eventually, has, succeed, tool};

/// Heading of the live view.
const HEADING: &str = "OBJECTS";

/// A tmux server with one terminal.
struct Terminal {
    /// Its socket and its configuration.
    folder: TempDir,
}

/// Runs a project, whose operator is built, until Ctrl-C.
pub(crate) async fn check(project: &Path) {
    if !has("tmux", "-V", "`bowline dev` in a terminal").await {
        return;
    }
    println!("== in a narrow terminal");
    let terminal = Terminal::start(tool(project, &["dev"]), 60, 20).await;
    let lines = terminal.wait(BUILD, |lines| last(lines).contains("phase=Done")).await;
    assert_eq!(last(&lines), "  At default/at-sample: observedGeneration=1, phase=Done, …");
    check_view(&lines);
    let above = lines.iter().filter(|line| line.starts_with("↻ at default/at-sample, because: ")).count();
    assert!(above >= 2, "reconciles stay above it: {lines:#?}");

    println!("== in a wide terminal, after a change");
    terminal.resize(120, 30).await;
    let source = project.join("src/main.rs");
    std::fs::write(&source, std::fs::read(&source).unwrap()).unwrap();
    let is_new = |lines: &[String]| {
        let change = lines.iter().position(|line| line == "src/main.rs has changed");
        let start = lines.iter().rposition(|line| line == "✓ the operator runs");
        change.is_some() && start > change && last(lines).contains("phase=Done, started=")
    };
    check_view(&terminal.wait(BUILD, is_new).await);

    println!("== Ctrl-C");
    terminal.tmux(&["send-keys", "C-c"]).await;
    let lines = terminal.wait(LIMIT, |lines| lines.iter().any(|line| line.starts_with("exit code "))).await;
    let end = lines.iter().position(|line| line == "Stopped.").unwrap_or_else(|| panic!("{lines:#?}"));
    assert_eq!(lines.get(end + 1).map(String::as_str), Some("exit code 0"), "{lines:#?}");
    assert!(!lines.iter().any(|line| line == HEADING), "the view is removed: {lines:#?}");
}

/// The view is there once: its heading, and below it the last line.
fn check_view(lines: &[String]) {
    let headings = lines.iter().filter(|line| *line == HEADING).count();
    assert_eq!(headings, 1, "{lines:#?}");
    assert_eq!(lines[lines.len() - 2], HEADING, "{lines:#?}");
    let objects = lines.iter().filter(|line| line.starts_with("  At ")).count();
    assert_eq!(objects, 1, "{lines:#?}");
}

fn last(lines: &[String]) -> &str {
    lines.last().map_or("", String::as_str)
}

impl Terminal {
    async fn start(program: Command, columns: u16, rows: u16) -> Self {
        let terminal = Self { folder: tempfile::tempdir().unwrap() };
        let configuration = terminal.folder.path().join("tmux.conf");
        std::fs::write(&configuration, "set -g remain-on-exit on\nset -g history-limit 5000\n").unwrap();
        let mut tmux = terminal.command();
        tmux.arg("-f").arg(configuration).args(["new-session", "-d"]);
        tmux.args(["-x", &columns.to_string(), "-y", &rows.to_string()]);
        tmux.arg("-c").arg(program.get_current_dir().unwrap());
        // tmux 3.3 can miss the end of a program, so that a shell prints the exit code. It survives Ctrl-C.
        tmux.args(["sh", "-c", "trap : INT; \"$@\"; echo \"exit code $?\"", "sh"]);
        tmux.arg(program.get_program()).args(program.get_args());
        // The server passes its own environment on.
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => tmux.env(name, value),
                None => tmux.env_remove(name),
            };
        }
        succeed(tmux, LIMIT).await;
        terminal
    }

    /// tmux with a socket of its own.
    fn command(&self) -> Command {
        let mut command = Command::new("tmux");
        command.arg("-u").arg("-S").arg(self.folder.path().join("socket"));
        command.env_remove("TMUX").env("LC_ALL", "C.UTF-8");
        command
    }

    async fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = self.command();
        command.args(arguments);
        succeed(command, LIMIT).await
    }

    async fn resize(&self, columns: u16, rows: u16) {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        self.tmux(&["resize-window", "-x", &columns, "-y", &rows]).await;
    }

    /// Waits for a state of the lines, from the first that was printed to the last that is not empty.
    async fn wait(&self, limit: Duration, is_wanted: impl Fn(&[String]) -> bool) -> Vec<String> {
        let mut seen = Vec::new();
        let found = eventually(limit, async || {
            let captured = self.tmux(&["capture-pane", "-p", "-J", "-S", "-"]).await;
            seen = captured.trim_end().lines().map(|line| line.trim_end().to_owned()).collect();
            is_wanted(&seen).then_some(())
        });
        let found = found.await;
        assert!(found.is_some(), "not after {limit:?}: {seen:#?}");
        seen
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let mut kill = self.command();
        kill.arg("kill-server").stdout(Stdio::null()).stderr(Stdio::null());
        let _ = kill.status();
    }
}
