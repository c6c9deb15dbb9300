//! The custom kinds that an operator declares, and their installation before anything needs them.

use std::sync::{Mutex, PoisonError};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;

use super::error::ManagerError;
use crate::{Cluster, DefinitionError, DefinitionInstaller};

/// Declared definitions, in the order of their declaration.
#[derive(Default)]
pub(super) struct Definitions {
    declared: Mutex<Vec<CustomResourceDefinition>>,
    /// Whether the manager installs them when it starts.
    pub(super) install: bool,
}

impl Definitions {
    pub(super) fn new(install: bool) -> Self {
        Self { declared: Mutex::default(), install }
    }

    pub(super) fn declare(&self, definition: CustomResourceDefinition) {
        let mut declared = self.declared.lock().unwrap_or_else(PoisonError::into_inner);
        if !declared.contains(&definition) {
            declared.push(definition);
        }
    }

    pub(super) fn all(&self) -> Result<Vec<CustomResourceDefinition>, ManagerError> {
        let declared = self.declared.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut merged: Vec<CustomResourceDefinition> = Vec::new();
        for definition in declared {
            let name = definition.name_any();
            match merged.iter_mut().find(|earlier| earlier.name_any() == name) {
                None => merged.push(definition),
                Some(earlier) => merge(earlier, definition)
                    .map_err(|problem| ManagerError::CrdConflict { name, problem })?,
            }
        }
        for definition in &merged {
            check_storage(definition)
                .map_err(|problem| ManagerError::CrdConflict { name: definition.name_any(), problem })?;
        }
        Ok(merged)
    }

    /// Installs all definitions, if the manager is to do that.
    pub(super) async fn install_on(&self, cluster: &Cluster) -> Result<(), DefinitionError> {
        if !self.install {
            return Ok(());
        }
        let installer = DefinitionInstaller::new(cluster.clock(), cluster.kube_client().clone());
        // `begin` checked that there is no conflict.
        for definition in self.all().unwrap_or_default() {
            // The future is large, and would be part of every manager's.
            Box::pin(installer.install(&definition)).await?;
            tracing::info!(crd = definition.name_any(), "CRD installed");
        }
        Ok(())
    }
}

/// Adds the versions of a definition to an earlier one of the same kind.
fn merge(earlier: &mut CustomResourceDefinition, later: CustomResourceDefinition) -> Result<(), String> {
    let (into, from) = (&mut earlier.spec, later.spec);
    let differs = |what: &str| Err(format!("their {what} differ: give all versions the same"));
    for version in from.versions {
        let name = &version.name;
        if into.versions.iter().any(|known| known.name == *name) {
            return Err(format!("the version {name} differs: declare each version once"));
        }
        into.versions.push(version);
    }
    if into.names != from.names {
        return differs("names");
    }
    if into.scope != from.scope {
        return differs("scopes");
    }
    Ok(())
}

/// Whether exactly one of several versions is stored.
fn check_storage(definition: &CustomResourceDefinition) -> Result<(), String> {
    let versions = &definition.spec.versions;
    let stored: Vec<_> = versions.iter().filter(|version| version.storage).collect();
    match stored.len() {
        1 => Ok(()),
        // The server says what is wrong with a single version.
        _ if versions.len() < 2 => Ok(()),
        0 => Err("no version is stored: remove `storage = false` from one of them".to_owned()),
        _ => {
            let names: Vec<_> = stored.iter().map(|version| version.name.as_str()).collect();
            let names = names.join(", ");
            Err(format!("{names} are all stored: write `storage = false` in `#[kube]` of all but one"))
        }
    }
}
