//! An API server inside the process, for development: its start, the kubeconfig for `kubectl`, its stop.

pub(crate) mod objects;

use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use bowline_clock::Clock;

pub use objects::ObjectError;

use bowline_apiserver::{ApiServer, BuildError, ServeError, ServeOptions, ServerHandle, TemporaryKubeconfig};
use tokio::net::TcpListener;

/// Time limit for requests in flight when the server stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// A control plane for development: a Kubernetes API server inside this process.
///
/// It listens with TLS on a free port of 127.0.0.1, and keeps everything in memory. Its kubeconfig has the rights of an
/// administrator, and is in a directory that only this user can enter. Today there are no built-in controllers, no scheduler and
/// no nodes.
///
/// The ready-made flags (feature `args`) start one if no cluster is named. A program without these flags starts it itself:
///
/// ```no_run
/// # async fn example() -> Result<(), bowline::plane::PlaneError> {
/// let plane = bowline::plane::Plane::start("my-tool").await?;
/// println!("export KUBECONFIG={}", plane.kubeconfig().display());
/// let client: bowline::kube::Client = plane.kube_client();
/// plane.stop().await;
/// # Ok(())
/// # }
/// ```
///
/// When it is dropped, its connections are cut and the kubeconfig is removed.
#[derive(Debug)]
#[must_use = "the server ends when this is dropped"]
pub struct Plane {
    server: ApiServer,
    serving: ServerHandle,
    kubeconfig: TemporaryKubeconfig,
}

/// Why there is no [`Plane`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaneError {
    /// The server cannot be built.
    #[error("cannot build the API server of the plane")]
    Build(#[from] BuildError),
    /// No port of the loopback interface is available.
    #[error("cannot listen on a port of 127.0.0.1 for the plane")]
    Listen(#[source] io::Error),
    /// The server cannot be served with TLS.
    #[error("cannot serve the plane")]
    Serve(#[from] ServeError),
    /// The kubeconfig cannot be written.
    #[error("cannot write the plane's kubeconfig to $XDG_RUNTIME_DIR or the directory of temporary files")]
    Kubeconfig(#[source] io::Error),
}

impl Plane {
    /// Starts a server. The name of the directory of its kubeconfig begins with `program`.
    ///
    /// # Errors
    /// If there is no port, or no directory for the kubeconfig.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn start(program: &str) -> Result<Self, PlaneError> {
        let server = ApiServer::builder().build()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(PlaneError::Listen)?;
        let serving = server.serve(listener, ServeOptions::default())?;
        let kubeconfig = serving.kubeconfig().write_temporary(program).map_err(PlaneError::Kubeconfig)?;
        Ok(Self { server, serving, kubeconfig })
    }

    /// The server's address: `https://127.0.0.1:PORT`.
    #[must_use]
    pub fn address(&self) -> &str {
        self.serving.kubeconfig().server()
    }

    /// The kubeconfig. The file exists until the plane stops.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        self.kubeconfig.path()
    }

    /// A client that calls the server without a socket, with the rights of an administrator.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn kube_client(&self) -> kube::Client {
        kube::Client::new(self.server.clone(), "default")
    }

    /// Creates the objects of a file, YAML or JSON, in the order of the file. Definitions of custom kinds are installed, and later
    /// objects may be of these kinds. Objects of namespaced kinds without a namespace go to `default`. Returns their number.
    ///
    /// # Errors
    /// If the file cannot be read, or the server refuses an object; the objects before it have been created.
    pub async fn create_objects(&self, file: &Path) -> Result<usize, ObjectError> {
        let documents = objects::read(file)?;
        let count = documents.len();
        objects::create(&self.kube_client(), &Clock::real(), documents).await?;
        Ok(count)
    }

    /// Removes the kubeconfig and stops the server: ends watches, and waits up to 5 seconds for requests in flight. Returns
    /// false if some of them were cut off.
    pub async fn stop(self) -> bool {
        let Self { server: _server, serving, kubeconfig } = self;
        drop(kubeconfig);
        serving.stop(STOP_TIMEOUT).await
    }
}
