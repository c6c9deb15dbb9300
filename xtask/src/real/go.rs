//! The Go tool: whether there is one that will do, and running it with progress.

use std::ffi::OsString;
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

/// Interval of progress messages of a build.
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

/// Settings that do not change what is built: where modules come from, and where files are kept. `go env` also knows those
/// that `go env -w` wrote.
const SETTINGS: [&str; 7] =
    ["GOPROXY", "GOAUTH", "GOCACHE", "GOMODCACHE", "GOPATH", "GOTMPDIR", "GOTOOLCHAIN"];

/// Variables that say where Go is and how much of the machine it uses. They are inherited.
const INHERITED: [&str; 4] = ["GOROOT", "GOMAXPROCS", "GOMEMLIMIT", "GOGC"];

/// The Go tool with the user's [`SETTINGS`] and no others. `GOFLAGS`, `GONOSUMDB`, `GOINSECURE` and their like can replace
/// source files or turn the verification of modules off, so they are not inherited, neither from the environment nor from
/// the file of `go env -w`.
#[derive(Debug)]
pub(super) struct Go {
    settings: Vec<(&'static str, String)>,
}

impl Go {
    /// Finds the Go on the `PATH`. Fails unless it will do for this directory, which has a `go.mod` that asks for [`GO`].
    pub(super) async fn find(directory: &Path) -> Result<Self, RealError> {
        // In a directory without a `go.mod`, so that no toolchain is fetched with the user's settings.
        let outside = directory.parent().unwrap_or(directory);
        let arguments: Vec<_> = ["env"].into_iter().chain(SETTINGS).collect();
        let mut command = Command::new("go");
        command.args(&arguments).current_dir(outside).stdin(Stdio::null()).kill_on_drop(true);
        let output = output(&format!("go {}", arguments.join(" ")), &mut command).await?;
        // One line for each, empty if it is not set.
        let values = output.lines().map(str::to_owned);
        let go = Self { settings: SETTINGS.into_iter().zip(values).collect() };
        go.check(directory).await?;
        Ok(go)
    }

    async fn check(&self, directory: &Path) -> Result<(), RealError> {
        let arguments = ["env", "GOVERSION"];
        let command = "go env GOVERSION";
        let output = match output(command, &mut self.command(directory, &arguments, inherited())).await {
            Ok(output) => output.trim().to_owned(),
            // A Go that knows of versions says itself that it is too old for the `go.mod`.
            Err(RealError::Go { output, .. }) if output.contains("requires go") => {
                return Err(RealError::OldGo { needed: GO, found: output });
            }
            Err(error) => return Err(error),
        };
        match GoVersion::parse(&output) {
            Some(version) if version >= GO => Ok(()),
            Some(_) => Err(RealError::OldGo { needed: GO, found: output }),
            // A Go built from source has no number, and is newer than what is asked for.
            None if output.starts_with("devel") => Ok(()),
            None => Err(RealError::Unexpected { command: command.to_owned(), output }),
        }
    }

    /// `go` with these arguments in a directory, in an environment with these variables.
    fn command(
        &self,
        directory: &Path,
        arguments: &[&str],
        inherited: impl Iterator<Item = OsString>,
    ) -> Command {
        let mut command = Command::new("go");
        command.args(arguments).current_dir(directory).stdin(Stdio::null()).kill_on_drop(true);
        let is_setting = |name: &str| name.starts_with("GO") && !name.contains('_');
        for name in inherited {
            if name.to_str().is_some_and(|name| is_setting(name) && !INHERITED.contains(&name)) {
                command.env_remove(name);
            }
        }
        for (name, value) in &self.settings {
            if !value.is_empty() {
                command.env(name, value);
            }
        }
        // Without `GOSUMDB`, a toolchain that has to be fetched is verified with Go's own checksum database.
        command.env("GOENV", "off").env("GOWORK", "off").env("CGO_ENABLED", "0");
        command
    }

    /// `go build -v` of exactly the modules in the `go.mod`, with the checksums in the `go.sum` beside it.
    fn build_command(
        &self,
        directory: &Path,
        arguments: &[&str],
        inherited: impl Iterator<Item = OsString>,
    ) -> Command {
        let mut all = vec!["build", "-v", "-mod=readonly", "-trimpath", "-buildvcs=false"];
        all.extend(arguments);
        self.command(directory, &all, inherited)
    }

    /// Runs `go build -v` and reports its progress: downloads, and the number of compiled packages.
    pub(super) async fn build(
        &self,
        clock: &Clock,
        directory: &Path,
        what: &str,
        arguments: &[&str],
    ) -> Result<(), RealError> {
        let command = "go build".to_owned();
        let run = |source| RealError::Run { command: command.clone(), source };
        let began = clock.now();
        let mut build = self.build_command(directory, arguments, inherited());
        let mut child = build.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(run)?;
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
                eprintln!("real: {what}: {progress}, {} s", clock.now().duration_since(began).as_secs());
                next = clock.now() + HEARTBEAT;
            }
        }
        let status = child.wait().await.map_err(run)?;
        if !status.success() {
            return Err(RealError::Go {
                command: format!("{command} ({what})"),
                status,
                output: progress.error(),
            });
        }
        eprintln!("real: {what}: built in {} s, {progress}", clock.now().duration_since(began).as_secs());
        Ok(())
    }
}

/// The names of the environment's variables.
fn inherited() -> impl Iterator<Item = OsString> {
    std::env::vars_os().map(|(name, _)| name)
}

/// Runs a command of Go and returns its output.
async fn output(name: &str, command: &mut Command) -> Result<String, RealError> {
    let output = match command.output().await {
        Ok(output) => output,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(RealError::NoGo { needed: GO }),
        Err(source) => return Err(RealError::Run { command: name.to_owned(), source }),
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let printed = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(RealError::Go { command: name.to_owned(), status: output.status, output: printed })
}

/// Output of `go build -v` so far.
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
    use std::collections::BTreeMap;
    use std::ffi::OsStr;

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
    fn a_build_takes_the_checksums_from_go_sum_and_no_setting_that_weakens_them() {
        let weakening = [
            "GOFLAGS",
            "GOSUMDB",
            "GONOSUMDB",
            "GONOSUMCHECK",
            "GOINSECURE",
            "GOPRIVATE",
            "GONOPROXY",
            "GOENV",
            "GOWORK",
            "GOVCS",
            "GOCACHEPROG",
            "GODEBUG",
            "GOOS",
            "GOARCH",
        ];
        let harmless =
            ["GOROOT", "GOMAXPROCS", "GOPROXY", "GOOGLE_APPLICATION_CREDENTIALS", "HTTPS_PROXY", "PATH"];
        let go = Go {
            settings: vec![("GOPROXY", "https://proxy.example".to_owned()), ("GOCACHE", String::new())],
        };
        let inherited = weakening.into_iter().chain(harmless).map(OsString::from);
        let command = go.build_command(Path::new("/"), &["-o", "out", "package"], inherited);
        let command = command.as_std();
        let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
        assert_eq!(
            arguments,
            ["build", "-v", "-mod=readonly", "-trimpath", "-buildvcs=false", "-o", "out", "package"]
        );
        let changed: BTreeMap<_, _> = command.get_envs().collect();
        for name in weakening {
            let value = changed.get(OsStr::new(name)).map(|value| value.and_then(OsStr::to_str));
            let expected = match name {
                "GOENV" | "GOWORK" => Some("off"),
                _ => None,
            };
            assert_eq!(value, Some(expected), "{name}");
        }
        for name in harmless {
            let value = changed.get(OsStr::new(name)).map(|value| value.and_then(OsStr::to_str));
            let expected = (name == "GOPROXY").then_some(Some("https://proxy.example"));
            assert_eq!(value, expected, "{name}");
        }
        assert!(!changed.contains_key(OsStr::new("GOCACHE")), "an empty setting is the default");
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
