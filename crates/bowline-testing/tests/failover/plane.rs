//! The server of the replicas, and its record: embedded, or a real kube-apiserver with its audit log.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use bowline_apiserver::{ApiServer, ServeOptions, ServerHandle};
use bowline_clock::{Clock, Instant, Rng};
use bowline_runtime::transport::{self, TransportOptions};
use bowline_testing::{Arm, Binaries, RealControlPlane};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::PostParams;
use kube::{Api, Client};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, MutexGuard};

use crate::audit::{self, AuditLog};
use crate::record::{Moment, Record, Story};
use crate::replica::{WORKERS, object};

/// Downtime of an embedded server at a restart: longer than a short lease.
const AWAY: Duration = Duration::from_secs(3);

/// One at a time: a real server uses most of this machine.
static TURN: Mutex<()> = Mutex::const_new(());

/// A server on a socket, until it is dropped.
pub(crate) struct Plane {
    pub(crate) clock: Clock,
    pub(crate) client: Client,
    address: SocketAddr,
    kubeconfig: PathBuf,
    record: Record,
    arm: Server,
    directory: TempDir,
    _turn: Option<MutexGuard<'static, ()>>,
}

enum Server {
    Embedded { _serving: ServerHandle },
    Real(Box<Mutex<RealControlPlane>>, AuditLog),
}

impl Plane {
    /// On the arm of `BOWLINE_TEST_ARM`. A real server is always started from the programs in `KUBEBUILDER_ASSETS`,
    /// since tests restart it and read its audit log.
    pub(crate) async fn start(rng: &Rng) -> Self {
        match Arm::from_env().expect("there is such an arm") {
            Arm::Embedded => Self::embedded(rng).await,
            Arm::Real => Self::real(rng).await,
            arm => panic!("replicas cannot fight over a server of the arm {arm:?}"),
        }
    }

    async fn embedded(rng: &Rng) -> Self {
        let clock = Clock::real();
        let record = Record::new(&clock, rng);
        let server =
            ApiServer::builder().clock(clock.clone()).hook(record.clone()).build().expect("a server");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a port");
        let serving = server.serve(listener, ServeOptions::default()).expect("it is on the socket");
        let directory = tempfile::tempdir().expect("there is a place for files");
        let kubeconfig = directory.path().join("kubeconfig");
        serving.kubeconfig().write(&kubeconfig).expect("it is written");
        Self {
            client: Client::new(server, "default"),
            address: serving.address(),
            arm: Server::Embedded { _serving: serving },
            clock,
            kubeconfig,
            record,
            directory,
            _turn: None,
        }
    }

    async fn real(rng: &Rng) -> Self {
        let turn = TURN.lock().await;
        let clock = Clock::real();
        let programs = std::env::var_os("KUBEBUILDER_ASSETS");
        let programs =
            programs.expect("KUBEBUILDER_ASSETS says where kube-apiserver is: `cargo xtask real test`");
        let plane = RealControlPlane::builder(clock.clone(), Binaries::in_directory(Path::new(&programs)))
            .audit_policy(audit::POLICY)
            .start()
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        let config = transport::config(Some(&plane.kubeconfig())).await.expect("a kubeconfig");
        let address = plane.server().trim_start_matches("https://").parse().expect("an address");
        Self {
            client: transport::client(&config, &TransportOptions::new(&clock)).expect("a client"),
            address,
            kubeconfig: plane.kubeconfig(),
            record: Record::new(&clock, rng),
            arm: Server::Real(Box::new(Mutex::new(plane)), AuditLog::default()),
            clock,
            directory: tempfile::tempdir().expect("there is a place for files"),
            _turn: Some(turn),
        }
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig.clone()
    }

    pub(crate) fn log(&self, identity: &str) -> PathBuf {
        self.directory.path().join(format!("{identity}.log"))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Current time on the record's clock.
    pub(crate) fn now(&self) -> Moment {
        match &self.arm {
            Server::Embedded { .. } => self.clock.now().duration_since(Instant::ZERO),
            Server::Real(..) => {
                self.clock.system_time().duration_since(UNIX_EPOCH).expect("it is later than 1970")
            }
        }
    }

    /// Calls a closure with the record of a namespace so far.
    pub(crate) fn read<T>(&self, namespace: &str, look: impl FnOnce(&Story) -> T) -> T {
        if let Server::Real(_, log) = &self.arm {
            let path = self.kubeconfig.with_file_name("audit.log");
            log.read(&path, &self.record).expect("the audit log can be read");
        }
        self.record.read(namespace, look)
    }

    /// Crashes and restarts the server.
    pub(crate) async fn restart(&self) {
        match &self.arm {
            Server::Embedded { .. } => {
                self.record.set_away(true);
                self.clock.sleep(AWAY).await;
                self.record.set_away(false);
            }
            Server::Real(plane, _) => {
                let restarted = plane.lock().await.restart_api_server().await;
                restarted.unwrap_or_else(|error| panic!("{error}"));
            }
        }
    }

    /// Creates a namespace with an object for each worker.
    pub(crate) async fn prepare(&self, namespace: &str) -> kube::Result<()> {
        let mut made = Namespace::default();
        made.metadata.name = Some(namespace.to_owned());
        Api::all(self.client.clone()).create(&PostParams::default(), &made).await?;
        for worker in 0..WORKERS {
            let mut map = ConfigMap::default();
            map.metadata.name = Some(object(worker));
            self.maps(namespace).create(&PostParams::default(), &map).await?;
        }
        Ok(())
    }

    pub(crate) fn maps(&self, namespace: &str) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), namespace)
    }
}
