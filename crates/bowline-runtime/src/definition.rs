//! Definitions of custom kinds (CRDs): how one gets onto a server, and when its kind is served.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use bowline_clock::Clock;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, PostParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, ResourceExt as _};

use crate::error::describe;

/// Time between two checks of a definition that is not established yet.
const POLL: Duration = Duration::from_millis(10);

/// How definitions of custom kinds are installed on an API server.
///
/// [`install`](Self::install) creates a definition, or replaces the spec of one that differs, and waits until the server
/// serves the kind. Installing the same definition again changes nothing.
///
/// ```no_run
/// # use bowline_runtime::{Cluster, DefinitionInstaller, Result};
/// # use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
/// # async fn install(cluster: &Cluster, crd: &CustomResourceDefinition) -> Result<()> {
/// DefinitionInstaller::new(cluster.clock(), cluster.kube_client().clone()).install(crd).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "an installer does nothing until `install`"]
pub struct DefinitionInstaller {
    clock: Clock,
    kube: kube::Client,
    timeout: Duration,
    owner: Option<(String, String)>,
    keep_foreign: bool,
}

/// Why a custom kind is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionError {
    /// The server refuses the definition.
    #[error("cannot install the CRD {name}: {}", server_message(error))]
    Refused {
        /// Its name, `PLURAL.GROUP`.
        name: String,
        /// The server's error. It is no source, because its text repeats the whole `Status`.
        error: Box<kube::Error>,
    },
    /// Another definition of this name exists, and the installer did not create it.
    #[error("the CRD {name} on this server differs from the one to install, and another party created it")]
    Foreign {
        /// Its name, `PLURAL.GROUP`.
        name: String,
    },
    /// The server took the definition, but does not serve the kind.
    #[error("the CRD {name} is not served after {limit:?}: {problem}")]
    NotServed {
        /// Its name, `PLURAL.GROUP`.
        name: String,
        /// The time limit.
        limit: Duration,
        /// The last answer of the server.
        problem: String,
    },
}

impl DefinitionInstaller {
    /// An installer for one API server.
    pub fn new(clock: &Clock, kube: kube::Client) -> Self {
        Self {
            clock: clock.clone(),
            kube,
            timeout: Duration::from_secs(30),
            owner: None,
            keep_foreign: false,
        }
    }

    /// Time limit for the whole installation, until the server serves the kind. Default: 30 seconds.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }

    /// An annotation that marks the definitions which this installer creates. Default: none.
    pub fn owner(mut self, annotation: impl Into<String>, value: impl Into<String>) -> Self {
        self.owner = Some((annotation.into(), value.into()));
        self
    }

    /// Whether definitions that differ, and do not have the [owner's](Self::owner) annotation, are left as they are:
    /// [`DefinitionError::Foreign`]. Default: no, they are replaced.
    pub fn keep_foreign(mut self, keep: bool) -> Self {
        self.keep_foreign = keep;
        self
    }

    /// Installs a definition, and waits until all its served versions can be listed. A definition of this name that is being
    /// deleted is not replaced: the new one is created when the old one is gone.
    ///
    /// # Errors
    /// When the server refuses the definition, does not serve the kind in time, or has a foreign definition that is
    /// [kept](Self::keep_foreign).
    pub async fn install(&self, definition: &CustomResourceDefinition) -> Result<(), DefinitionError> {
        let name = definition.name_any();
        let mut problem = "the server did not answer".to_owned();
        let served = async {
            loop {
                match self.put(definition, &mut problem).await {
                    Ok(true) => {}
                    Ok(false) => return Err(DefinitionError::Foreign { name: name.clone() }),
                    Err(error) => {
                        return Err(DefinitionError::Refused { name: name.clone(), error: Box::new(error) });
                    }
                }
                loop {
                    match self.check_served(&name).await {
                        Ok(()) => return Ok(()),
                        // Another process deletes it: it is created again after that.
                        Err(Unserved::Deleted) => break,
                        Err(Unserved::NotYet(reason)) => problem = reason,
                    }
                    self.clock.sleep(POLL).await;
                }
            }
        };
        match self.clock.timeout(self.timeout, served).await {
            Ok(outcome) => outcome,
            Err(_) => Err(DefinitionError::NotServed { name, limit: self.timeout, problem }),
        }
    }

    /// Whether the server has this definition now. If not, it has a foreign one. `problem` is why it has neither yet.
    async fn put(&self, definition: &CustomResourceDefinition, problem: &mut String) -> kube::Result<bool> {
        let definitions = Api::<CustomResourceDefinition>::all(self.kube.clone());
        let name = definition.name_any();
        let mut created = definition.clone();
        if let Some((annotation, value)) = &self.owner {
            created.annotations_mut().insert(annotation.clone(), value.clone());
        }
        loop {
            match definitions.create(&PostParams::default(), &created).await {
                Ok(_) => return Ok(true),
                Err(kube::Error::Api(status)) if status.is_already_exists() => {}
                Err(error) => return Err(error),
            }
            let mut current = definitions.get_opt(&name).await?;
            while current.as_ref().is_some_and(is_being_deleted) {
                "the one that exists is being deleted".clone_into(problem);
                self.clock.sleep(POLL).await;
                current = definitions.get_opt(&name).await?;
            }
            if let Some(current) = current {
                let may_replace = !self.keep_foreign || self.owns(current.annotations());
                let wanted = CustomResourceDefinition { spec: definition.spec.clone(), ..current.clone() };
                // A server keeps the revision of an object that does not change.
                let params = PostParams { dry_run: !may_replace, ..PostParams::default() };
                match definitions.replace(&name, &params, &wanted).await {
                    Ok(replaced) => return Ok(may_replace || replaced.spec == current.spec),
                    Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => {
                        problem.clone_from(&status.message);
                    }
                    Err(error) => return Err(error),
                }
            }
            // It was deleted between the two requests, or is being changed by another process.
            self.clock.sleep(POLL).await;
        }
    }

    fn owns(&self, annotations: &BTreeMap<String, String>) -> bool {
        self.owner.as_ref().is_some_and(|(annotation, value)| annotations.get(annotation) == Some(value))
    }

    /// Whether the kind can be listed: a server reports `Established` a moment before that.
    async fn check_served(&self, name: &str) -> Result<(), Unserved> {
        let not_yet = |error: kube::Error| Unserved::NotYet(server_message(&error));
        let definitions = Api::<CustomResourceDefinition>::all(self.kube.clone());
        let definition = definitions.get_opt(name).await.map_err(not_yet)?;
        // One that is being deleted may be established until its end.
        let Some(definition) = definition.filter(|definition| !is_being_deleted(definition)) else {
            return Err(Unserved::Deleted);
        };
        let conditions = definition.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let conditions: Vec<_> = conditions.collect();
        if !conditions.iter().any(|is| is.type_ == "Established" && is.status == "True") {
            let states = conditions.iter().map(|is| {
                format!("{} is {}: {}", is.type_, is.status, is.message.as_deref().unwrap_or_default())
            });
            let states = states.collect::<Vec<_>>().join("; ");
            return Err(Unserved::NotYet(format!("it is not established ({states})")));
        }
        let spec = &definition.spec;
        for version in spec.versions.iter().filter(|version| version.served) {
            let resource = ApiResource {
                group: spec.group.clone(),
                version: version.name.clone(),
                api_version: format!("{}/{}", spec.group, version.name),
                kind: spec.names.kind.clone(),
                plural: spec.names.plural.clone(),
            };
            let objects = Api::<DynamicObject>::all_with(self.kube.clone(), &resource);
            let one = ListParams::default().limit(1);
            objects.list_metadata(&one).await.map_err(not_yet)?;
        }
        Ok(())
    }
}

impl fmt::Debug for DefinitionInstaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DefinitionInstaller").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// Why a kind is not served.
enum Unserved {
    /// Its definition does not exist, or is being deleted.
    Deleted,
    /// Any other reason.
    NotYet(String),
}

fn is_being_deleted(definition: &CustomResourceDefinition) -> bool {
    definition.metadata.deletion_timestamp.is_some()
}

/// The message of a server's error, or the error itself if it has another cause.
fn server_message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        _ => describe(error),
    }
}
