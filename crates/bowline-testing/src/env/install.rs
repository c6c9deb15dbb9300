//! CRDs: from types, text or files to a server that serves them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bowline_runtime::{DefinitionError, DefinitionInstaller};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::Value;

use super::TestEnv;

/// Annotation of CRDs that tests created.
const CREATED_BY: &str = "testing.bowline.dev/created-by";

/// Value of the annotation.
const CREATOR: &str = "bowline-testing";

/// Why a CRD is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A text is not YAML, or has documents that are no CRDs.
    #[error("{origin} is not a list of CRDs: {problem}")]
    Text {
        /// The file, or `the text`.
        origin: String,
        /// The mistake.
        problem: String,
    },
    /// There is no CRD to install.
    #[error("{origin} has no CRD")]
    Nothing {
        /// The file or directory, or `the text`.
        origin: String,
    },
    /// The server rejects the CRD, or does not serve it.
    #[error("{}", explain(.0))]
    Definition(#[from] DefinitionError),
}

impl TestEnv {
    /// Installs the CRD of a type, and waits until its kind is served.
    ///
    /// An existing CRD is left alone if it is equal, and replaced otherwise: on [`Arm::Existing`](super::Arm::Existing) only
    /// if a test created it (it has an annotation) or the
    /// [options](super::TestEnvBuilder::replace_definitions) allow it.
    ///
    /// # Errors
    /// [`InstallError`] if the server rejects it, or does not serve it in time.
    pub async fn install<K: CustomResourceExt>(&self) -> Result<&Self, InstallError> {
        self.install_definition(&K::crd()).await
    }

    /// Installs the CRDs in a text of YAML or JSON, with one document or several, as [`install`](Self::install).
    ///
    /// # Errors
    /// [`InstallError`], also if a document is no CRD.
    pub async fn install_yaml(&self, text: &str) -> Result<&Self, InstallError> {
        for definition in parse("the text", text)? {
            self.install_definition(&definition).await?;
        }
        Ok(self)
    }

    /// Installs the CRDs in a file, or in all files of a directory that end in `.yaml`, `.yml` or `.json`, in the order of
    /// their names, as [`install_yaml`](Self::install_yaml).
    ///
    /// # Errors
    /// [`InstallError`], also if there is no CRD.
    pub async fn install_from(&self, path: impl AsRef<Path>) -> Result<&Self, InstallError> {
        let path = path.as_ref();
        let mut definitions = Vec::new();
        for file in files(path).map_err(|source| InstallError::Read { path: path.to_owned(), source })? {
            let text = fs::read_to_string(&file)
                .map_err(|source| InstallError::Read { path: file.clone(), source })?;
            definitions.extend(parse(&file.display().to_string(), &text)?);
        }
        if definitions.is_empty() {
            return Err(InstallError::Nothing { origin: path.display().to_string() });
        }
        for definition in definitions {
            self.install_definition(&definition).await?;
        }
        Ok(self)
    }

    /// Installs a CRD, as [`install`](Self::install).
    ///
    /// # Errors
    /// [`InstallError`] if the server rejects it, or does not serve it in time.
    pub async fn install_definition(
        &self,
        definition: &CustomResourceDefinition,
    ) -> Result<&Self, InstallError> {
        let installer = DefinitionInstaller::new(self.clock(), self.kube_client().clone())
            .timeout(self.timeout)
            .owner(CREATED_BY, CREATOR)
            .keep_foreign(!self.inner.may_replace_definitions);
        installer.install(definition).await?;
        Ok(self)
    }
}

/// The error with a remedy for tests.
fn explain(error: &DefinitionError) -> String {
    match error {
        DefinitionError::Foreign { .. } => {
            format!("{error}: use another cluster, or allow it with `TestEnvBuilder::replace_definitions`")
        }
        _ => error.to_string(),
    }
}

fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let file = entry?.path();
        let extension = file.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("yaml" | "yml" | "json")) && file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

fn parse(origin: &str, text: &str) -> Result<Vec<CustomResourceDefinition>, InstallError> {
    let wrong = |problem: String| InstallError::Text { origin: origin.to_owned(), problem };
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| wrong(error.to_string()))?;
    let mut definitions = Vec::new();
    for document in documents.into_iter().filter(|document| !document.is_null()) {
        let kind = document.get("kind").and_then(Value::as_str).unwrap_or_default();
        if kind != "CustomResourceDefinition" {
            return Err(wrong(format!("one of its documents is of kind {kind:?}")));
        }
        definitions.push(serde_json::from_value(document).map_err(|error| wrong(error.to_string()))?);
    }
    if definitions.is_empty() {
        return Err(InstallError::Nothing { origin: origin.to_owned() });
    }
    Ok(definitions)
}
