//! Reads: one object, or a list of objects at one revision.

use std::num::NonZeroUsize;
use std::sync::Arc;

use bowline_machinery::Status;
use bowline_storage::{ListError, ListRequest, Record, Revision};
use bytes::{BufMut as _, Bytes, BytesMut};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::body::Body;
use crate::continue_token::ContinueToken;
use crate::list_options::{self, Page};
use crate::negotiate::{Form, not_acceptable};
use crate::object::{self, Meta};
use crate::query::Query;
use crate::resource::Resource;
use crate::select::Selectors;
use crate::server::Store;

/// Approximate size of the chunks in which lists are sent.
const CHUNK: usize = 128 * 1024;

/// Encoding of a resource's records for one client.
#[derive(Clone)]
pub(crate) struct ResponseEncoder {
    pub(crate) resource: Arc<Resource>,
    pub(crate) form: Form,
}

impl ResponseEncoder {
    /// A complete object.
    pub(crate) fn object(&self, body: &Bytes) -> Bytes {
        let mut bytes = BytesMut::with_capacity(body.len() + 64);
        self.write(body, true, &mut bytes);
        bytes.freeze()
    }

    /// An object, with `kind` and `apiVersion` in front if it needs them.
    pub(crate) fn write(&self, body: &Bytes, with_kind: bool, to: &mut BytesMut) {
        if let Form::Metadata { version, .. } = self.form {
            to.put_slice(br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/"#);
            to.put_slice(version.as_bytes());
            to.put_slice(br#"","metadata":"#);
            to.put_slice(metadata(body).as_bytes());
            to.put_slice(b"}");
            return;
        }
        let tail = self.resource.tail(body);
        to.reserve(self.resource.head.len() + tail.len());
        if with_kind {
            to.put_slice(&self.resource.head);
        } else {
            to.put_slice(b"{");
        }
        to.put_slice(&tail);
    }

    fn list_type(&self) -> (String, String) {
        match self.form {
            Form::Object => (self.resource.names.list_kind.clone(), self.resource.api_version()),
            Form::Metadata { version, .. } => {
                ("PartialObjectMetadataList".to_owned(), format!("meta.k8s.io/{version}"))
            }
        }
    }

    /// Refuses a metadata-only list type for an object, and the reverse.
    pub(crate) fn check_form(&self, is_list: bool) -> Result<(), Status> {
        let kind = &self.resource.gvk.kind;
        match self.form {
            Form::Metadata { list: true, .. } if !is_list => Err(not_acceptable(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list ({kind})"
            ))),
            Form::Metadata { list: false, .. } if is_list => Err(not_acceptable(format!(
                "you requested PartialObjectMetadata, but the requested object is a list ({kind}List)"
            ))),
            _ => Ok(()),
        }
    }
}

/// The metadata of a stored body, verbatim.
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
        // Text and code of kube-apiserver: an internal error.
        let revision = list_options::parse_revision(&query.resource_version)
            .map_err(|why| Status::failure(500, "", why.to_string()))?;
        list_options::check_not_after(query.stale_at().unwrap_or_else(|| store.revision()), revision)?;
    }
    let (_, name) = object::split_key(key);
    let record = match query.stale_at() {
        None => store.get(resource.table, key),
        Some(at) => {
            let list = ListRequest { prefix: key, at: Some(at), limit: NonZeroUsize::new(1), after: None };
            let listing = store.list(resource.table, list).map_err(not_in_history)?;
            // The key itself sorts before all keys with it as prefix.
            listing.items.into_iter().next().filter(|record| &*record.key == key)
        }
    };
    record.ok_or_else(|| Status::not_found(&resource.group_resource(), name))
}

/// A stale read of a revision that the history does not have: a mistake in a test, which must not look like a 410.
fn not_in_history(error: ListError) -> Status {
    Status::internal(format!("a stale read is not possible: {error}"))
}

/// The parts of a list.
pub(crate) struct Selected {
    revision: Revision,
    continue_token: Option<String>,
    remaining: Option<usize>,
    pub(crate) items: Vec<Arc<Record<Meta>>>,
}

/// Minimum number of records read at a time in search of selected ones.
const AT_LEAST: usize = 500;

/// Reads a list.
pub(crate) fn list(
    store: &Store,
    rendering: &ResponseEncoder,
    namespace: Option<&str>,
    query: &Query,
) -> Result<Body, Status> {
    select(store, rendering, namespace, query).map(|selected| selected.into_body(rendering.clone()))
}

/// The target of a list request.
pub(crate) fn select(
    store: &Store,
    rendering: &ResponseEncoder,
    namespace: Option<&str>,
    query: &Query,
) -> Result<Selected, Status> {
    let resource = &rendering.resource;
    if let Some(error) = &query.list_error {
        return Err(error.clone());
    }
    let selectors = Selectors::parse(query)?;
    list_options::check_list(query)?;
    let selection = selectors.of(resource)?;
    let page = Page::of(store, query)?;
    rendering.check_form(true)?;
    let prefix = namespace.map_or_else(String::new, |namespace| format!("{namespace}/"));

    let mut items = Vec::new();
    let mut from = page.after.as_ref().map(|after| format!("{prefix}{after}"));
    let mut at = page.at;
    let limit = page.limit.unwrap_or(usize::MAX);
    let token = |at, last: Option<&str>| {
        let after = last.and_then(|last| last.strip_prefix(&prefix)).unwrap_or_default().to_owned();
        ContinueToken { at, after }.encode()
    };
    // With a selector, a page is full only when it has enough selected objects: batches grow until then.
    let mut wanted = match page.limit {
        Some(limit) if !selection.is_everything() => Some(limit.max(AT_LEAST)),
        limit => limit,
    };
    let (revision, remaining) = loop {
        let limit_of_read = wanted.and_then(NonZeroUsize::new);
        let list = ListRequest { prefix: &prefix, after: from.as_deref(), at, limit: limit_of_read };
        let listing = store.list(resource.table, list).map_err(|error| match error {
            error if query.stale_at().is_some() && page.after.is_none() => not_in_history(error),
            ListError::Future { newest, at } => Status::too_large_resource_version(at.get(), newest.get()),
            _ if page.after.is_some() => expired().with_continue(token(None, from.as_deref())),
            _ => Status::expired("The resourceVersion for the provided list is too old."),
        })?;
        at = Some(listing.revision);
        let mut left = listing.items.len() + listing.remaining;
        for record in listing.items {
            if items.len() >= limit {
                break;
            }
            left -= 1;
            from = Some(record.key.to_string());
            if selection.matches(&record) {
                items.push(record);
            }
        }
        if left == 0 || items.len() >= limit {
            break (listing.revision, left);
        }
        wanted = wanted.map(|wanted| wanted.saturating_mul(2));
    };
    let continue_token = (remaining > 0).then(|| token(at, from.as_deref()));
    let remaining = (remaining > 0 && selection.is_everything()).then_some(remaining);
    Ok(Selected { revision, continue_token, remaining, items })
}

/// A page of a compacted revision.
pub(crate) fn expired() -> Status {
    Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
         results. Continuing with the provided token results in an inconsistent list - objects that were created, \
         modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    )
}

impl Selected {
    /// The encoded list.
    pub(crate) fn into_body(self, rendering: ResponseEncoder) -> Body {
        let Self { revision, continue_token, remaining, items } = self;
        let (kind, api_version) = rendering.list_type();
        let with_kind = rendering.resource.behaviour.items_have_kind();
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if let Some(token) = continue_token {
            metadata["continue"] = token.into();
        } else if with_kind && !rendering.form.is_metadata() {
            // Unlike Go types, lists of custom resources do not omit it.
            metadata["continue"] = "".into();
        }
        if let Some(remaining) = remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        let mut chunk = BytesMut::with_capacity(1024);
        chunk.put_slice(&Resource::head(&kind, &api_version));
        if items.is_empty() && rendering.form.is_metadata() {
            // As Go encodes a nil slice.
            chunk.put_slice(format!(r#""metadata":{metadata},"items":null}}"#).as_bytes());
            return Body::from(chunk.freeze());
        }
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
}
