//! A server for the subjects of one scenario: a separate process whose endpoint is in a file.

use std::error::Error;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::{env, fmt, io};

use tempfile::NamedTempFile;

use crate::apiserver::client::Endpoint;

/// The server ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Companion {
    child: Child,
    endpoint: Endpoint,
    file: NamedTempFile,
}

impl Companion {
    /// The replay server, with this number of widgets.
    ///
    /// # Errors
    /// When it cannot be started, or ends before it is ready.
    pub(crate) fn replay(n: usize) -> Result<Self, CompanionError> {
        Self::start("the replay server", &["replay-server", "--n", &n.to_string()])
    }

    /// kube-apiserver with etcd from this directory, with this number of Pods and `ConfigMap`s.
    ///
    /// # Errors
    /// When it cannot be started, or ends before it is ready.
    pub(crate) fn filled(programs: &Path, n: usize) -> Result<Self, CompanionError> {
        eprintln!(
            "filling kube-apiserver with {n} Pods and {n} ConfigMaps; 20,000 of each take a minute or two"
        );
        let programs = programs.display().to_string();
        Self::start("kube-apiserver", &["informer-server", "--programs", &programs, "--n", &n.to_string()])
    }

    /// kube-apiserver with etcd from this directory, with the kind `Foo`.
    ///
    /// # Errors
    /// When it cannot be started, or ends before it is ready.
    pub(crate) fn foo(programs: &Path) -> Result<Self, CompanionError> {
        let programs = programs.display().to_string();
        Self::start("kube-apiserver", &["foo-server", "--programs", &programs])
    }

    /// Starts this program with other arguments. It prints its endpoint on one line when it is ready, and ends with its
    /// stdin.
    fn start(what: &'static str, arguments: &[&str]) -> Result<Self, CompanionError> {
        let started = || -> io::Result<_> {
            let mut child = Command::new(env::current_exe()?)
                .args(arguments)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()?;
            let mut line = String::new();
            let read = child.stdout.take().map(|stdout| BufReader::new(stdout).read_line(&mut line));
            Ok((child, read.transpose().map(|_| line)))
        };
        let error = |source: Box<dyn Error>| CompanionError { what, source };
        let (mut child, line) = started().map_err(|source| error(source.into()))?;
        let ready = line.map_err(Into::into).and_then(|line| {
            let endpoint: Endpoint = serde_json::from_str(&line)?;
            let mut file = NamedTempFile::new()?;
            file.write_all(line.as_bytes())?;
            Ok((endpoint, file))
        });
        match ready {
            Ok((endpoint, file)) => Ok(Self { child, endpoint, file }),
            Err(source) => {
                // It has printed the reason on stderr, or must be stopped now.
                let _ = end(&mut child);
                Err(error(source))
            }
        }
    }

    /// The endpoint of the server.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The file with the endpoint, readable only by its owner.
    pub(crate) fn file(&self) -> &Path {
        self.file.path()
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        if let Err(error) = end(&mut self.child) {
            eprintln!("note: a server did not end: {error}");
        }
    }
}

fn end(child: &mut Child) -> io::Result<()> {
    drop(child.stdin.take());
    child.wait().map(|_| ())
}

/// A server cannot be started.
#[derive(Debug)]
pub(crate) struct CompanionError {
    what: &'static str,
    source: Box<dyn Error>,
}

impl fmt::Display for CompanionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} did not tell where it is, see above: {}", self.what, self.source)
    }
}

impl Error for CompanionError {}
