//! An API server inside this process, with the kind Foo and an example of it.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use bowline::args::Arguments;
use bowline::kube::api::{Api, PostParams};
use bowline::prelude::*;
use bowline::runtime::server::BindAddress;
use bowline_apiserver::{ApiServer, ServeOptions, Serving};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use sample_controller::{Foo, FooSpec};
use tokio::net::TcpListener;

use crate::flags::Flags;

/// How long requests that are being answered may take when the server is stopped.
const PATIENCE: Duration = Duration::from_secs(5);

/// The server, for as long as this is there.
pub(crate) struct Plane {
    serving: Serving,
    greeting: String,
    _kubeconfig: Kubeconfig,
}

impl Plane {
    /// On a free port of the loopback interface, with a kubeconfig that only this user can read. The flags say from now on
    /// that this is the cluster. Ends the process where they ask for what this server does not have.
    pub(crate) async fn start(args: &mut Arguments<Flags>) -> Result<Self> {
        adapt(args);
        let server = ApiServer::builder().build()?;
        fill(bowline::kube::Client::new(server.clone(), "default")).await?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let serving = server.serve(listener, ServeOptions::default())?;
        let name = format!("sample-controller-{}.kubeconfig", serving.address().port());
        let kubeconfig = Kubeconfig(std::env::temp_dir().join(name));
        serving.kubeconfig().write(&kubeconfig.0)?;
        args.flags.kubeconfig = Some(kubeconfig.0.clone());
        let greeting = greeting(serving.kubeconfig().server(), &kubeconfig.0.display().to_string());
        Ok(Self { serving, greeting, _kubeconfig: kubeconfig })
    }

    /// What is there, and what to try.
    pub(crate) fn greeting(&self) -> &str {
        &self.greeting
    }

    pub(crate) async fn stop(self) {
        self.serving.shutdown(PATIENCE).await;
    }
}

/// Makes the defaults fit a server that is nobody else's. What was typed stays.
fn adapt(args: &mut Arguments<Flags>) {
    if !args.is_typed("metrics_secure") {
        args.flags.metrics_secure = false;
    } else if args.flags.metrics_secure {
        let problem = "--metrics-secure needs a cluster that tells whose a token is, and the server that this program starts does \
                       not: leave it out, or name a cluster with --kubeconfig";
        args.error(problem).exit();
    }
    // No kubelet asks, and another one may run beside.
    if !args.is_typed("health_probe_bind_address") {
        args.flags.health_probe_bind_address = BindAddress::off();
    }
    args.flags.leader_election_namespace.get_or_insert_with(|| "default".to_owned());
}

/// The file, for as long as this is there.
struct Kubeconfig(PathBuf);

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        // Somebody else may have removed it already.
        let _ = std::fs::remove_file(&self.0);
    }
}

async fn fill(client: bowline::kube::Client) -> Result<()> {
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    definitions.create(&PostParams::default(), &Foo::crd()).await?;
    let spec = FooSpec { deployment_name: "example-foo".to_owned(), replicas: Some(1) };
    let foos = Api::<Foo>::default_namespaced(client);
    foos.create(&PostParams::default(), &Foo::new("example-foo", spec)).await?;
    Ok(())
}

fn greeting(server: &str, kubeconfig: &str) -> String {
    format!(
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
