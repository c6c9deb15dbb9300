//! The declared CRDs.

use bowline_machinery::{validate_dns1035_label, validate_dns1123_subdomain};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::ManifestError;
use crate::document::Document;

/// The CRD, and the name of its file without an extension.
pub(crate) fn render(crd: &CustomResourceDefinition) -> Result<(String, Document), ManifestError> {
    let file = file_name(crd)?;
    // The server owns the status.
    let mut crd = crd.clone();
    crd.status = None;
    let object = serde_json::to_value(crd).expect("every CRD can be written as JSON");
    Ok((file, Document::new(object)))
}

/// `GROUP_PLURAL`.
pub(crate) fn file_name(crd: &CustomResourceDefinition) -> Result<String, ManifestError> {
    let (group, plural) = (&crd.spec.group, &crd.spec.names.plural);
    // Otherwise they could contain `/`.
    if !validate_dns1123_subdomain(group).is_empty() || !validate_dns1035_label(plural).is_empty() {
        return Err(ManifestError::Crd { name: crd.metadata.name.clone().unwrap_or_default() });
    }
    Ok(format!("{group}_{plural}"))
}
