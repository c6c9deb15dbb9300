//! Media types: of the response, and of the request's body.

use bowline_machinery::Status;
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};

/// Requested form of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Complete objects.
    Object,
    /// `PartialObjectMetadata`, and its list.
    Metadata {
        /// Version of `meta.k8s.io`.
        version: &'static str,
        /// Whether the list type is named.
        list: bool,
    },
}

impl Form {
    pub(crate) fn is_metadata(self) -> bool {
        matches!(self, Self::Metadata { .. })
    }
}

/// The patch type of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchType {
    Json,
    Merge,
}

/// The best form in the `Accept` header that the server supports. As in kube-apiserver, built-in kinds check the bare
/// types first, and do not know `application/*`.
pub(crate) fn form(headers: &HeaderMap, is_custom: bool) -> Result<Form, Status> {
    let clauses = by_quality(headers);
    if clauses.is_empty() {
        return Ok(Form::Object);
    }
    if !is_custom {
        check_media_type(headers)?;
    }
    clauses.into_iter().find_map(form_of_clause).ok_or_else(no_form)
}

fn form_of_clause(clause: &str) -> Option<Form> {
    let mut parts = clause.split(';').map(str::trim);
    if !matches!(parts.next(), Some("application/json" | "*/*" | "application/*")) {
        return None;
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
    let version = match version {
        "v1" => "v1",
        "v1beta1" => "v1beta1",
        _ => "",
    };
    match (kind, group, version) {
        ("", _, _) => Some(Form::Object),
        ("PartialObjectMetadata", "meta.k8s.io", "v1" | "v1beta1") => {
            Some(Form::Metadata { version, list: false })
        }
        ("PartialObjectMetadataList", "meta.k8s.io", "v1" | "v1beta1") => {
            Some(Form::Metadata { version, list: true })
        }
        // Not a supported form: try the next one.
        _ => None,
    }
}

/// The clauses by descending quality; at equal quality, exact types before wildcards.
fn by_quality(headers: &HeaderMap) -> Vec<&str> {
    let mut clauses: Vec<_> = clauses(headers).collect();
    clauses.sort_by_cached_key(|clause| {
        let quality = clause.split(';').filter_map(|part| part.trim().strip_prefix("q=")).next_back();
        let quality = quality.and_then(|quality| quality.parse::<f32>().ok()).unwrap_or(1.0).clamp(0.0, 1.0);
        // HTTP has at most three decimals; the number is small and not negative.
        #[expect(clippy::cast_possible_truncation, reason = "it is between 0 and 1000")]
        let thousandths = (quality * 1000.0) as i32;
        (-thousandths, clause.starts_with("*/"), clause.contains("/*"))
    });
    clauses
}

/// Whether the client asks for indented JSON.
pub(crate) fn is_pretty(headers: &HeaderMap) -> bool {
    clauses(headers).next().is_some_and(|clause| clause.split(';').any(|part| part.trim() == "pretty=1"))
}

fn clauses(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|clause| !clause.is_empty())
}

/// The requested version of the aggregated discovery document. Kubernetes has dropped `v2beta1`; older clients still
/// get it.
pub(crate) fn discovery_version(headers: &HeaderMap) -> Option<&'static str> {
    by_quality(headers).into_iter().find_map(|clause| {
        let parts: Vec<_> = clause.split(';').map(str::trim).collect();
        let is_json = matches!(parts.first(), Some(&("application/json" | "*/*" | "application/*")));
        let has = |parameter: &str| parts.contains(&parameter);
        if !is_json || !has("as=APIGroupDiscoveryList") || !has("g=apidiscovery.k8s.io") {
            return None;
        }
        ["v2", "v2beta1"].into_iter().find(|version| has(&format!("v={version}")))
    })
}

/// Refuses clients that do not accept the only form of a document.
pub(crate) fn check_plain(headers: &HeaderMap) -> Result<(), Status> {
    let clauses = by_quality(headers);
    if clauses.is_empty() || clauses.into_iter().filter_map(form_of_clause).any(|form| form == Form::Object) {
        return Ok(());
    }
    Err(no_form())
}

fn no_form() -> Status {
    not_acceptable("only the following media types are accepted: application/json")
}

/// Refuses clients that accept no media type of this server.
pub(crate) fn check_media_type(headers: &HeaderMap) -> Result<(), Status> {
    let bare = |clause: &str| clause.split(';').next().unwrap_or_default().trim().to_owned();
    let mut media_types = clauses(headers).map(bare).peekable();
    if media_types.peek().is_none() || media_types.any(|media| media == "application/json" || media == "*/*")
    {
        return Ok(());
    }
    let mut status = not_acceptable("406: Not Acceptable\n\nAvailable representations: application/json");
    status.details = Some(Box::default());
    Err(status)
}

pub(crate) fn not_acceptable(message: impl Into<String>) -> Status {
    Status::failure(406, "NotAcceptable", message)
}

fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Objects are sent as JSON; a missing content type counts as JSON.
pub(crate) fn check_json(headers: &HeaderMap) -> Result<(), Status> {
    match media_type(headers).as_str() {
        "" | "application/json" => Ok(()),
        _ => Err(Status::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: application/json",
        )),
    }
}

/// The patch type of a request.
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
            status.details = Some(Box::default());
            Err(status)
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn accepting(accept: &'static str) -> Result<Form, Status> {
        form(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]), false)
    }

    #[test]
    fn the_first_form_that_the_server_has_is_taken() {
        assert_eq!(form(&HeaderMap::new(), false), Ok(Form::Object));
        assert_eq!(accepting("*/*"), Ok(Form::Object));
        assert_eq!(accepting("application/vnd.kubernetes.protobuf, application/json"), Ok(Form::Object));
        assert_eq!(
            accepting("application/json;as=Table;v=v1;g=meta.k8s.io,application/json"),
            Ok(Form::Object)
        );
        let metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        assert_eq!(accepting(metadata), Ok(Form::Metadata { version: "v1", list: true }));
        let liked =
            "application/json;q=0.5,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1";
        assert_eq!(accepting(liked), Ok(Form::Metadata { version: "v1beta1", list: false }));
    }

    #[test]
    fn who_wants_only_what_the_server_does_not_have_is_told() {
        for accept in ["text/html", "application/json;as=Table;v=v1;g=meta.k8s.io"] {
            assert_eq!(accepting(accept).map_err(|error| error.code), Err(406), "{accept}");
        }
    }

    #[test]
    fn patches_that_are_still_to_come_are_told_apart_from_nonsense() {
        let patching = |media_type: &'static str| {
            patch(&HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(media_type))]))
        };
        assert_eq!(patching("application/json-patch+json; charset=utf-8"), Ok(PatchType::Json));
        assert_eq!(patching("application/merge-patch+json"), Ok(PatchType::Merge));
        for to_come in ["application/strategic-merge-patch+json", "application/apply-patch+yaml"] {
            let error = patching(to_come).expect_err("it is not there yet");
            assert_eq!((error.code, error.reason.as_str()), (415, "UnsupportedMediaType"));
            assert!(error.message.contains(to_come), "{error}");
        }
        let error = patching("text/plain").expect_err("it is no patch");
        assert_eq!((error.code, error.message.as_str()), (415, "415: Unsupported Media Type"));
    }
}
