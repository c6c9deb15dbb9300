//! Two replicas of the program on an API server that crashes and comes back: a real one of the test's own on that arm, and the
//! embedded one, which is away for as long.

use bowline::prelude::*;
use bowline::runtime::transport::{self, TransportOptions};
use bowline_testing::{Arm, Binaries, RealControlPlane, TestEnv};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::PostParams;
use sample_controller::Foo;

use crate::process::{Plane, Running};
use crate::world::foo;

/// How long anything may take; nothing does unless it hangs.
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_restarts_costs_one_replica_its_lease_at_most_and_work_goes_on() -> Result<()> {
    if Arm::from_env()? != Arm::Real {
        eprintln!(
            "skipped: only on the real arm is there a kube-apiserver to restart (`cargo xtask real test`)"
        );
        return Ok(());
    }
    let programs = std::env::var_os("KUBEBUILDER_ASSETS").expect("`cargo xtask real test` sets it");
    let clock = Clock::real();
    let binaries = Binaries::in_directory(std::path::Path::new(&programs));
    let mut plane = RealControlPlane::builder(clock.clone(), binaries).start().await?;
    let kubeconfig = plane.kubeconfig();
    let config = transport::config(Some(&kubeconfig)).await?;
    let world = World { kube: transport::client(&config, &TransportOptions::new(&clock))?, clock };
    world.work_through(&kubeconfig, async || Ok(plane.restart_api_server().await?)).await?;
    plane.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_embedded_server_that_is_away_for_a_while_costs_one_replica_its_lease_at_most() -> Result<()> {
    let env = TestEnv::builder().start().await?;
    let plane = Plane::of(&env).await?;
    let world = World { kube: env.kube_client().clone(), clock: env.clock().clone() };
    let restart = async || {
        let away = env.faults()?.all().lose_request();
        // Longer than the lease.
        world.clock.sleep(Duration::from_secs(3)).await;
        away.remove();
        Ok(())
    };
    world.work_through(std::path::Path::new(plane.kubeconfig()), restart).await?;
    env.finish().await?;
    Ok(())
}

struct World {
    kube: kube::Client,
    clock: Clock,
}

impl World {
    /// Has two replicas do some work, restarts the server, and has them do some more.
    async fn work_through(
        &self,
        kubeconfig: &std::path::Path,
        restart: impl AsyncFnOnce() -> Result<()>,
    ) -> Result<()> {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.kube.clone());
        definitions.create(&PostParams::default(), &Foo::crd()).await?;
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
        self.create_foos("before").await;
        self.deployments("before").await;
        restart().await?;
        self.create_foos("after").await;
        self.deployments("after").await;

        let logs = replicas.each_ref().map(Running::logged);
        let count = |text: &str| logs.iter().filter(|log| log.contains(text)).count();
        let (led, lost) = (count("became the leader"), count("leadership lost"));
        assert!(lost <= 1 && led == lost + 1, "{led} led, {lost} lost the lease: {logs:#?}");
        Ok(())
    }

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
