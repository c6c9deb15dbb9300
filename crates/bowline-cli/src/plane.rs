//! `bowline plane`: a server on a port of the loopback interface, from its start to its end.

mod hangup;
mod kubeconfig;

use std::fmt;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use bowline::runtime::Signals;
use bowline_apiserver::{ApiServer, BuildError, ServeError, ServeOptions, ServerHandle, TemporaryKubeconfig};
use tokio::net::TcpListener;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

pub(crate) use self::hangup::Hangup;
use self::kubeconfig::{KubeconfigError, MergedKubeconfig};
use crate::arguments::Plane;
use crate::output;

/// Time limit for requests in flight when the server stops.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why the server did not start, or ended.
#[derive(Debug, thiserror::Error)]
enum PlaneError {
    #[error("cannot start: {0}")]
    Runtime(#[source] io::Error),
    #[error("cannot listen on {address}: {error}")]
    Listen { address: SocketAddr, error: io::Error },
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error("cannot write a temporary kubeconfig: {0}")]
    TemporaryKubeconfig(#[source] io::Error),
}

impl PlaneError {
    /// Advice for the user.
    fn tip(&self) -> Option<&'static str> {
        match self {
            Self::Listen { error, .. } if error.kind() == io::ErrorKind::AddrInUse => {
                Some("choose another port with '--port', or omit it to get a free one")
            }
            Self::Listen { error, .. } if error.kind() == io::ErrorKind::PermissionDenied => {
                Some("choose a port above 1023 with '--port', or omit it to get a free one")
            }
            Self::Kubeconfig(KubeconfigError::Locked { .. }) => None,
            Self::Kubeconfig(_) => Some("choose another file with '--kubeconfig'"),
            Self::TemporaryKubeconfig(_) => Some("choose a file with '--kubeconfig'"),
            _ => None,
        }
    }
}

/// Runs until a signal comes. A server that was stopped is a success.
pub(crate) fn run(arguments: &Plane) -> ExitCode {
    print_events(if arguments.verbose { LevelFilter::DEBUG } else { LevelFilter::WARN });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime.map_err(PlaneError::Runtime).and_then(|runtime| runtime.block_on(serve(arguments))) {
        Ok(code) => code,
        Err(error) => {
            let tip = error.tip().map_or_else(String::new, |tip| format!("\n  tip: {tip}\n"));
            // If the standard error is closed, the exit code alone reports the failure.
            let _ = write!(io::stderr(), "error: {error}\n{tip}");
            ExitCode::FAILURE
        }
    }
}

/// Prints log lines of the server alone: warnings always, requests with `--verbose`.
fn print_events(level: LevelFilter) {
    let targets = Targets::new().with_target("bowline_apiserver", level);
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_target(false);
    tracing_subscriber::registry().with(lines.with_filter(targets)).init();
}

async fn serve(arguments: &Plane) -> Result<ExitCode, PlaneError> {
    // Before anything of the server is visible, so that no signal is missed.
    let mut signals = Signals::listen().map_err(PlaneError::Runtime)?;
    let mut hangup = Hangup::listen().map_err(PlaneError::Runtime)?;
    let server = ApiServer::builder().build()?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port));
    let listener = TcpListener::bind(address).await.map_err(|error| PlaneError::Listen { address, error })?;
    let serving = server.serve(listener, ServeOptions::default())?;
    let file = KubeconfigFile::write(arguments.kubeconfig.as_deref(), &serving).await?;
    let server = serving.kubeconfig().server();
    let greeting = Greeting { server, kubeconfig: file.path(), context: file.context() };
    let mut code = output::print(greeting.to_string().as_bytes());
    if code == ExitCode::SUCCESS {
        tokio::select! {
            () = signals.wait() => {}
            () = hangup.wait() => {}
        }
        if !serving.stop(PATIENCE).await {
            let _ = writeln!(io::stderr(), "warning: requests were cut off after {PATIENCE:?}");
        }
        code = output::print(b"Stopped.\n");
    }
    if let Err(error) = file.remove().await {
        let _ = writeln!(io::stderr(), "warning: the entries of this server stay in the kubeconfig: {error}");
    }
    Ok(code)
}

/// The kubeconfig of the server, until it stops.
enum KubeconfigFile<'a> {
    /// Entries in a file of the user.
    Merged(&'a Path, MergedKubeconfig),
    Temporary(TemporaryKubeconfig),
}

impl<'a> KubeconfigFile<'a> {
    async fn write(path: Option<&'a Path>, serving: &ServerHandle) -> Result<Self, PlaneError> {
        let kubeconfig = serving.kubeconfig();
        let Some(path) = path else {
            let temporary = kubeconfig.write_temporary("bowline").map_err(PlaneError::TemporaryKubeconfig)?;
            return Ok(Self::Temporary(temporary));
        };
        let name = format!("bowline-{}", serving.address().port());
        Ok(Self::Merged(path, MergedKubeconfig::write(path, name, kubeconfig).await?))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Merged(path, _) => path,
            Self::Temporary(temporary) => temporary.path(),
        }
    }

    /// The context to name to kubectl, if it is not the current one.
    fn context(&self) -> Option<&str> {
        match self {
            Self::Merged(_, merged) if !merged.is_current() => Some(merged.context()),
            _ => None,
        }
    }

    async fn remove(self) -> Result<(), KubeconfigError> {
        match self {
            Self::Merged(_, merged) => merged.remove().await,
            Self::Temporary(_) => Ok(()),
        }
    }
}

/// The text for a user when the server listens.
struct Greeting<'a> {
    server: &'a str,
    kubeconfig: &'a Path,
    context: Option<&'a str>,
}

impl fmt::Display for Greeting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, kubeconfig, context } = self;
        let kubeconfig = kubeconfig.display();
        let kubectl =
            context.map_or_else(|| "kubectl".to_owned(), |context| format!("kubectl --context {context}"));
        writeln!(
            f,
            r#"A Kubernetes API server listens on {server}. It keeps everything in memory; Ctrl-C stops it.

Try, in another terminal:
  export KUBECONFIG={kubeconfig}
  {kubectl} get namespaces
  echo '{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"hello"}}}}' | {kubectl} create --validate=false -f -
  {kubectl} get configmaps --watch"#
        )
    }
}
