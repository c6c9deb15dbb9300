//! The Go tool: whether there is one that will do, and running it with progress.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use bowline_clock::Clock;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use super::error::RealError;
use super::module::GO;

/// How often a build says that it is still at it.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Lines of an error that are kept.
const LONGEST_ERROR: usize = 60;

/// A minor version of Go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GoVersion {
    major: u32,
    minor: u32,
}

impl GoVersion {
    pub(super) const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// Reads `go1.26.8`, also with something after it.
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.trim().strip_prefix("go")?.split(|c: char| !c.is_ascii_digit());
        Some(Self { major: numbers.next()?.parse().ok()?, minor: numbers.next()?.parse().ok()? })
    }
}

impl fmt::Display for GoVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// `go` with these arguments in a directory, not disturbed by how the user set up other builds.
fn go(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("go");
    command.args(arguments).current_dir(directory).stdin(Stdio::null()).kill_on_drop(true);
    command.env("CGO_ENABLED", "0").env("GOWORK", "off").env_remove("GOOS").env_remove("GOARCH");
    command
}

/// Fails unless the Go that is used in this directory, which has a `go.mod` that asks for [`GO`], will do.
pub(super) async fn check(directory: &Path) -> Result<(), RealError> {
    let command = "go env GOVERSION";
    let output = match go(directory, &["env", "GOVERSION"]).output().await {
        Ok(output) => output,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(RealError::NoGo { needed: GO }),
        Err(source) => return Err(RealError::Run { command: command.to_owned(), source }),
    };
    let told = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if !output.status.success() {
        // A Go that knows of versions says itself that it is too old for the `go.mod`.
        return Err(if complaint.contains("requires go") {
            RealError::OldGo { needed: GO, found: complaint }
        } else {
            RealError::Go { command: command.to_owned(), status: output.status, told: complaint }
        });
    }
    match GoVersion::parse(&told) {
        Some(version) if version >= GO => Ok(()),
        Some(_) => Err(RealError::OldGo { needed: GO, found: told }),
        // A Go built from source has no number, and is newer than what is asked for.
        None if told.starts_with("devel") => Ok(()),
        None => Err(RealError::Unexpected { command: command.to_owned(), told }),
    }
}

/// Runs `go` and gives what it prints.
pub(super) async fn output(directory: &Path, arguments: &[&str]) -> Result<String, RealError> {
    let command = format!("go {}", arguments.join(" "));
    let output = match go(directory, arguments).output().await {
        Ok(output) => output,
        Err(source) => return Err(RealError::Run { command, source }),
    };
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(told);
    }
    // With `-json` the reason is in the output.
    let told = format!("{}{told}", String::from_utf8_lossy(&output.stderr)).trim().to_owned();
    Err(RealError::Go { command, status: output.status, told })
}

/// Runs `go build -v` and says from time to time how far it is: what it downloads and how many packages it compiled.
pub(super) async fn build(
    clock: &Clock,
    directory: &Path,
    what: &str,
    arguments: &[&str],
) -> Result<(), RealError> {
    let command = "go build".to_owned();
    let run = |source| RealError::Run { command: command.clone(), source };
    let began = clock.now();
    let mut all = vec!["build", "-v", "-mod=mod", "-trimpath", "-buildvcs=false"];
    all.extend(arguments);
    let mut child = go(directory, &all).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(run)?;
    let stderr = child.stderr.take().ok_or_else(|| run(io::ErrorKind::BrokenPipe.into()))?;
    let mut lines = BufReader::new(stderr).lines();
    let mut progress = Progress::default();
    let mut next = began + HEARTBEAT;
    loop {
        tokio::select! {
            biased;
            line = lines.next_line() => match line.map_err(run)? {
                Some(line) => progress.take(line),
                None => break,
            },
            () = clock.sleep_until(next) => {}
        }
        if clock.now() >= next {
            eprintln!("real: {what}: {progress}, {} s", clock.now().since(began).as_secs());
            next = clock.now() + HEARTBEAT;
        }
    }
    let status = child.wait().await.map_err(run)?;
    if !status.success() {
        return Err(RealError::Go { command: format!("{command} ({what})"), status, told: progress.error() });
    }
    eprintln!("real: {what}: built in {} s, {progress}", clock.now().since(began).as_secs());
    Ok(())
}

/// What `go build -v` has said so far.
#[derive(Debug, Default)]
struct Progress {
    modules: usize,
    packages: usize,
    other: Vec<String>,
}

impl Progress {
    fn take(&mut self, line: String) {
        if line.starts_with("go: downloading ") {
            self.modules += 1;
        } else if !line.starts_with('#') && !line.contains([' ', '\t']) {
            self.packages += 1;
        } else if self.other.len() < LONGEST_ERROR {
            self.other.push(line);
        }
    }

    fn error(&self) -> String {
        self.other.join("\n")
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} modules downloaded, {} packages compiled", self.modules, self.packages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared_by_number() {
        assert_eq!(GoVersion::parse("go1.26.8\n"), Some(GoVersion::new(1, 26)));
        assert_eq!(GoVersion::parse("go1.26rc1"), Some(GoVersion::new(1, 26)));
        assert_eq!(GoVersion::parse("go1.27 X:nocoverageredesign"), Some(GoVersion::new(1, 27)));
        assert_eq!(GoVersion::parse("devel +abc"), None);
        assert!(GoVersion::new(1, 9) < GO && GO < GoVersion::new(2, 0));
    }

    #[test]
    fn progress_tells_downloads_packages_and_errors_apart() {
        let mut progress = Progress::default();
        for line in ["go: downloading a v1", "k8s.io/api/core/v1", "# a/b", "x.go:1:1: undefined: y"] {
            progress.take(line.to_owned());
        }
        assert_eq!(progress.to_string(), "1 modules downloaded, 1 packages compiled");
        assert_eq!(progress.error(), "# a/b\nx.go:1:1: undefined: y");
    }
}
