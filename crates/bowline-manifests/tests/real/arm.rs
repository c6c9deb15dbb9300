//! The tested server, with a client of its administrator and clients of service accounts.

use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bowline_apiserver::ApiServer;
use bowline_clock::{Clock, Scope, Simulation, Spawner};
use bowline_runtime::transport::{self, TransportOptions};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::PostParams;
use kube::config::{AuthInfo, Config, KubeConfigOptions, Kubeconfig};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::json;

/// Where the kubeconfig of a real kube-apiserver is.
const REAL: &str = "BOWLINE_REAL_KUBECONFIG";

/// How long anything may take. Nothing takes as long on either arm unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Lifetime of a token in seconds: longer than any test.
const TOKEN_SECONDS: i64 = 3600;

/// The tests share CRDs, and an operator for all namespaces sees the objects of all tests.
static ALONE: Mutex<()> = Mutex::new(());

/// The tested arm.
pub(crate) struct Arm {
    pub(crate) clock: Clock,
    pub(crate) admin: Client,
    /// None for the embedded server.
    config: Option<Config>,
    scope: Scope,
}

impl Arm {
    /// Runs a test on the arm: in real time against a real server if there is one, and otherwise on simulated time against
    /// the embedded one.
    pub(crate) fn run<F: Future<Output = ()>>(test: impl FnOnce(Self) -> F) {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(kubeconfig) = std::env::var_os(REAL) else {
            Simulation::new(1).run(|clock| async move {
                let server = ApiServer::builder().clock(clock.clone()).build().expect("it can be built");
                let scope = clock.scope("test");
                test(Self { clock, admin: Client::new(server, "default"), config: None, scope }).await;
            });
            return;
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("the kubeconfig can be read");
            let options = KubeConfigOptions::default();
            let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("a configuration");
            let clock = Clock::real();
            let scope = clock.scope("test");
            let admin = client(&config);
            test(Self { clock, admin, config: Some(config), scope }).await;
        });
    }

    /// The same for a test of what is forbidden, on the real arm only: the embedded server authorizes no request.
    pub(crate) fn run_if_real<F: Future<Output = ()>>(test: impl FnOnce(Self) -> F) {
        if std::env::var_os(REAL).is_none() {
            eprintln!("skipped: {REAL} is not set");
            return;
        }
        Self::run(test);
    }

    pub(crate) fn is_real(&self) -> bool {
        self.config.is_some()
    }

    pub(crate) fn spawner(&self) -> Spawner {
        self.scope.spawner()
    }

    /// Creates a namespace with a name that nothing else has.
    pub(crate) async fn new_namespace(&self) -> String {
        let mut namespace = Namespace::default();
        namespace.metadata.generate_name = Some("games-".to_owned());
        let namespaces = Api::<Namespace>::all(self.admin.clone());
        namespaces.create(&PostParams::default(), &namespace).await.expect("created").name_any()
    }

    /// A client of a service account; on the embedded server, one of the administrator.
    pub(crate) async fn client_of(&self, namespace: &str, account: &str) -> Client {
        let Some(config) = &self.config else { return self.admin.clone() };
        let request = json!({"spec": {"audiences": [], "expirationSeconds": TOKEN_SECONDS}});
        let request: TokenRequest = serde_json::from_value(request).expect("it is a request");
        let accounts = self.api::<ServiceAccount>(namespace);
        let answer = accounts.create_token_request(account, &PostParams::default(), &request).await;
        let answer = serde_json::to_value(answer.expect("the account exists")).expect("it is plain data");
        let token = answer["status"]["token"].as_str().expect("there is a token");
        let mut config = config.clone();
        config.auth_info = AuthInfo { token: Some(token.into()), ..AuthInfo::default() };
        client(&config)
    }

    /// The API for a kind in a namespace, as the administrator.
    pub(crate) fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.admin.clone(), namespace)
    }

    /// An object in a namespace.
    pub(crate) async fn find<K>(&self, namespace: &str, name: &str) -> Option<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        self.api(namespace).get_opt(name).await.expect("the server answers")
    }

    /// Waits until something is there.
    pub(crate) async fn until<T>(&self, what: &str, look: impl AsyncFn() -> Option<T>) -> T {
        self.within(PATIENCE, look).await.unwrap_or_else(|| panic!("{what} did not happen"))
    }

    /// Waits for something, at most so long.
    pub(crate) async fn within<T>(&self, limit: Duration, look: impl AsyncFn() -> Option<T>) -> Option<T> {
        let found = self.clock.timeout(limit, async {
            loop {
                if let Some(found) = look().await {
                    return found;
                }
                self.clock.sleep(Duration::from_millis(20)).await;
            }
        });
        found.await.ok()
    }
}

/// Not kube's own client, which repeats every request after a 429 and hides it.
fn client(config: &Config) -> Client {
    transport::client(config, &TransportOptions::new(&Clock::real())).expect("a client")
}
