//! Objects in files: from files to documents, and from documents to the plane.

use std::io;
use std::path::Path;

use bowline_clock::Clock;
use bowline_runtime::{DefinitionError, DefinitionInstaller};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::core::{DynamicObject, GroupVersionKind};
use kube::discovery::{Scope, pinned_kind};
use kube::{Api, ResourceExt as _};
use serde_json::Value;

/// Why the objects of a file are not on the plane.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// A file cannot be read.
    #[error("cannot read {file}")]
    Read {
        /// Its path.
        file: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A document is not an object of Kubernetes.
    #[error("{place}: {problem}")]
    Document {
        /// File and number of the document.
        place: String,
        /// The mistake in it.
        problem: String,
    },
    /// A definition of a custom kind cannot be installed.
    #[error("{place}")]
    Definition {
        /// File and number of the document.
        place: String,
        /// The installer's error.
        source: DefinitionError,
    },
    /// The plane refuses an object.
    #[error("{place}: cannot create {object}: {problem}")]
    Refused {
        /// File and number of the document.
        place: String,
        /// Kind and name.
        object: String,
        /// The server's message.
        problem: String,
    },
}

/// One object to create.
#[derive(Debug)]
pub(crate) struct Document {
    /// File and number of the document, for errors.
    place: String,
    kind: GroupVersionKind,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Definition(Box<CustomResourceDefinition>),
    Object(Box<DynamicObject>),
}

/// Reads the documents of a file: YAML, or JSON.
pub(crate) fn read(path: &Path) -> Result<Vec<Document>, ObjectError> {
    let file = path.display().to_string();
    let text =
        std::fs::read_to_string(path).map_err(|source| ObjectError::Read { file: file.clone(), source })?;
    parse(&file, &text)
}

/// Reads the documents of a text. Documents without content are left out; a `List` stands for its items.
pub(crate) fn parse(file: &str, text: &str) -> Result<Vec<Document>, ObjectError> {
    let values = match json(text) {
        Some(values) => values,
        None => yaml(file, text)?,
    };
    let mut documents = Vec::new();
    for (number, value) in values {
        let place = format!("{file}, document {number}");
        if value["kind"] != "List" {
            documents.push(Document::new(place, value)?);
            continue;
        }
        let Some(Value::Array(items)) = value.get("items") else {
            return Err(document(&place, "a List has an array `items`"));
        };
        for (item, value) in (1..).zip(items) {
            documents.push(Document::new(format!("{place}, item {item}"), value.clone())?);
        }
    }
    Ok(documents)
}

/// JSON values one after the other, which YAML does not allow; none if the text is something else.
fn json(text: &str) -> Option<Vec<(usize, Value)>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let values: Result<Vec<_>, _> = serde_json::Deserializer::from_str(text).into_iter::<Value>().collect();
    Some((1..).zip(values.ok()?).collect())
}

fn yaml(file: &str, text: &str) -> Result<Vec<(usize, Value)>, ObjectError> {
    let mut values = Vec::new();
    for (number, (first_line, text)) in (1..).zip(split(text)) {
        if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            continue;
        }
        let value = serde_saphyr::from_str::<Value>(text).map_err(|error| {
            let line = error.location().and_then(|place| usize::try_from(place.line()).ok());
            let line = line.map(|line| format!(", at line {}", first_line + line));
            let problem = format!("it is not valid YAML or JSON{}", line.unwrap_or_default());
            document(&format!("{file}, document {number}"), &problem)
        })?;
        if !value.is_null() {
            values.push((number, value));
        }
    }
    Ok(values)
}

/// The documents of a YAML text, each with the number of lines before it. A line `---` begins one, also inside a block
/// scalar; before the first such line there is none if there is no content.
fn split(text: &str) -> Vec<(usize, &str)> {
    let mut documents = Vec::new();
    let (mut begin, mut first_line, mut offset) = (0, 0, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let is_marker = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']));
        if is_marker {
            if !text[..offset].trim().is_empty() {
                documents.push((first_line, &text[begin..offset]));
            }
            (begin, first_line) = (offset, number);
        }
        offset += line.len();
    }
    documents.push((first_line, &text[begin..]));
    documents
}

fn document(place: &str, problem: &str) -> ObjectError {
    ObjectError::Document { place: place.to_owned(), problem: problem.to_owned() }
}

impl Document {
    fn new(place: String, object: Value) -> Result<Self, ObjectError> {
        if !object.is_object() {
            return Err(document(&place, "it is not an object with apiVersion, kind and metadata"));
        }
        let text = |field: &str| {
            let value = object[field].as_str().filter(|value| !value.is_empty());
            value.ok_or_else(|| document(&place, &format!("it has no {field}")))
        };
        let (api_version, kind) = (text("apiVersion")?, text("kind")?);
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let kind = GroupVersionKind::gvk(group, version, kind);
        let metadata = &object["metadata"];
        if ["name", "generateName"]
            .iter()
            .all(|field| metadata[field].as_str().unwrap_or_default().is_empty())
        {
            return Err(document(&place, &format!("this {} has no metadata.name", kind.kind)));
        }
        let as_object = serde_json::from_value::<DynamicObject>(object.clone());
        let as_object =
            as_object.map_err(|error| document(&place, &format!("its metadata is not valid: {error}")))?;
        let content = if kind.group == "apiextensions.k8s.io" && kind.kind == "CustomResourceDefinition" {
            let definition = serde_json::from_value(object).map_err(|error| {
                document(&place, &format!("it is not a valid CustomResourceDefinition: {error}"))
            })?;
            Content::Definition(definition)
        } else {
            Content::Object(Box::new(as_object))
        };
        Ok(Self { place, kind, content })
    }

    async fn create(self, client: &kube::Client, clock: &Clock) -> Result<(), ObjectError> {
        let Self { place, kind, content } = self;
        let object = match content {
            Content::Object(object) => object,
            Content::Definition(definition) => {
                // Later documents may be of this kind.
                let installed = DefinitionInstaller::new(clock, client.clone()).install(&definition).await;
                return installed.map_err(|source| ObjectError::Definition { place, source });
            }
        };
        let refused = |problem| {
            let object = format!("{} {}", kind.kind, object.name_any());
            ObjectError::Refused { place: place.clone(), object, problem }
        };
        // A group or version that does not exist is a 404 without more.
        let unknown = |_| {
            let (kind, version) = (&kind.kind, kind.api_version());
            refused(format!(
                "the plane has no kind {kind} in {version}: declare it with `Manager::crd`, or apply its CRD first"
            ))
        };
        let (resource, capabilities) = pinned_kind(client, &kind).await.map_err(unknown)?;
        let objects = if capabilities.scope == Scope::Namespaced {
            let namespace = object.namespace().unwrap_or_else(|| "default".to_owned());
            Api::<DynamicObject>::namespaced_with(client.clone(), &namespace, &resource)
        } else {
            Api::all_with(client.clone(), &resource)
        };
        let created = objects.create(&PostParams::default(), &object).await;
        let created = created.map_err(|error| match error {
            kube::Error::Api(status) => refused(status.message.clone()),
            other => refused(bowline_runtime::Error::from(other).to_string()),
        })?;
        let (kind, name) = (&kind.kind, created.name_any());
        tracing::info!(kind, namespace = created.namespace(), name, "object created");
        Ok(())
    }
}

/// Creates the objects in this order. Objects of namespaced kinds without a namespace go to `default`.
pub(crate) async fn create(
    client: &kube::Client,
    clock: &Clock,
    documents: Vec<Document>,
) -> Result<(), ObjectError> {
    for document in documents {
        document.create(client, clock).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
