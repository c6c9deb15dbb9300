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
        for (index, definition) in declared.iter().enumerate() {
            let name = definition.name_any();
            if declared[..index].iter().any(|earlier| earlier.name_any() == name) {
                return Err(ManagerError::CrdConflict { name });
            }
        }
        Ok(declared)
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
