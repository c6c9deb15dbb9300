//! Options of lists and watches: which of them fit together, and what they ask for.

use bowline_machinery::{FieldError, FieldPath, GroupKind, Status};
use bowline_storage::Revision;

use crate::continue_token::ContinueToken;
use crate::query::Query;
use crate::server::Store;

/// What of a list is asked for.
pub(crate) struct Page {
    /// Exactly as of then; `None` for now.
    pub(crate) at: Option<Revision>,
    /// The last key of the page before.
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
        let page = Self { at: None, after: None, limit };
        match query.resource_version.as_str() {
            "" => Ok(page),
            // Any revision will do, and all of it: what a watch cache answers.
            "0" => Ok(Self { limit: None, ..page }),
            version => {
                let revision = parse_revision(version)
                    .map_err(|why| Status::bad_request(format!("invalid resource version: {why}")))?;
                check_not_future(store, revision)?;
                let exact = match query.resource_version_match.as_str() {
                    "Exact" => true,
                    "NotOlderThan" => false,
                    _ => limit.is_some(),
                };
                Ok(Self { at: Some(revision).filter(|revision| exact && revision.get() > 0), ..page })
            }
        }
    }
}

/// A revision, or what is wrong with it.
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
    let newest = store.revision();
    if revision > newest {
        Err(Status::too_large_resource_version(revision.get(), newest.get()))
    } else {
        Ok(())
    }
}

/// Whether the options of a list fit together.
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
    told(&errors)
}

/// Whether the options of a watch fit together; says whether it begins with what is there.
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
    told(&errors)?;
    Ok(query.send_initial_events == Some(true))
}

fn forbidden_match(why: &str) -> FieldError {
    FieldError::forbidden(&FieldPath::new("resourceVersionMatch"), why)
}

fn unknown_match(matching: &str, known: &[&str]) -> FieldError {
    FieldError::not_supported(&FieldPath::new("resourceVersionMatch"), matching, known)
}

fn told(errors: &[FieldError]) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupKind::new("meta.k8s.io", "ListOptions"), "", errors))
}
