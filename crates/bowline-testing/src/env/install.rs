//! Definitions of custom kinds: from types or from files to a server that serves them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, PostParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, CustomResourceExt, ResourceExt as _};
use serde_json::Value;

use super::TestEnv;
use super::error::said;

/// How often a definition is looked at until it is in force.
const LOOK: Duration = Duration::from_millis(10);

/// Why a custom kind is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which one.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A text is not YAML, or not a definition.
    #[error("{origin} holds no definitions: {problem}")]
    Text {
        /// The file, or `the text`.
        origin: String,
        /// What is wrong with it.
        problem: String,
    },
    /// There is nothing to install.
    #[error("{origin} holds no definition at all")]
    Nothing {
        /// The file or directory, or `the text`.
        origin: String,
    },
    /// The server does not take the definition.
    #[error("cannot install the definition of {name}: {}", said(source))]
    Refused {
        /// Which one, `PLURAL.GROUP`.
        name: String,
        /// What the server said.
        source: Box<kube::Error>,
    },
    /// The server took the definition, but does not serve the kind.
    #[error("{name} is not served after {limit:?}: {problem}")]
    NotServed {
        /// Which one, `PLURAL.GROUP`.
        name: String,
        /// How long was waited.
        limit: Duration,
        /// What was seen last.
        problem: String,
    },
}

impl TestEnv {
    /// Installs the definition of a custom kind, as its type describes it, and waits until the kind is served.
    ///
    /// One that is there already is left alone if it says the same, and is replaced if it says something else.
    ///
    /// # Errors
    /// [`InstallError`] when the server does not take it, or does not serve it in time.
    pub async fn install<K: CustomResourceExt>(&self) -> Result<&Self, InstallError> {
        self.install_definition(&K::crd()).await
    }

    /// Installs the definitions in a text: YAML or JSON, one document or several. Otherwise as [`install`](Self::install).
    ///
    /// # Errors
    /// [`InstallError`], also when the text holds anything but definitions.
    pub async fn install_yaml(&self, text: &str) -> Result<&Self, InstallError> {
        for definition in parse("the text", text)? {
            self.install_definition(&definition).await?;
        }
        Ok(self)
    }

    /// Installs the definitions in a file, or in all files of a directory that end in `.yaml`, `.yml` or `.json`, in the
    /// order of their names. Otherwise as [`install_yaml`](Self::install_yaml).
    ///
    /// # Errors
    /// [`InstallError`], also when there is none.
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

    /// Installs a definition. Otherwise as [`install`](Self::install).
    ///
    /// # Errors
    /// [`InstallError`] when the server does not take it, or does not serve it in time.
    pub async fn install_definition(
        &self,
        definition: &CustomResourceDefinition,
    ) -> Result<&Self, InstallError> {
        let name = definition.name_any();
        self.put(definition)
            .await
            .map_err(|source| InstallError::Refused { name: name.clone(), source: Box::new(source) })?;
        let mut problem = "the server did not answer".to_owned();
        let served = async {
            while let Err(what) = self.is_served(&name).await {
                problem = what;
                self.clock().sleep(LOOK).await;
            }
        };
        match self.clock().timeout(self.timeout, served).await {
            Ok(()) => Ok(self),
            Err(_) => Err(InstallError::NotServed { name, limit: self.timeout, problem }),
        }
    }

    async fn put(&self, definition: &CustomResourceDefinition) -> kube::Result<()> {
        let definitions = Api::<CustomResourceDefinition>::all(self.kube().clone());
        loop {
            match definitions.create(&PostParams::default(), definition).await {
                Ok(_) => return Ok(()),
                Err(kube::Error::Api(status)) if status.is_already_exists() => {}
                Err(error) => return Err(error),
            }
            // It may go again between two looks, or be changed by a test that runs beside this one.
            let Some(mut there) = definitions.get_opt(&definition.name_any()).await? else { continue };
            there.spec = definition.spec.clone();
            // A server keeps the revision of what did not change.
            match definitions.replace(&definition.name_any(), &PostParams::default(), &there).await {
                Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => {}
                done => return done.map(drop),
            }
        }
    }

    /// Whether a server serves what it says that it does: it says so a moment earlier.
    async fn is_served(&self, name: &str) -> Result<(), String> {
        let definitions = Api::<CustomResourceDefinition>::all(self.kube().clone());
        let definition = definitions.get(name).await.map_err(|error| said(&error))?;
        let conditions = definition.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let conditions: Vec<_> = conditions.collect();
        if !conditions.iter().any(|is| is.type_ == "Established" && is.status == "True") {
            let said = conditions.iter().map(|is| {
                format!("{} is {}: {}", is.type_, is.status, is.message.as_deref().unwrap_or_default())
            });
            return Err(format!("it is not established ({})", said.collect::<Vec<_>>().join("; ")));
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
            let objects = Api::<DynamicObject>::all_with(self.kube().clone(), &resource);
            let one = ListParams::default().limit(1);
            objects.list_metadata(&one).await.map_err(|error| said(&error))?;
        }
        Ok(())
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
