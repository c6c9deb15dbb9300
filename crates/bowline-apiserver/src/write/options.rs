//! Options that all writes have.

use bowline_machinery::{FieldError, FieldPath, GroupKind, Status};

use crate::query::Query;

/// Validates the options that all writes have; `options` is their kind, as in `CreateOptions`.
pub(crate) fn check_options(query: &Query, dry_run: &[String], options: &str) -> Result<(), Status> {
    let mut errors = Vec::new();
    if dry_run.iter().any(|value| value != "All") {
        errors.push(FieldError::not_supported(&FieldPath::new("dryRun"), dry_run.to_vec(), &["All"]));
    }
    if options != "DeleteOptions" {
        let path = FieldPath::new("fieldManager");
        errors.extend(bowline_machinery::validate_field_manager(&query.field_manager, &path));
        if !matches!(query.field_validation.as_str(), "" | "Ignore" | "Strict" | "Warn") {
            let path = FieldPath::new("fieldValidation");
            let known = ["", "Ignore", "Strict", "Warn"];
            errors.push(FieldError::not_supported(&path, query.field_validation.as_str(), &known));
        }
    }
    if options == "PatchOptions" && query.force {
        let why = "may not be specified for non-apply patch";
        errors.push(FieldError::forbidden(&FieldPath::new("force"), why));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupKind::new("meta.k8s.io", options), "", &errors))
}
