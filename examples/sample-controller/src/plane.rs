//! An API server inside this process, with the kind Foo and an example of it.

use std::fmt;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use bowline::kube::api::{Api, PostParams};
use bowline::prelude::*;
use bowline_apiserver::{ApiServer, ServeOptions, Serving};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use sample_controller::{Foo, FooSpec};
use tokio::net::TcpListener;

/// How long requests that are being answered may take when the server is stopped.
const PATIENCE: Duration = Duration::from_secs(5);

/// The server, for as long as this is there.
pub(crate) struct Plane {
    server: ApiServer,
    serving: Serving,
    kubeconfig: PathBuf,
}

impl Plane {
    /// On a free port of the loopback interface, with a kubeconfig that only this user can read.
    pub(crate) async fn start() -> Result<Self> {
        let server = ApiServer::builder().build()?;
        fill(client_of(&server)).await?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let serving = server.serve(listener, ServeOptions::default())?;
        let name = format!("sample-controller-{}.kubeconfig", serving.address().port());
        let kubeconfig = std::env::temp_dir().join(name);
        serving.kubeconfig().write(&kubeconfig)?;
        Ok(Self { server, serving, kubeconfig })
    }

    pub(crate) fn client(&self) -> bowline::kube::Client {
        client_of(&self.server)
    }

    pub(crate) async fn stop(self) {
        self.serving.shutdown(PATIENCE).await;
        // Somebody else may have removed it already.
        let _ = std::fs::remove_file(self.kubeconfig);
    }
}

fn client_of(server: &ApiServer) -> bowline::kube::Client {
    bowline::kube::Client::new(server.clone(), "default")
}

async fn fill(client: bowline::kube::Client) -> Result<()> {
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    definitions.create(&PostParams::default(), &Foo::crd()).await?;
    let spec = FooSpec { deployment_name: "example-foo".to_owned(), replicas: Some(1) };
    let foos = Api::<Foo>::default_namespaced(client);
    foos.create(&PostParams::default(), &Foo::new("example-foo", spec)).await?;
    Ok(())
}

/// What is there, and what to try.
impl fmt::Display for Plane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (server, kubeconfig) = (self.serving.kubeconfig().server(), self.kubeconfig.display());
        writeln!(
            f,
            r#"A Kubernetes API server listens on {server}. There is a Foo on it, and sample-controller; Ctrl-C stops both.

Try, in another terminal:
  export KUBECONFIG={kubeconfig}
  kubectl get foos,deployments
  kubectl patch foo example-foo --type merge -p '{{"spec":{{"replicas":3}}}}'
  kubectl delete deployment example-foo
  kubectl get events
"#
        )
    }
}
