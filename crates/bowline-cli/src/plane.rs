//! `bowline plane`: a server on a port of the loopback interface, from its start to its end.

use std::fmt;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use bowline::runtime::Signals;
use bowline_apiserver::{ApiServer, BuildError, ServeError, ServeOptions};
use tokio::net::TcpListener;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::arguments::Plane;
use crate::output;

/// How long requests that are being answered may take when the server is stopped.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why there is no server, or why it could not go on.
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
    #[error("cannot write the kubeconfig to {}: {error}", path.display())]
    Kubeconfig { path: PathBuf, error: io::Error },
}

impl PlaneError {
    /// What somebody can do about it.
    fn tip(&self) -> Option<&'static str> {
        match self {
            Self::Listen { error, .. } if error.kind() == io::ErrorKind::AddrInUse => {
                Some("choose another port with '--port', or leave it away to get one that is free")
            }
            Self::Listen { error, .. } if error.kind() == io::ErrorKind::PermissionDenied => {
                Some("choose a port above 1023 with '--port', or leave it away to get one that is free")
            }
            Self::Kubeconfig { .. } => Some("choose another file with '--kubeconfig'"),
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
            // Where the standard error is closed, the exit code is all that is left to say.
            let _ = write!(io::stderr(), "error: {error}\n{tip}");
            ExitCode::FAILURE
        }
    }
}

/// Of all that could be told, only what the server itself says: what went wrong, always, and each request when asked.
fn print_events(level: LevelFilter) {
    let told = Targets::new().with_target("bowline_apiserver", level);
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_target(false);
    tracing_subscriber::registry().with(lines.with_filter(told)).init();
}

async fn serve(arguments: &Plane) -> Result<ExitCode, PlaneError> {
    // Before anything can be seen of the server, so that no signal comes too early.
    let mut signals = Signals::listen().map_err(PlaneError::Runtime)?;
    let server = ApiServer::builder().build()?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port));
    let listener = TcpListener::bind(address).await.map_err(|error| PlaneError::Listen { address, error })?;
    let serving = server.serve(listener, ServeOptions::default())?;
    let path = match &arguments.kubeconfig {
        Some(path) => path.clone(),
        None => default_kubeconfig(serving.address().port()),
    };
    let kubeconfig = serving.kubeconfig();
    kubeconfig.write(&path).map_err(|error| PlaneError::Kubeconfig { path: path.clone(), error })?;
    let greeting = Greeting { server: kubeconfig.server(), kubeconfig: &path };
    let mut code = output::print(greeting.to_string().as_bytes());
    if code == ExitCode::SUCCESS {
        signals.wait().await;
        if !serving.shutdown(PATIENCE).await {
            let _ = writeln!(io::stderr(), "warning: requests were cut off after {PATIENCE:?}");
        }
        code = output::print(b"Stopped.\n");
    }
    if arguments.kubeconfig.is_none() {
        // It is of no use to anybody now; somebody else may have removed it already.
        let _ = std::fs::remove_file(&path);
    }
    Ok(code)
}

/// A file that only this user should see, and that no other server of theirs has.
fn default_kubeconfig(port: u16) -> PathBuf {
    let directory = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let directory = directory.filter(|directory| directory.is_absolute() && directory.is_dir());
    directory.unwrap_or_else(std::env::temp_dir).join(format!("bowline-{port}.kubeconfig"))
}

/// What is said when the server is there.
struct Greeting<'a> {
    server: &'a str,
    kubeconfig: &'a Path,
}

impl fmt::Display for Greeting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, kubeconfig } = self;
        let kubeconfig = kubeconfig.display();
        writeln!(
            f,
            r#"A Kubernetes API server listens on {server}. It keeps everything in memory; Ctrl-C stops it.

Try, in another terminal:
  export KUBECONFIG={kubeconfig}
  kubectl get namespaces
  echo '{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"hello"}}}}' | kubectl create --validate=false -f -
  kubectl get configmaps --watch"#
        )
    }
}
