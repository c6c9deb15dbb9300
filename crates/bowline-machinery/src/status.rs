//! The `Status` object: the API server's response when there is no object to return, above all for errors.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{FieldError, GroupKind, GroupResource};

/// A `v1` `Status`. Its error constructors use the codes, reasons and messages of kube-apiserver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    kind: Kind,
    api_version: Version,
    metadata: ListMeta,
    /// `Success` or `Failure`.
    pub status: String,
    /// A message for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// A reason for programs, in one word: `NotFound`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The object that the status refers to, and the causes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<StatusDetails>>,
    /// The HTTP status code.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub code: u16,
}

/// The `kind` of a `Status`, which is always the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Version {
    #[serde(rename = "v1")]
    V1,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    #[serde(rename = "continue", default, skip_serializing_if = "Option::is_none")]
    continue_token: Option<String>,
}

/// The object that a [`Status`] refers to, and the causes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusDetails {
    /// The object's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The object's group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The object's kind; in most errors its resource, as in kube-apiserver.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The object's uid.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// One entry per error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<StatusCause>,
    /// Seconds to wait before a retry.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u16,
}

/// One of the errors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusCause {
    /// A reason for programs, in one word: `FieldValueInvalid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A message for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The field with the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u16) -> bool {
    *number == 0
}

impl Status {
    /// A success, the response to deletes.
    #[must_use]
    pub fn success(details: StatusDetails) -> Self {
        let mut status = Self::failure(200, "", "");
        "Success".clone_into(&mut status.status);
        status.details = Some(Box::new(details));
        status.code = 0;
        status
    }

    /// Any failure.
    #[must_use]
    pub fn failure(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self {
            kind: Kind::Status,
            api_version: Version::V1,
            metadata: ListMeta::default(),
            status: "Failure".to_owned(),
            message: message.into(),
            reason: reason.to_owned(),
            details: None,
            code,
        }
    }

    /// 400: the request is malformed.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, "BadRequest", message)
    }

    /// 401: the client is not authenticated.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::failure(401, "Unauthorized", "Unauthorized")
    }

    /// 403 for an object.
    #[must_use]
    pub fn forbidden(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = match (name, resource.resource.as_str()) {
            ("", "") => format!("forbidden: {why}"),
            ("", _) => format!("{resource} is forbidden: {why}"),
            _ => format!("{resource} {name:?} is forbidden: {why}"),
        };
        Self::failure(403, "Forbidden", message).about(resource, name)
    }

    /// 404 for an object.
    #[must_use]
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::failure(404, "NotFound", format!("{resource} {name:?} not found")).about(resource, name)
    }

    /// 404 for an unknown path.
    #[must_use]
    pub fn no_such_path() -> Self {
        let mut status = Self::failure(404, "NotFound", "the server could not find the requested resource");
        status.details = Some(Box::default());
        status
    }

    /// 405 for a verb that a resource does not have.
    #[must_use]
    pub fn method_not_supported(resource: &GroupResource, verb: &str) -> Self {
        let message = format!("{verb} is not supported on resources of kind {:?}", resource.to_string());
        Self::failure(405, "MethodNotAllowed", message).about(resource, "")
    }

    /// 409: a create of an object that exists.
    #[must_use]
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::failure(409, "AlreadyExists", format!("{resource} {name:?} already exists"))
            .about(resource, name)
    }

    /// 409: another write came first, or a precondition does not hold.
    #[must_use]
    pub fn conflict(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        Self::failure(409, "Conflict", message).about(resource, name)
    }

    /// 410: the revision, or the continue token, has expired.
    #[must_use]
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, "Expired", message)
    }

    /// 413: a body that is too long.
    #[must_use]
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::failure(413, "RequestEntityTooLarge", message)
    }

    /// 415: the body has a media type that the server does not support.
    #[must_use]
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::failure(415, "UnsupportedMediaType", message)
    }

    /// 422: the object is invalid. Several errors are joined into one message.
    #[must_use]
    pub fn invalid(kind: &GroupKind, name: &str, errors: &[FieldError]) -> Self {
        let mut texts: Vec<String> = Vec::with_capacity(errors.len());
        for error in errors {
            let text = error.to_string();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let list = match texts.as_slice() {
            [] => String::new(),
            [one] => format!(": {one}"),
            several => format!(": [{}]", several.join(", ")),
        };
        let mut status = Self::failure(422, "Invalid", format!("{kind} {name:?} is invalid{list}"));
        status.details = Some(Box::new(StatusDetails {
            name: name.to_owned(),
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            causes: errors.iter().map(FieldError::cause).collect(),
            ..StatusDetails::default()
        }));
        status
    }

    /// 429: too many requests.
    #[must_use]
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u16) -> Self {
        let mut status = Self::failure(429, "TooManyRequests", message);
        status.details = Some(Box::new(StatusDetails { retry_after_seconds, ..StatusDetails::default() }));
        status
    }

    /// 500: an internal error of the server.
    #[must_use]
    pub fn internal(message: impl fmt::Display) -> Self {
        let text = message.to_string();
        let mut status = Self::failure(500, "InternalError", format!("Internal error occurred: {text}"));
        let cause = StatusCause { message: Some(text), ..StatusCause::default() };
        status.details = Some(Box::new(StatusDetails { causes: vec![cause], ..StatusDetails::default() }));
        status
    }

    /// 504: the requested revision is in the future.
    #[must_use]
    pub fn too_large_resource_version(asked: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {asked}, current: {current}");
        let mut status = Self::failure(504, "Timeout", format!("Timeout: {message}"));
        let cause = StatusCause {
            reason: Some("ResourceVersionTooLarge".to_owned()),
            message: Some("Too large resource version".to_owned()),
            field: None,
        };
        status.details = Some(Box::new(StatusDetails {
            causes: vec![cause],
            retry_after_seconds: 1,
            ..StatusDetails::default()
        }));
        status
    }

    /// Adds a continue token, so that the client can resume an expired list.
    #[must_use]
    pub fn with_continue(mut self, token: String) -> Self {
        self.metadata.continue_token = Some(token);
        self
    }

    /// Adds the resource and name; existing causes stay.
    #[must_use]
    pub fn about(mut self, resource: &GroupResource, name: &str) -> Self {
        let details = self.details.get_or_insert_default();
        name.clone_into(&mut details.name);
        resource.group.clone_into(&mut details.group);
        resource.resource.clone_into(&mut details.kind);
        self
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.reason)
    }
}

impl std::error::Error for Status {}
