//! The demo: creates, changes and deletes a few pods. It uses nothing of the controller but its output.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bowline::clock::Clock;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use crate::Print;

/// The pod whose line cannot be printed.
const UNPRINTABLE: &str = "unprintable";

/// Pause between two steps, for readers and for the controller.
const PAUSE: Duration = Duration::from_millis(700);

/// A short demo that creates, changes and deletes pods.
#[derive(Clone)]
pub struct Demo {
    clock: Clock,
    pods: Api<Pod>,
    print: Print,
}

impl Demo {
    /// A demo in a namespace. It prints its steps with `print`.
    #[must_use]
    pub fn new(clock: Clock, client: Client, namespace: &str, print: Print) -> Self {
        Self { clock, pods: Api::namespaced(client, namespace), print }
    }

    /// The output for a controller: the same, with a failure for one pod.
    #[must_use]
    pub fn output(&self) -> Print {
        let (print, never) = (self.print.clone(), format!("Sync/Add/Update for Pod {UNPRINTABLE}"));
        Arc::new(
            move |line| {
                if line == never { Err(io::Error::other("the demo fails here")) } else { print(line) }
            },
        )
    }

    /// Creates, changes and deletes the pods. At the end none is left.
    ///
    /// # Errors
    /// When the server refuses a request.
    pub async fn play(&self) -> kube::Result<()> {
        self.clock.sleep(PAUSE).await;
        for name in ["web-1", "web-2"] {
            self.say(&format!("creating pod {name}"));
            self.create(name).await?;
            self.clock.sleep(PAUSE).await;
        }
        self.say(&format!("creating pod {UNPRINTABLE}, which fails five more times and is dropped"));
        self.create(UNPRINTABLE).await?;
        self.clock.sleep(PAUSE).await;
        self.say("changing pod web-1");
        self.label("web-1").await?;
        self.clock.sleep(PAUSE).await;
        for name in ["web-1", "web-2", UNPRINTABLE] {
            self.say(&format!("deleting pod {name}"));
            self.delete(name).await?;
            self.clock.sleep(PAUSE).await;
        }
        Ok(())
    }

    async fn create(&self, name: &str) -> kube::Result<()> {
        let spec = json!({"containers": [{"name": "pause", "image": "registry.k8s.io/pause:3.10"}]});
        let pod = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec}));
        self.pods.create(&PostParams::default(), &pod.map_err(kube::Error::SerdeError)?).await?;
        Ok(())
    }

    async fn label(&self, name: &str) -> kube::Result<()> {
        let patch = Patch::Merge(json!({"metadata": {"labels": {"demo": "seen"}}}));
        self.pods.patch(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    async fn delete(&self, name: &str) -> kube::Result<()> {
        // On a real cluster it would take half a minute otherwise.
        self.pods.delete(name, &DeleteParams::default().grace_period(0)).await?;
        Ok(())
    }

    /// Prints a step, between the lines of the controller.
    pub fn say(&self, text: &str) {
        // The demo goes on if nothing can be printed.
        let _ = (self.print)(&format!("-- {text}"));
    }
}
