//! `DeleteOptions`: the mode and the preconditions of a delete.

use bowline_machinery::facts::{self, UnknownFields};
use bowline_machinery::{FieldError, FieldPath, GroupKind, GroupResource, Status};
use serde::Deserialize;
use serde_json::Value;

use crate::query::Query;
use crate::resource::Resource;

/// Options of a delete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) preconditions: Option<Preconditions>,
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) propagation_policy: Option<String>,
    pub(crate) dry_run: Option<Vec<String>>,
}

/// Preconditions of a delete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Preconditions {
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
}

impl DeleteOptions {
    /// From the body if there is one, else from the parameters: never from both. With a body, a dry run in the
    /// parameters is ignored.
    pub(crate) fn of(body: &[u8], query: &Query) -> Result<Self, Status> {
        let options = if body.is_empty() {
            if let Some(error) = &query.delete_error {
                return Err(error.clone());
            }
            Self {
                grace_period_seconds: query.grace_period_seconds,
                orphan_dependents: query.orphan_dependents,
                propagation_policy: query.propagation_policy.clone(),
                dry_run: Some(query.dry_run.clone()),
                preconditions: None,
            }
        } else {
            Self::read(body)?
        };
        let dry_run = options.dry_run.as_deref().unwrap_or_default();
        crate::write::check_options(query, dry_run, "DeleteOptions")?;
        options.check()?;
        Ok(options)
    }

    fn read(body: &[u8]) -> Result<Self, Status> {
        let parsed = bowline_machinery::parse_json(body).map_err(|error| {
            Status::bad_request(format!("couldn't get version/kind; json parse error: {error}"))
        })?;
        let text = |field: &str| parsed.value.get(field).and_then(Value::as_str).unwrap_or_default();
        let (version, kind) = (text("apiVersion"), text("kind"));
        if !matches!(kind, "" | "DeleteOptions") {
            let version = if version.is_empty() { "meta.k8s.io/v1" } else { version };
            return Err(Status::bad_request(format!(
                "no kind {kind:?} is registered for version {version:?}"
            )));
        }
        let kind = facts::type_of("", "v1", "DeleteOptions");
        let value = match kind {
            Some(kind) => {
                kind.normalise(parsed.value, UnknownFields::Ignore)
                    .map_err(|error| Status::bad_request(error.to_string()))?
                    .value
            }
            None => parsed.value,
        };
        serde_json::from_value(value).map_err(|error| Status::bad_request(error.to_string()))
    }

    fn check(&self) -> Result<(), Status> {
        let path = FieldPath::new("propagationPolicy");
        let mut errors = Vec::new();
        if self.orphan_dependents.is_some() && self.propagation_policy.is_some() {
            errors.push(FieldError::invalid(
                &path,
                self.propagation_policy.clone(),
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        if let Some(policy) = &self.propagation_policy
            && !matches!(policy.as_str(), "Foreground" | "Background" | "Orphan")
        {
            errors.push(FieldError::not_supported(
                &path,
                policy.as_str(),
                &["Foreground", "Background", "Orphan", "nil"],
            ));
        }
        if errors.is_empty() {
            return Ok(());
        }
        Err(Status::invalid(&GroupKind::new("meta.k8s.io", "DeleteOptions"), "", &errors))
    }

    /// Checks the preconditions, uid and revision, of a delete. Namespaces have their own error text.
    pub(crate) fn check_record(
        &self,
        resource: &Resource,
        uid: &str,
        revision: &str,
        name: &str,
    ) -> Result<(), Status> {
        let Some(wanted) = &self.preconditions else { return Ok(()) };
        let conflict = |field: &str, wanted: &str, present: &str, perhaps: &str| {
            if resource.behaviour.terminates() && resource.behaviour.cleanup_finalizer().is_none() {
                let why = format!(
                    "Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {present}"
                );
                return Err(Status::conflict(&resource.group_resource(), name, &why));
            }
            let why = format!(
                "the {field} in the precondition ({wanted}) does not match the {field} in record ({present}). The \
                 object might have been {perhaps}"
            );
            let kind = GroupResource::new(&resource.gvk.group, &resource.gvk.kind);
            Err(Status::conflict(&kind, name, &why))
        };
        match (&wanted.uid, &wanted.resource_version) {
            (Some(wanted), _) if wanted != uid => conflict("UID", wanted, uid, "deleted and then recreated"),
            (_, Some(wanted)) if wanted != revision => {
                conflict("ResourceVersion", wanted, revision, "modified")
            }
            _ => Ok(()),
        }
    }

    /// Whether it is a dry run.
    pub(crate) fn dry_run(&self) -> bool {
        self.dry_run.as_ref().is_some_and(|values| !values.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_and_its_old_form_together_are_refused() {
        let body = br#"{"orphanDependents":true,"propagationPolicy":"Orphan"}"#;
        let error = DeleteOptions::of(body, &Query::default()).expect_err("they contradict each other");
        assert_eq!(error.code, 422);
        let error = DeleteOptions::of(br#"{"propagationPolicy":"Sideways"}"#, &Query::default());
        assert_eq!(error.map_err(|error| error.code), Err(422));
    }
}
