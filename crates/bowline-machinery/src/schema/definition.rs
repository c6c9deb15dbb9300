//! `CustomResourceDefinition` itself: its defaults, and its validation on create and update.

mod conversion;
mod rules;
mod shown;
mod spec;
mod version;

use serde_json::{Map, Value};

use crate::{
    FieldError, FieldPath, name_is_dns_subdomain, validate_immutable, validate_object_meta,
    validate_object_meta_update,
};
use rules::{Options, names, validate_spec};
use spec::{Definition, text, texts};

/// Validates a new `CustomResourceDefinition`. Expects its defaults, from [`default_crd`].
///
/// Runs all checks of Kubernetes, except that rules of `x-kubernetes-validations` are not compiled.
#[must_use]
pub fn validate_crd(crd: &Value) -> Vec<FieldError> {
    let definition = match Definition::read(crd) {
        Ok(definition) => definition,
        Err(errors) => return errors,
    };
    let mut errors = metadata(crd, &definition);
    errors.extend(validate_spec(&definition, &Options::for_create()));
    errors.extend(status(crd, &definition));
    errors.extend(approval(crd, &definition, None));
    errors.extend(preserved_fields(&definition, None));
    errors
}

/// Validates a `CustomResourceDefinition` that replaces another. Expects both with their defaults, and the status as it
/// will be stored.
#[must_use]
pub fn validate_crd_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let definition = match Definition::read(new) {
        Ok(definition) => definition,
        Err(errors) => return errors,
    };
    // A definition that cannot be read was never stored; it relaxes no rule.
    let old_definition = Definition::read(old).unwrap_or_default();
    let options = Options::for_update(&definition, &old_definition, is_established(old));
    let spec = FieldPath::new("spec");
    let mut errors =
        validate_object_meta_update(&new["metadata"], &old["metadata"], &FieldPath::new("metadata"));
    errors.extend(validate_spec(&definition, &options));
    let is_same = |new: &str, old: &str, path: FieldPath| validate_immutable(&new.into(), &old.into(), &path);
    if options.is_established {
        errors.extend(is_same(&definition.scope, &old_definition.scope, spec.child("scope")));
        let at = spec.child("names").child("kind");
        errors.extend(is_same(&definition.names.kind, &old_definition.names.kind, at));
    }
    errors.extend(is_same(&definition.group, &old_definition.group, spec.child("group")));
    let at = spec.child("names").child("plural");
    errors.extend(is_same(&definition.names.plural, &old_definition.names.plural, at));
    errors.extend(status(new, &definition));
    errors.extend(approval(new, &definition, Some(old)));
    errors.extend(preserved_fields(&definition, Some(&old_definition)));
    errors
}

/// Sets the defaults of a `CustomResourceDefinition`: names, the conversion strategy, the port of a conversion webhook,
/// and the stored versions.
pub fn default_crd(crd: &mut Value) {
    let Some(crd) = crd.as_object_mut() else { return };
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(names) = object(spec, "names") {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let is_empty = |names: &Map<String, Value>, name| {
            names.get(name).and_then(Value::as_str).is_none_or(str::is_empty)
        };
        if is_empty(names, "singular") && !kind.is_empty() {
            names.insert("singular".to_owned(), kind.to_lowercase().into());
        }
        if is_empty(names, "listKind") && !kind.is_empty() {
            names.insert("listKind".to_owned(), format!("{kind}List").into());
        }
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".to_owned(), serde_json::json!({"strategy": "None"}));
    }
    if let Some(service) = spec
        .get_mut("conversion")
        .and_then(|conversion| conversion.pointer_mut("/webhook/clientConfig/service"))
        .and_then(Value::as_object_mut)
        && service.get("port").is_none_or(Value::is_null)
    {
        service.insert("port".to_owned(), 443.into());
    }
    let versions = spec.get("versions").and_then(Value::as_array);
    let storage = versions.into_iter().flatten().find(|version| version["storage"] == true);
    let storage = storage.map(|version| version["name"].clone());
    let status = crd.entry("status").or_insert_with(|| Map::new().into());
    if let (Some(storage), Some(status)) = (storage, status.as_object_mut())
        && status.get("storedVersions").and_then(Value::as_array).is_none_or(Vec::is_empty)
    {
        status.insert("storedVersions".to_owned(), Value::Array(vec![storage]));
    }
}

fn object<'v>(map: &'v mut Map<String, Value>, name: &str) -> Option<&'v mut Map<String, Value>> {
    map.get_mut(name).and_then(Value::as_object_mut)
}

fn is_established(crd: &Value) -> bool {
    let conditions = crd["status"]["conditions"].as_array();
    let established = conditions.into_iter().flatten().find(|condition| condition["type"] == "Established");
    established.is_some_and(|condition| condition["status"] == "True")
}

/// Validates metadata: the name must be that of the resource.
fn metadata(crd: &Value, definition: &Definition) -> Vec<FieldError> {
    let path = FieldPath::new("metadata");
    let metadata = &crd["metadata"];
    let mut errors = validate_object_meta(metadata, false, name_is_dns_subdomain, &path);
    let expected = format!("{}.{}", definition.names.plural, definition.group);
    for field in ["generateName", "name"] {
        let (name, at) = (text(metadata, field), path.child(field));
        if name.is_empty() || name == expected {
            continue;
        }
        let earlier = |error: &FieldError| error.path == at || error.path == path.child("generateName");
        let place = errors.iter().take_while(|error| earlier(error)).count();
        let detail = r#"must be spec.names.plural+"."+spec.group"#;
        errors.insert(place, FieldError::invalid(&at, name, detail));
    }
    errors
}

fn status(crd: &Value, definition: &Definition) -> Vec<FieldError> {
    let path = FieldPath::new("status");
    let accepted = spec::Names::read(&crd["status"]["acceptedNames"]);
    let mut errors = names(&accepted, &path.child("acceptedNames"));
    let path = path.child("storedVersions");
    let stored = texts(&crd["status"], "storedVersions");
    if stored.is_empty() {
        let shown = crd["status"]["storedVersions"].clone();
        errors.push(FieldError::invalid(&path, shown, "must have at least one stored version"));
        return errors;
    }
    for version in
        definition.versions.iter().filter(|version| version.storage && !stored.contains(&version.name))
    {
        let detail = format!("must have the storage version {}", version.name);
        errors.push(FieldError::invalid(&path, stored.clone(), detail));
    }
    for (index, name) in stored.iter().enumerate() {
        if definition.versions.iter().any(|version| version.name == *name) {
            continue;
        }
        let detail = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
        );
        errors.push(FieldError::invalid(&path.index(index), name.as_str(), detail));
    }
    errors
}

const APPROVAL: &str = "api-approved.kubernetes.io";

#[derive(PartialEq)]
enum Approval {
    Missing,
    Bypassed,
    Approved,
    Invalid,
}

impl Approval {
    fn of(annotation: &str) -> Self {
        if annotation.is_empty() {
            return Self::Missing;
        }
        if annotation.starts_with("unapproved") {
            return Self::Bypassed;
        }
        let uri = super::uri::parse_request(annotation);
        let is_url = uri.is_ok_and(|uri| !uri.host.is_empty() && !uri.scheme.is_empty());
        if is_url { Self::Approved } else { Self::Invalid }
    }
}

/// Checks the approval annotation, which groups of the Kubernetes community need.
fn approval(crd: &Value, definition: &Definition, old: Option<&Value>) -> Option<FieldError> {
    let is_protected = ["k8s.io", "kubernetes.io"].into_iter().any(|domain| {
        definition.group.strip_suffix(domain).is_some_and(|front| front.is_empty() || front.ends_with('.'))
    });
    let annotation =
        |crd: &'_ Value| crd["metadata"]["annotations"][APPROVAL].as_str().unwrap_or_default().to_owned();
    let value = annotation(crd);
    let approval = Approval::of(&value);
    if !is_protected || old.is_some_and(|old| Approval::of(&annotation(old)) == approval) {
        return None;
    }
    let path = FieldPath::new("metadata").child("annotations").key(APPROVAL);
    let needed = format!("protected groups must have approval annotation \"{APPROVAL}\"");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    match approval {
        Approval::Missing => Some(FieldError::required(&path, format!("{needed}, {see}"))),
        Approval::Invalid => {
            let forms = "with either a URL or a reason starting with \"unapproved\"";
            Some(FieldError::invalid(&path, value, format!("{needed} {forms}, {see}")))
        }
        Approval::Approved | Approval::Bypassed => None,
    }
}

fn preserved_fields(definition: &Definition, old: Option<&Definition>) -> Option<FieldError> {
    let had_it = old.is_some_and(|old| old.preserve_unknown_fields);
    let path = FieldPath::new("spec").child("preserveUnknownFields");
    let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
    (definition.preserve_unknown_fields && !had_it).then(|| FieldError::invalid(&path, true, detail))
}
