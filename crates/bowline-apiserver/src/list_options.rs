//! Options of lists and watches: their valid combinations and their meaning.

use bowline_machinery::{FieldError, FieldPath, GroupKind, Status};
use bowline_storage::Revision;

use crate::continue_token::ContinueToken;
use crate::query::Query;
use crate::server::Store;

/// The part of a list that is requested.
pub(crate) struct Page {
    /// Exactly this revision; `None` for the newest.
    pub(crate) at: Option<Revision>,
    /// The last key of the previous page.
    pub(crate) after: Option<String>,
    pub(crate) limit: Option<usize>,
}

impl Page {
    pub(crate) fn of(store: &Store, query: &Query) -> Result<Self, Status> {
        let limit = usize::try_from(query.limit).ok().filter(|limit| *limit > 0);
        if !query.continue_token.is_empty() {
            let ContinueToken { at, after } = ContinueToken::decode(&query.continue_token)?;
            if !matches!(query.resource_version.as_str(), "" | "0") {
                return Err(Status::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            return Ok(Self { at, after: Some(after), limit });
        }
        let page = Self { at: query.stale_at(), after: None, limit };
        match query.resource_version.as_str() {
            "" => Ok(page),
            // Any revision, and the whole list, like a watch cache.
            "0" => Ok(Self { limit: None, ..page }),
            version => {
                let revision = parse_revision(version)
                    .map_err(|why| Status::bad_request(format!("invalid resource version: {why}")))?;
                check_not_after(query.stale_at().unwrap_or_else(|| store.revision()), revision)?;
                let exact = match query.resource_version_match.as_str() {
                    "Exact" => true,
                    "NotOlderThan" => false,
                    _ => limit.is_some(),
                };
                let exactly = Some(revision).filter(|revision| exact && revision.get() > 0);
                Ok(Self { at: exactly.or(page.at), ..page })
            }
        }
    }
}

/// A parsed revision, or its error.
pub(crate) fn parse_revision(version: &str) -> Result<Revision, FieldError> {
    let invalid = |why: &str| {
        let detail = format!("strconv.ParseUint: parsing {version:?}: {why}");
        FieldError::invalid(&FieldPath::new("resourceVersion"), version, detail)
    };
    if version.starts_with('+') {
        return Err(invalid("invalid syntax"));
    }
    version.parse().map(Revision::new).map_err(|error: std::num::ParseIntError| match error.kind() {
        std::num::IntErrorKind::PosOverflow => invalid("value out of range"),
        _ => invalid("invalid syntax"),
    })
}

pub(crate) fn check_not_future(store: &Store, revision: Revision) -> Result<(), Status> {
    check_not_after(store.revision(), revision)
}

pub(crate) fn check_not_after(newest: Revision, revision: Revision) -> Result<(), Status> {
    if revision > newest {
        Err(Status::too_large_resource_version(revision.get(), newest.get()))
    } else {
        Ok(())
    }
}

/// Checks that the options of a list are compatible.
pub(crate) fn check_list(query: &Query) -> Result<(), Status> {
    let mut errors = Vec::new();
    let matching = query.resource_version_match.as_str();
    if !matching.is_empty() {
        if query.resource_version.is_empty() {
            errors.push(forbidden_match(
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        if !query.continue_token.is_empty() {
            errors.push(forbidden_match("resourceVersionMatch is forbidden when continue is provided"));
        }
        if !matches!(matching, "Exact" | "NotOlderThan") {
            errors.push(unknown_match(matching, &["Exact", "NotOlderThan", ""]));
        }
        if matching == "Exact" && query.resource_version == "0" {
            errors.push(forbidden_match(
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ));
        }
    }
    if query.send_initial_events.is_some() {
        let path = FieldPath::new("sendInitialEvents");
        errors.push(FieldError::forbidden(&path, "sendInitialEvents is forbidden for list"));
    }
    refuse_if_any(&errors)
}

/// Checks that the options of a watch are compatible. Returns whether it begins with the existing objects.
pub(crate) fn check_watch(query: &Query) -> Result<bool, Status> {
    let matching = query.resource_version_match.as_str();
    if query.send_initial_events.is_none() && matching.is_empty() {
        return Ok(matches!(query.resource_version.as_str(), "" | "0"));
    }
    let mut errors = Vec::new();
    if query.send_initial_events.is_some() && matching != "NotOlderThan" {
        errors
            .push(forbidden_match("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
    }
    if !matching.is_empty() {
        if query.send_initial_events.is_none() {
            errors.push(forbidden_match(
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
        }
        if matching != "NotOlderThan" {
            errors.push(unknown_match(matching, &["NotOlderThan"]));
        }
        if !query.continue_token.is_empty() {
            errors.push(forbidden_match("resourceVersionMatch is forbidden when continue is provided"));
        }
    }
    refuse_if_any(&errors)?;
    Ok(query.send_initial_events == Some(true))
}

fn forbidden_match(why: &str) -> FieldError {
    FieldError::forbidden(&FieldPath::new("resourceVersionMatch"), why)
}

fn unknown_match(matching: &str, known: &[&str]) -> FieldError {
    FieldError::not_supported(&FieldPath::new("resourceVersionMatch"), matching, known)
}

fn refuse_if_any(errors: &[FieldError]) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupKind::new("meta.k8s.io", "ListOptions"), "", errors))
}
