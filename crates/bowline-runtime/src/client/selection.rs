//! The selection of a kind's informers, from their cache options: decides whether informers keep a written object.

use std::collections::{BTreeMap, BTreeSet};

use bowline_cache::{InformerCache, Kind, Namespaces, ObjectKey};
use bowline_machinery::{FieldOperator, FieldSelector, LabelSelector};
use serde_json::Value;

use super::CachedNamespaces;

/// Objects of a kind that informers keep.
#[derive(Debug, Default)]
pub(super) struct Selection {
    parts: Vec<Part>,
}

/// Objects that informers keep in some namespaces.
#[derive(Debug)]
pub(super) struct Part {
    namespaces: Namespaces,
    labels: LabelSelector,
    fields: FieldSelector,
    keeps_managed_fields: bool,
}

/// Whether informers keep an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CacheCoverage {
    /// They keep it.
    Inside,
    /// They do not keep it, or this is not known.
    Outside,
    /// They do not cover its namespace, so it cannot be read from them.
    Uncovered,
}

impl Selection {
    pub(super) fn new<K: 'static>(cache: &InformerCache, kind: &Kind<K>) -> Self {
        // Readers get the error of invalid options.
        let parts = cache.coverage(kind).unwrap_or_default().into_iter();
        let parts = parts.filter_map(|part| {
            Some(Part {
                labels: LabelSelector::parse(&part.selectors.labels).ok()?,
                fields: FieldSelector::parse(&part.selectors.fields).ok()?,
                namespaces: part.namespaces,
                keeps_managed_fields: part.keep_managed_fields,
            })
        });
        Self { parts: parts.collect() }
    }

    /// The parts with objects of a namespace, or of all (`None`).
    pub(super) fn parts(&self, namespace: Option<&str>) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(move |part| namespace.is_none_or(|namespace| part.namespaces.has(namespace)))
    }

    /// The namespaces that informers cover.
    pub(super) fn namespaces(&self) -> CachedNamespaces {
        let mut names = BTreeSet::new();
        for part in &self.parts {
            match &part.namespaces {
                Namespaces::One(name) => names.insert(name.clone()),
                // A part for each namespace with options of its own, next to the part for all others.
                Namespaces::All | Namespaces::AllBut(_) => return CachedNamespaces::All,
            };
        }
        CachedNamespaces::Only(names)
    }

    /// Whether informers cover a namespace.
    pub(super) fn has(&self, namespace: &str) -> bool {
        self.parts(Some(namespace)).next().is_some()
    }

    /// Whether informers cover a namespace, or all (`None`), and drop managed fields everywhere.
    pub(super) fn drops_managed_fields(&self, namespace: Option<&str>) -> bool {
        let mut parts = self.parts(namespace).peekable();
        parts.peek().is_some() && parts.all(|part| !part.keeps_managed_fields)
    }

    /// Whether informers keep an object, by its labels and its JSON. An unknown value that a selector needs means no.
    pub(super) fn place(
        &self,
        key: &ObjectKey,
        labels: Option<&BTreeMap<String, String>>,
        object: Option<&[u8]>,
    ) -> CacheCoverage {
        let Some(part) = self.parts.iter().find(|part| part.namespaces.contains(key)) else {
            return CacheCoverage::Uncovered;
        };
        let has_labels =
            part.labels.is_everything() || labels.is_some_and(|labels| part.labels.matches(labels));
        if has_labels && part.has_fields(key, object) {
            CacheCoverage::Inside
        } else {
            CacheCoverage::Outside
        }
    }
}

impl Part {
    /// Whether it selects all objects of its namespaces.
    pub(super) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// Whether it selects by name and namespace only, so that an object's metadata suffices.
    pub(super) fn is_of_metadata(&self) -> bool {
        let mut requirements = self.fields.requirements().iter();
        requirements
            .all(|requirement| matches!(requirement.field.as_str(), "metadata.name" | "metadata.namespace"))
    }

    /// Namespace, label selector and field selector of a list, in one covered namespace or in all.
    pub(super) fn query<'a>(&'a self, namespace: Option<&'a str>) -> (Option<&'a str>, String, String) {
        let mut fields: Vec<_> =
            Some(self.fields.to_string()).filter(|fields| !fields.is_empty()).into_iter().collect();
        let namespace = match (namespace, &self.namespaces) {
            (Some(namespace), _) => Some(namespace),
            (None, Namespaces::One(namespace)) => Some(namespace.as_str()),
            (None, Namespaces::AllBut(except)) => {
                fields.extend(except.iter().map(|namespace| format!("metadata.namespace!={namespace}")));
                None
            }
            (None, Namespaces::All) => None,
        };
        (namespace, self.labels.to_string(), fields.join(","))
    }

    fn has_fields(&self, key: &ObjectKey, object: Option<&[u8]>) -> bool {
        let mut tree = None;
        self.fields.requirements().iter().all(|requirement| {
            let is_equal = match requirement.field.as_str() {
                "metadata.name" => key.name() == requirement.value,
                "metadata.namespace" => key.namespace().unwrap_or_default() == requirement.value,
                field => {
                    let Some(object) = object else { return false };
                    let tree = tree.get_or_insert_with(|| serde_json::from_slice(object).unwrap_or_default());
                    text_at(tree, field) == requirement.value
                }
            };
            is_equal == (requirement.operator == FieldOperator::Equals)
        })
    }
}

/// A field as a server compares it: a missing one is empty.
fn text_at(object: &Value, path: &str) -> String {
    let mut value = object;
    for name in path.split('.') {
        value = &value[name];
    }
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(labels: &str, fields: &str, has: &[(&str, &str)], object: Option<&str>) -> CacheCoverage {
        let selection = Selection {
            parts: vec![Part {
                namespaces: Namespaces::One("web".to_owned()),
                labels: LabelSelector::parse(labels).unwrap(),
                fields: FieldSelector::parse(fields).unwrap(),
                keeps_managed_fields: false,
            }],
        };
        let has: BTreeMap<_, _> =
            has.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        selection.place(&ObjectKey::new("web", "a"), Some(&has), object.map(str::as_bytes))
    }

    #[test]
    fn labels_and_fields_decide_who_has_an_object() {
        let pod = Some(r#"{"spec":{"nodeName":"n1","hostNetwork":true}}"#);
        for (labels, fields, expected) in [
            ("", "", CacheCoverage::Inside),
            ("app=web", "", CacheCoverage::Inside),
            ("app=db", "", CacheCoverage::Outside),
            ("!app", "", CacheCoverage::Outside),
            ("", "metadata.name=a", CacheCoverage::Inside),
            ("", "metadata.name!=a", CacheCoverage::Outside),
            ("", "spec.nodeName=n1,spec.hostNetwork=true", CacheCoverage::Inside),
            ("", "spec.nodeName=n2", CacheCoverage::Outside),
            ("", "spec.missing=", CacheCoverage::Inside),
            ("app=web", "spec.nodeName!=n1", CacheCoverage::Outside),
        ] {
            assert_eq!(place(labels, fields, &[("app", "web")], pod), expected, "{labels} {fields}");
        }
        assert_eq!(place("", "spec.nodeName=n1", &[], None), CacheCoverage::Outside);
    }

    #[test]
    fn a_namespace_that_is_not_cached_is_nobodys() {
        let selection = Selection { parts: Vec::new() };
        assert_eq!(selection.place(&ObjectKey::new("web", "a"), None, None), CacheCoverage::Uncovered);
    }
}
