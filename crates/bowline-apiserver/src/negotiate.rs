//! What a client wants to get, and what it sends: media types.

use bowline_machinery::Status;
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};

/// In which form a client wants its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As they are.
    Object,
    /// `PartialObjectMetadata`, and its list.
    Metadata,
}

/// What a body is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchType {
    Json,
    Merge,
}

/// The first form in the `Accept` header that the server has.
pub(crate) fn form(headers: &HeaderMap) -> Result<Form, Status> {
    let mut asked = false;
    for clause in clauses(headers) {
        asked = true;
        let mut parts = clause.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        if !matches!(media, "application/json" | "*/*" | "application/*") {
            continue;
        }
        let (mut kind, mut group, mut version) = ("", "", "");
        for parameter in parts {
            match parameter.split_once('=') {
                Some(("as", value)) => kind = value,
                Some(("g", value)) => group = value,
                Some(("v", value)) => version = value,
                _ => {}
            }
        }
        match (kind, group, version) {
            ("", _, _) => return Ok(Form::Object),
            ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1" | "v1beta1") => {
                return Ok(Form::Metadata);
            }
            // Not a form that this server has: perhaps the next one is.
            _ => {}
        }
    }
    if asked { Err(not_acceptable()) } else { Ok(Form::Object) }
}

fn clauses(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|clause| !clause.is_empty())
}

/// Whether one of the clauses asks for `as=KIND` with this group and version, before any plain one.
pub(crate) fn discovery_version(headers: &HeaderMap) -> Option<&'static str> {
    for clause in clauses(headers) {
        let parts: Vec<_> = clause.split(';').map(str::trim).collect();
        if !matches!(parts.first(), Some(&("application/json" | "*/*" | "application/*"))) {
            continue;
        }
        if !parts.contains(&"as=APIGroupDiscoveryList") {
            return None;
        }
        if !parts.contains(&"g=apidiscovery.k8s.io") {
            continue;
        }
        if parts.contains(&"v=v2") {
            return Some("v2");
        }
        if parts.contains(&"v=v2beta1") {
            return Some("v2beta1");
        }
    }
    None
}

fn not_acceptable() -> Status {
    let mut status = Status::failure(
        406,
        "NotAcceptable",
        "only the following media types are accepted: application/json",
    );
    status.details = Some(bowline_machinery::StatusDetails::default());
    status
}

fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Objects come as JSON; nothing at all counts as JSON, too.
pub(crate) fn check_json(headers: &HeaderMap) -> Result<(), Status> {
    match media_type(headers).as_str() {
        "" | "application/json" => Ok(()),
        _ => Err(Status::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: application/json",
        )),
    }
}

/// Which kind of patch a request carries.
pub(crate) fn patch(headers: &HeaderMap) -> Result<PatchType, Status> {
    match media_type(headers).as_str() {
        "application/json-patch+json" => Ok(PatchType::Json),
        "application/merge-patch+json" => Ok(PatchType::Merge),
        kind @ ("application/strategic-merge-patch+json"
        | "application/apply-patch+yaml"
        | "application/apply-patch+cbor") => Err(Status::unsupported_media_type(format!(
            "patches of type {kind} are not supported by this server yet - accepted media types include: \
             application/json-patch+json, application/merge-patch+json"
        ))),
        _ => {
            let mut status = Status::unsupported_media_type("415: Unsupported Media Type");
            status.details = Some(bowline_machinery::StatusDetails::default());
            Err(status)
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn accepting(accept: &'static str) -> Result<Form, Status> {
        form(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]))
    }

    #[test]
    fn the_first_form_that_the_server_has_is_taken() {
        assert_eq!(form(&HeaderMap::new()), Ok(Form::Object));
        assert_eq!(accepting("*/*"), Ok(Form::Object));
        assert_eq!(accepting("application/vnd.kubernetes.protobuf, application/json"), Ok(Form::Object));
        assert_eq!(
            accepting("application/json;as=Table;v=v1;g=meta.k8s.io,application/json"),
            Ok(Form::Object)
        );
        let metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        assert_eq!(accepting(metadata), Ok(Form::Metadata));
    }

    #[test]
    fn who_wants_only_what_the_server_does_not_have_is_told() {
        for accept in ["text/html", "application/json;as=Table;v=v1;g=meta.k8s.io"] {
            assert_eq!(accepting(accept).map_err(|error| error.code), Err(406), "{accept}");
        }
    }
}
