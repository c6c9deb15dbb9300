//! What happens while nobody can look.

use std::sync::atomic::{AtomicBool, Ordering};

use bowline::prelude::*;
use bowline_apiserver::{Call, FrameVerdict, Hook, HookFuture, Verdict, WatchFrame};
use bowline_testing::TestEnv;
use k8s_openapi::api::apps::v1::Deployment;

use crate::world::{create, runs, start, wait_for_run};

#[test]
fn a_deployment_comes_back_although_its_deletion_was_missed() -> Result<()> {
    let outage = Outage::default();
    TestEnv::builder().hook(outage.clone()).test(async |env| {
        start(&env).await?;
        let first = create(&env, "web", Some(2)).await?;
        wait_for_run(&env, "web", "Foo created").await?;
        env.clock().sleep(Duration::from_secs(1)).await;
        let before = runs(&env, "web").len();

        outage.begins();
        env.client().delete_object(&first).await?;
        env.clock().sleep(Duration::from_secs(5)).await;
        // The server forgets what happened: whoever comes back has to list, and finds that something is missing.
        env.server().expect("it is embedded").compact();
        assert_eq!(runs(&env, "web").len(), before, "nobody knows yet");

        outage.ends();
        let other = |deployment: &Deployment| deployment.metadata.uid != first.metadata.uid;
        env.within(Duration::from_secs(60)).wait_for::<Deployment>("web", other).await?;
        let change = format!("Deployment {}/web deleted", env.namespace());
        wait_for_run(&env, "web", &change).await
    })
}

/// Nobody can list or watch Deployments while it lasts.
#[derive(Clone, Default)]
struct Outage(Arc<AtomicBool>);

impl Outage {
    fn begins(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn ends(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    fn hits(&self, call: &Call) -> bool {
        self.0.load(Ordering::Relaxed)
            && call.resource == "deployments"
            && matches!(call.verb.as_str(), "list" | "watch")
    }
}

impl Hook for Outage {
    fn before<'a>(&'a self, call: &'a Call) -> HookFuture<'a, Verdict> {
        let verdict = if self.hits(call) { Verdict::Disconnect } else { Verdict::Proceed };
        Box::pin(std::future::ready(verdict))
    }

    fn frame<'a>(&'a self, call: &'a Call, _: WatchFrame<'a>) -> HookFuture<'a, FrameVerdict> {
        let verdict = if self.hits(call) { FrameVerdict::Disconnect } else { FrameVerdict::Send };
        Box::pin(std::future::ready(verdict))
    }
}
