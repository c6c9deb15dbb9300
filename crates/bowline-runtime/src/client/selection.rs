//! What informers of a kind have, by the options of their cache: so that it is known whether an object that was written is
//! theirs to have.

use std::collections::BTreeMap;

use bowline_cache::{InformerCache, Kind, Namespaces, ObjectKey};
use bowline_machinery::{FieldOperator, FieldSelector, LabelSelector};
use serde_json::Value;

/// Which objects of a kind informers have.
#[derive(Debug, Default)]
pub(super) struct Selection {
    parts: Vec<Part>,
}

/// What informers have in some namespaces.
#[derive(Debug)]
pub(super) struct Part {
    namespaces: Namespaces,
    labels: LabelSelector,
    fields: FieldSelector,
    keeps_managed_fields: bool,
}

/// Whether informers have an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// They are to have it.
    Inside,
    /// They are not to have it, or this cannot be known.
    Outside,
    /// They have nothing of its namespace, and nobody can read it from them.
    Uncovered,
}

impl Selection {
    pub(super) fn new<K: 'static>(cache: &InformerCache, kind: &Kind<K>) -> Self {
        // Options that make no sense are told to whoever reads.
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

    /// The parts that have objects of a namespace, or (`None`) all.
    pub(super) fn parts(&self, namespace: Option<&str>) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(move |part| namespace.is_none_or(|namespace| part.namespaces.has(namespace)))
    }

    /// Whether informers have objects of a namespace, or (`None`) of all, and none of them with its managed fields.
    pub(super) fn drops_managed_fields(&self, namespace: Option<&str>) -> bool {
        let mut parts = self.parts(namespace).peekable();
        parts.peek().is_some() && parts.all(|part| !part.keeps_managed_fields)
    }

    /// Where an object is, by its labels and all of it as JSON; where they are not known, it is outside if they matter.
    pub(super) fn place(
        &self,
        key: &ObjectKey,
        labels: Option<&BTreeMap<String, String>>,
        object: Option<&[u8]>,
    ) -> Place {
        let Some(part) = self.parts.iter().find(|part| part.namespaces.contains(key)) else {
            return Place::Uncovered;
        };
        let has_labels =
            part.labels.is_everything() || labels.is_some_and(|labels| part.labels.matches(labels));
        if has_labels && part.has_fields(key, object) { Place::Inside } else { Place::Outside }
    }
}

impl Part {
    /// Whether it has all objects of its namespaces.
    pub(super) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// How it is asked for, in a namespace that it has, or in all: in which one, by which labels and by which fields.
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

/// A field as a server compares it: what is not there is empty.
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

    fn place(labels: &str, fields: &str, has: &[(&str, &str)], object: Option<&str>) -> Place {
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
            ("", "", Place::Inside),
            ("app=web", "", Place::Inside),
            ("app=db", "", Place::Outside),
            ("!app", "", Place::Outside),
            ("", "metadata.name=a", Place::Inside),
            ("", "metadata.name!=a", Place::Outside),
            ("", "spec.nodeName=n1,spec.hostNetwork=true", Place::Inside),
            ("", "spec.nodeName=n2", Place::Outside),
            ("", "spec.missing=", Place::Inside),
            ("app=web", "spec.nodeName!=n1", Place::Outside),
        ] {
            assert_eq!(place(labels, fields, &[("app", "web")], pod), expected, "{labels} {fields}");
        }
        assert_eq!(place("", "spec.nodeName=n1", &[], None), Place::Outside);
    }

    #[test]
    fn a_namespace_that_is_not_cached_is_nobodys() {
        let selection = Selection { parts: Vec::new() };
        assert_eq!(selection.place(&ObjectKey::new("web", "a"), None, None), Place::Uncovered);
    }
}
