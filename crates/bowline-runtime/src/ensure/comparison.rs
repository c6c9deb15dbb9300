//! Whether two objects are the same to the API server.

use bowline_machinery::facts::{TypeRef, UnknownFields, type_of};
use serde_json::Value;

use crate::{Object, PatchError};

/// An object as JSON, as given and as the API server would store it.
pub(super) struct Comparison {
    /// Without the status.
    object: Value,
    status: Value,
    /// As Go writes them; as given if Go's type is not known.
    normal: Value,
    normal_status: Value,
}

impl Comparison {
    pub(super) fn new<K: Object>(object: &K) -> Result<Self, PatchError> {
        let mut object = serde_json::to_value(object)?;
        let mut normal = normalise::<K>(&object);
        let (status, normal_status) = (take_status(&mut object), take_status(&mut normal));
        Ok(Self { object, status, normal, normal_status })
    }

    pub(super) fn is_same_but_status(&self, other: &Self) -> bool {
        self.object == other.object || self.normal == other.normal
    }

    pub(super) fn is_same_status(&self, other: &Self) -> bool {
        self.status == other.status || self.normal_status == other.normal_status
    }

    pub(super) fn has_status(&self) -> bool {
        !is_nothing(&self.normal_status)
    }

    pub(super) fn without_status(&self) -> &Value {
        &self.object
    }

    pub(super) fn status(&self) -> &Value {
        &self.status
    }
}

fn take_status(object: &mut Value) -> Value {
    object.as_object_mut().and_then(|fields| fields.remove("status")).unwrap_or_default()
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
}

/// An object as the API server stores it. Built-in kinds are decoded and encoded as Go does it. Of other kinds, this holds for
/// the metadata, and fields that are `null` are dropped elsewhere.
///
/// An object with a field that Go's type does not have in the version that is known here is compared as given.
fn normalise<K: Object>(object: &Value) -> Value {
    let (group, version, kind) = (K::group(&()), K::version(&()), K::kind(&()));
    if let Some(known) = type_of(&group, &version, &kind).and_then(|it| go_form(it, object.clone())) {
        return known;
    }
    let mut normal = without_nulls(object.clone());
    let metadata = type_of("", "v1", "ConfigMap").and_then(|it| it.field("metadata")?.structure());
    if let Some(metadata) = metadata.and_then(|it| go_form(it, normal["metadata"].clone())) {
        normal["metadata"] = metadata;
    }
    normal
}

fn go_form(go_type: TypeRef, value: Value) -> Option<Value> {
    let normalised = go_type.normalise(value, UnknownFields::Report).ok()?;
    normalised.unknown_fields.is_empty().then_some(normalised.value)
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(fields.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        value => value,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use serde_json::json;

    use super::*;

    fn deployment(change: impl FnOnce(&mut Value)) -> Comparison {
        let mut object = json!({
            "metadata": {"name": "a", "namespace": "b"},
            "spec": {
                "selector": {"matchLabels": {"app": "a"}},
                "template": {"metadata": {"labels": {"app": "a"}}, "spec": {
                    "containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}],
                    "volumes": [{"name": "v", "emptyDir": {}}],
                }},
            },
        });
        change(&mut object);
        Comparison::new(&serde_json::from_value::<Deployment>(object).unwrap()).unwrap()
    }

    #[test]
    fn values_that_the_server_stores_alike_are_the_same() {
        let plain = deployment(|_| {});
        let spelled = deployment(|it| {
            it["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "1000m".into();
            it["metadata"]["labels"] = json!({});
            it["spec"]["template"]["spec"]["initContainers"] = json!([]);
        });
        assert!(plain.is_same_but_status(&spelled));
    }

    #[test]
    fn values_with_another_meaning_differ() {
        let plain = deployment(|_| {});
        let other = deployment(|it| {
            it["spec"]["template"]["spec"]["volumes"][0] = json!({"name": "v"});
        });
        assert!(!plain.is_same_but_status(&other), "an empty directory is something");
        let other = deployment(|it| {
            it["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "2".into();
        });
        assert!(!plain.is_same_but_status(&other));
        let other = deployment(|it| it["status"] = json!({"replicas": 1}));
        assert!(plain.is_same_but_status(&other) && !plain.is_same_status(&other));
        assert!(other.has_status() && !plain.has_status());
    }
}
