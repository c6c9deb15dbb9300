//! Two replicas of the program on an API server that crashes and comes back: a real one, and of the test's own. On other arms
//! there is none to restart, and nothing to see.

use bowline::prelude::*;
use bowline::runtime::transport::{self, TransportOptions};
use bowline_testing::{Arm, Binaries, RealControlPlane};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::PostParams;
use sample_controller::Foo;

use crate::process::Running;
use crate::world::foo;

/// How long anything may take; nothing does unless it hangs.
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_restarts_costs_one_replica_its_lease_at_most_and_work_goes_on() -> Result<()> {
    if Arm::from_env()? != Arm::Real {
        return Ok(());
    }
    let programs = std::env::var_os("KUBEBUILDER_ASSETS").expect("`cargo xtask real test` sets it");
    let clock = Clock::real();
    let binaries = Binaries::in_directory(std::path::Path::new(&programs));
    let mut plane = RealControlPlane::builder(clock.clone(), binaries).start().await?;
    let config = transport::config(Some(&plane.kubeconfig())).await?;
    let world = World { kube: transport::client(&config, &TransportOptions::new(&clock))?, clock };
    let definitions: Api<CustomResourceDefinition> = Api::all(world.kube.clone());
    definitions.create(&PostParams::default(), &Foo::crd()).await?;

    let kubeconfig = plane.kubeconfig();
    let arguments = [
        ["--kubeconfig", kubeconfig.to_str().expect("text")],
        ["--namespace", "default"],
        ["--leader-elect", "--health-probe-bind-address=0"],
        ["--leader-election-namespace", "default"],
        ["--leader-election-lease-duration", "2s"],
        ["--leader-election-renew-deadline", "1.2s"],
        ["--leader-election-retry-period", "300ms"],
    ];
    let replicas = [(); 2].map(|()| Running::start(arguments.as_flattened()));
    world.create_foos("before").await;
    world.deployments("before").await;
    plane.restart_api_server().await?;
    world.create_foos("after").await;
    world.deployments("after").await;

    let logs = replicas.each_ref().map(Running::logged);
    let count = |text: &str| logs.iter().filter(|log| log.contains(text)).count();
    let (led, lost) = (count("became the leader"), count("leader election lost"));
    assert!(lost <= 1 && led == lost + 1, "{led} led, {lost} lost the lease: {logs:#?}");
    plane.stop().await?;
    Ok(())
}

struct World {
    kube: kube::Client,
    clock: Clock,
}

impl World {
    fn names(group: &str) -> impl Iterator<Item = String> {
        (0..10).map(move |number| format!("{group}-{number}"))
    }

    async fn create_foos(&self, group: &str) {
        let foos: Api<Foo> = Api::namespaced(self.kube.clone(), "default");
        for name in Self::names(group) {
            // A kind that was just defined is served a little later.
            let create = async || foos.create(&PostParams::default(), &foo(&name, Some(2))).await.is_ok();
            self.until(&format!("{name} is created"), create).await;
        }
    }

    /// Waits until all Foos of a group have what they need.
    async fn deployments(&self, group: &str) {
        let deployments: Api<Deployment> = Api::namespaced(self.kube.clone(), "default");
        for name in Self::names(group) {
            let is_there = async || matches!(deployments.get_opt(&name).await, Ok(Some(_)));
            self.until(&format!("{name} has its Deployment"), is_there).await;
        }
    }

    async fn until(&self, what: &str, is_so: impl AsyncFn() -> bool) {
        let wait = async {
            while !is_so().await {
                self.clock.sleep(Duration::from_millis(50)).await;
            }
        };
        self.clock.timeout(LIMIT, wait).await.unwrap_or_else(|_| panic!("it did not happen that {what}"));
    }
}
