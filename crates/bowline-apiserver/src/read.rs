//! Reading: one object, or a list of them as of one revision.

use std::num::NonZeroUsize;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bowline_machinery::{FieldError, FieldPath, GroupKind, Status};
use bowline_storage::{List, ListError, Record, Revision};
use bytes::{BufMut as _, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use crate::body::Body;
use crate::negotiate::Form;
use crate::object::{self, Meta};
use crate::query::Query;
use crate::resource::Resource;
use crate::select::Selection;
use crate::server::Store;

/// Lists are sent in chunks of about this many bytes.
const CHUNK: usize = 128 * 1024;

/// How records of a resource are written for one client.
#[derive(Clone)]
pub(crate) struct Rendering {
    pub(crate) resource: Arc<Resource>,
    pub(crate) form: Form,
}

impl Rendering {
    /// An object, whole.
    pub(crate) fn object(&self, body: &Bytes) -> Bytes {
        let mut bytes = BytesMut::with_capacity(body.len() + 64);
        self.write(body, true, &mut bytes);
        bytes.freeze()
    }

    /// An object, with `kind` and `apiVersion` in front if it is to have them.
    pub(crate) fn write(&self, body: &Bytes, with_kind: bool, to: &mut BytesMut) {
        if self.form == Form::Metadata {
            to.put_slice(br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#);
            to.put_slice(metadata(body).as_bytes());
            to.put_slice(b"}");
            return;
        }
        if with_kind {
            to.put_slice(&self.resource.head);
        } else {
            to.put_slice(b"{");
        }
        to.put_slice(&self.resource.tail(body));
    }

    fn list_type(&self) -> (String, String) {
        match self.form {
            Form::Object => (self.resource.names.list_kind.clone(), self.resource.api_version()),
            Form::Metadata => ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned()),
        }
    }
}

/// The metadata of a stored body, as it stands there.
fn metadata(body: &[u8]) -> &str {
    #[derive(Deserialize)]
    struct Stored<'a> {
        #[serde(borrow)]
        metadata: &'a RawValue,
    }
    serde_json::from_slice::<Stored<'_>>(body).map_or("{}", |stored| stored.metadata.get())
}

/// Reads one object.
pub(crate) fn get(
    store: &Store,
    resource: &Resource,
    key: &str,
    query: &Query,
) -> Result<Arc<Record<Meta>>, Status> {
    if !matches!(query.resource_version.as_str(), "" | "0") {
        check_not_future(store, parse_revision(&query.resource_version)?)?;
    }
    let (_, name) = object::split_key(key);
    store.get(resource.table, key).ok_or_else(|| Status::not_found(&resource.group_resource(), name))
}

/// Reads a list.
pub(crate) fn list(
    store: &Store,
    rendering: &Rendering,
    namespace: Option<&str>,
    query: &Query,
) -> Result<Body, Status> {
    let resource = &rendering.resource;
    let selection = Selection::parse(resource, query)?;
    check_options(query, false)?;
    let page = Page::of(store, query)?;
    let prefix = namespace.map_or_else(String::new, |namespace| format!("{namespace}/"));
    let after = page.after.as_ref().map(|after| format!("{prefix}{after}"));

    let mut items = Vec::new();
    let mut from = after;
    let mut at = page.at;
    let limit = page.limit.unwrap_or(usize::MAX);
    let (revision, remaining) = loop {
        // With a selector, a page is full only when enough of what was read is selected.
        let wanted = page.limit.map(|limit| limit - items.len()).and_then(NonZeroUsize::new);
        let list = List { prefix: &prefix, after: from.as_deref(), at, limit: wanted };
        let listing = store
            .list(resource.table, list)
            .map_err(|error| list_error(error, &page, from.as_deref(), &prefix))?;
        at = Some(listing.revision);
        from = listing.items.last().map(|record| record.key.to_string());
        items.extend(listing.items.into_iter().filter(|record| selection.matches(record)));
        if listing.remaining == 0 || items.len() >= limit {
            break (listing.revision, listing.remaining);
        }
    };
    let continue_token =
        (remaining > 0).then(|| token(revision.get(), from.as_deref().unwrap_or_default(), &prefix));
    let remaining = (remaining > 0 && selection.is_everything()).then_some(remaining);
    Ok(list_body(rendering.clone(), revision, continue_token, remaining, items))
}

/// What of a list is asked for.
struct Page {
    at: Option<Revision>,
    after: Option<String>,
    limit: Option<usize>,
    continued: bool,
}

impl Page {
    fn of(store: &Store, query: &Query) -> Result<Self, Status> {
        let limit = usize::try_from(query.limit).ok().filter(|limit| *limit > 0);
        if !query.continue_token.is_empty() {
            let Continue { rv, start, .. } = Continue::decode(&query.continue_token)?;
            if !matches!(query.resource_version.as_str(), "" | "0") {
                return Err(Status::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            // A token without a revision goes on with what there is now.
            let at = u64::try_from(rv).ok().filter(|rv| *rv > 0).map(Revision::new);
            let after = start.trim_start_matches('/').trim_end_matches('\0').to_owned();
            return Ok(Self { at, after: Some(after), limit, continued: true });
        }
        let page = Self { at: None, after: None, limit, continued: false };
        match query.resource_version.as_str() {
            "" => Ok(page),
            // Any revision will do, and all of it: what a watch cache answers.
            "0" => Ok(Self { limit: None, ..page }),
            version => {
                let revision = parse_revision(version)?;
                check_not_future(store, revision)?;
                let exact = match query.resource_version_match.as_str() {
                    "Exact" => true,
                    "NotOlderThan" => false,
                    _ => limit.is_some(),
                };
                Ok(Self { at: exact.then_some(revision), ..page })
            }
        }
    }
}

pub(crate) fn parse_revision(version: &str) -> Result<Revision, Status> {
    invalid_revision(version)
        .map(Revision::new)
        .map_err(|why| Status::bad_request(format!("invalid resource version: {why}")))
}

/// A revision, or what is wrong with it.
pub(crate) fn invalid_revision(version: &str) -> Result<u64, FieldError> {
    version.parse::<u64>().map_err(|error| {
        let why = match error.kind() {
            std::num::IntErrorKind::PosOverflow => "value out of range",
            _ => "invalid syntax",
        };
        let detail = format!("strconv.ParseUint: parsing {version:?}: {why}");
        FieldError::invalid(&FieldPath::new("resourceVersion"), version, detail)
    })
}

fn check_not_future(store: &Store, revision: Revision) -> Result<(), Status> {
    let newest = store.revision();
    if revision > newest {
        Err(Status::too_large_resource_version(revision.get(), newest.get()))
    } else {
        Ok(())
    }
}

/// Options that contradict each other.
pub(crate) fn check_options(query: &Query, watch: bool) -> Result<(), Status> {
    let path = FieldPath::new("resourceVersionMatch");
    let forbidden = |why: &str| vec![FieldError::forbidden(&path, why)];
    let matching = query.resource_version_match.as_str();
    let mut errors = Vec::new();
    if query.send_initial_events.is_some() {
        if !watch {
            errors.push(FieldError::forbidden(
                &FieldPath::new("sendInitialEvents"),
                "sendInitialEvents is forbidden for list",
            ));
        } else if matching != "NotOlderThan" {
            errors = forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
        }
    } else if !matching.is_empty() {
        errors = match (matching, query.resource_version.as_str()) {
            _ if watch => {
                forbidden("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
            }
            (_, "") => forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"),
            _ if !query.continue_token.is_empty() => {
                forbidden("resourceVersionMatch is forbidden when continue is provided")
            }
            ("Exact", "0") => {
                forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")
            }
            ("Exact" | "NotOlderThan", _) => Vec::new(),
            (other, _) => vec![FieldError::not_supported(&path, other, &["Exact", "NotOlderThan", ""])],
        };
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupKind::new("meta.k8s.io", "ListOptions"), "", &errors))
}

fn list_error(error: ListError, page: &Page, from: Option<&str>, prefix: &str) -> Status {
    match error {
        ListError::Future { newest, at } => Status::too_large_resource_version(at.get(), newest.get()),
        _ if page.continued => Status::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list \
             without the continue parameter, or use the continue token in this response to retrieve the remainder of \
             the results. Continuing with the provided token results in an inconsistent list - objects that were \
             created, modified, or deleted between the time the first chunk was returned and now may show up in the \
             list.",
        )
        .with_continue(token_at(-1, from.unwrap_or_default(), prefix)),
        _ => Status::expired("The resourceVersion for the provided list is too old."),
    }
}

/// What a continue token says.
#[derive(Debug, Serialize, Deserialize)]
struct Continue {
    #[serde(default)]
    v: String,
    #[serde(default)]
    rv: i64,
    #[serde(default)]
    start: String,
}

const TOKEN_VERSION: &str = "meta.k8s.io/v1";

impl Continue {
    fn decode(token: &str) -> Result<Self, Status> {
        let invalid = |why: String| {
            Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        let bytes = URL_SAFE_NO_PAD
            .decode(token.trim_end_matches('='))
            .map_err(|error| invalid(format!("illegal base64 data: {error}")))?;
        let token: Self = serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))?;
        if token.v != TOKEN_VERSION {
            return Err(invalid(format!("server does not recognize this encoded version {}", token.v)));
        }
        if token.start.is_empty() {
            return Err(invalid("encoded start key empty (version meta.k8s.io/v1)".to_owned()));
        }
        if token.rv == 0 {
            return Err(invalid(
                "incorrect encoded start resourceVersion (version meta.k8s.io/v1)".to_owned(),
            ));
        }
        if token.start.split('/').any(|part| matches!(part, "." | "..")) {
            return Err(invalid(token.start));
        }
        Ok(token)
    }
}

fn token(revision: u64, after: &str, prefix: &str) -> String {
    token_at(i64::try_from(revision).unwrap_or(i64::MAX), after, prefix)
}

fn token_at(rv: i64, after: &str, prefix: &str) -> String {
    let start = format!("/{}\0", after.strip_prefix(prefix).unwrap_or(after));
    let token = Continue { v: TOKEN_VERSION.to_owned(), rv, start };
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).expect("text and numbers can always be written"))
}

fn list_body(
    rendering: Rendering,
    revision: Revision,
    continue_token: Option<String>,
    remaining: Option<usize>,
    items: Vec<Arc<Record<Meta>>>,
) -> Body {
    let (kind, api_version) = rendering.list_type();
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if let Some(token) = continue_token {
        metadata["continue"] = token.into();
    }
    if let Some(remaining) = remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    let with_kind = rendering.resource.behaviour.items_have_kind();
    let mut chunk = BytesMut::with_capacity(1024);
    chunk.put_slice(&Resource::head(&kind, &api_version));
    chunk.put_slice(format!(r#""metadata":{metadata},"items":["#).as_bytes());
    let mut items = items.into_iter();
    let mut first = true;
    let mut over = false;
    let mut next = move || {
        if over {
            return None;
        }
        for record in items.by_ref() {
            if !std::mem::take(&mut first) {
                chunk.put_slice(b",");
            }
            rendering.write(&record.body, with_kind, &mut chunk);
            if chunk.len() >= CHUNK {
                let full = chunk.split().freeze();
                chunk.reserve(CHUNK + CHUNK / 8);
                return Some(full);
            }
        }
        over = true;
        chunk.put_slice(b"]}");
        Some(chunk.split().freeze())
    };
    // A list that fits into one chunk is sent with its length.
    let Some(whole) = next() else { return Body::empty() };
    if whole.len() < CHUNK {
        return Body::from(whole);
    }
    Body::chunks(std::iter::once(whole).chain(std::iter::from_fn(next)))
}
