//! An operator on a plane: from flags to a manager that installs its kinds, creates objects and greets.

mod greeting;

use std::io::Write as _;
use std::path::PathBuf;

use bowline_clock::Clock;
use bowline_runtime::transport::ConfigSearch;
use bowline_runtime::{Error, ManagerBuilder, Runnable, Stage};

use self::greeting::Greeting;
use super::assembly::ArgsError;
use super::cluster::{Located, PlaneContents};
use super::flags::ManagerFlags;
use crate::plane::objects::{self, Document};
use crate::plane::{ObjectError, Plane};

impl ManagerFlags {
    /// Reads the objects, and then starts a plane. The manager installs its declared kinds there, creates the objects, prints
    /// the greeting, and stops the plane after itself.
    pub(super) async fn start_plane(&self, contents: &PlaneContents) -> Result<Located, ArgsError> {
        let documents = self.documents(contents)?;
        let program = super::program(std::env::args_os().next().as_ref());
        let plane = Plane::start(&program).await?;
        let config = ConfigSearch::new().kubeconfig(plane.kubeconfig()).find().await?;
        let greeting = Greeting {
            program,
            address: plane.address().to_owned(),
            kubeconfig: plane.kubeconfig().to_owned(),
            hints: contents.hints.clone(),
        };
        let client = plane.kube_client();
        // The declared kinds are served before this stage. Later stages do not wait for its end: controllers may reconcile an
        // object before the next one is created, or refused.
        let prepare = Runnable::new("plane", |_| prepare(client, documents, greeting)).in_stage(Stage::Cache);
        let extend = |builder: ManagerBuilder| {
            builder.install_crds(true).runnable(prepare).on_stopped(|| async {
                plane.stop().await;
            })
        };
        Ok(Located { config, origin: "plane".to_owned(), extend: Some(Box::new(extend)) })
    }

    /// The files of `--apply`, without empty paths.
    pub(super) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.apply.iter().filter(|file| !file.as_os_str().is_empty())
    }

    /// The objects of `--apply`, or else those of the program.
    fn documents(&self, contents: &PlaneContents) -> Result<Vec<Document>, ObjectError> {
        let mut documents = Vec::new();
        for file in self.files() {
            documents.extend(objects::read(file)?);
        }
        if self.files().next().is_none() {
            for (number, text) in (1..).zip(&contents.samples) {
                documents.extend(objects::parse(&format!("sample {number} of this program"), text)?);
            }
        }
        Ok(documents)
    }
}

async fn prepare(client: kube::Client, documents: Vec<Document>, greeting: Greeting) -> Result<(), Error> {
    objects::create(&client, &Clock::real(), documents).await?;
    let text = greeting.text(&client).await;
    if let Err(error) = std::io::stdout().write_all(text.as_bytes()) {
        let kubeconfig = greeting.kubeconfig.display();
        tracing::warn!(%error, %kubeconfig, "cannot print the greeting to the standard output");
    }
    Ok(())
}
