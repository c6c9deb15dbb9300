//! Splits a list into its items while its bytes arrive.
//!
//! All bytes around the items are kept, as `{"kind":…,"metadata":{…},"items":[]}`, and decoded at the end. So
//! `metadata` may come before or after `items`.

use std::borrow::Cow;

use bytes::Bytes;
use kube::core::Status;
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, IgnoredAny},
};

use super::{cursor, frames::LIMIT, skip::Skip};

/// Maximum size of a list without its items.
const ENVELOPE_LIMIT: usize = 1024 * 1024;

/// Maximum capacity of a buffer that is kept for reuse.
const MAX_KEPT: usize = 256 * 1024;

/// Metadata of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListMeta {
    /// Version of the list, never empty.
    pub resource_version: String,
    /// Token of the next page, if there is one.
    pub continue_token: Option<String>,
    /// Number of items on later pages, if the server reports it.
    pub remaining: Option<i64>,
}

/// A list that cannot be parsed. The message does not quote the list: it may hold secrets.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// An item is too long.
    #[error("an item of the list is longer than {limit} bytes")]
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// The body ended before the list did.
    #[error("the list ended early, after {items} complete items")]
    Truncated {
        /// Number of complete items.
        items: usize,
    },
    /// The body is not a list.
    #[error("the body is not a list: {problem}")]
    Malformed {
        /// The problem.
        problem: String,
    },
    /// The body is a `Status`, although the response was a success.
    #[error("the body is not a list but a status: {0}")]
    Status(Box<Status>),
}

/// Takes chunks of a list from the network and returns the bytes of its items.
///
/// Holds one chunk, one item that spans chunks, and the bytes around the items. An item is delimited, not checked: its
/// decoder finds invalid JSON.
///
/// ```text
/// while let Some(chunk) = body.next().await {
///     reader.push(chunk);
///     while let Some(item) = reader.next_item()? { … }
/// }
/// let meta = reader.finish()?;
/// ```
#[derive(Debug)]
pub struct ListReader {
    limit: usize,
    /// Current chunk, and the position up to which it is read.
    chunk: Bytes,
    at: usize,
    /// Start of an incomplete item.
    partial: Vec<u8>,
    /// Whether the item in `partial` was returned.
    returned: bool,
    items: usize,
    position: Position,
    envelope: Envelope,
}

#[derive(Clone, Copy, Debug)]
enum Position {
    /// Outside of `items`.
    Envelope,
    /// In `items`, before the first item.
    First,
    /// In `items`, after an item.
    AfterItem,
    /// In `items`, after a comma.
    Next,
    /// In an item.
    Item(Skip),
}

impl Default for ListReader {
    fn default() -> Self {
        Self::new()
    }
}

impl ListReader {
    /// A reader of a new body, with a limit of 16 MiB per item.
    #[must_use]
    pub fn new() -> Self {
        Self {
            limit: LIMIT,
            chunk: Bytes::new(),
            at: 0,
            partial: Vec::new(),
            returned: false,
            items: 0,
            position: Position::Envelope,
            envelope: Envelope::default(),
        }
    }

    /// Sets the limit per item, in bytes.
    #[must_use]
    pub fn with_limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Adds the next chunk. Read all items first: the rest of the previous chunk is copied.
    pub fn push(&mut self, chunk: Bytes) {
        let rest = self.chunk.get(self.at..).unwrap_or_default();
        self.chunk = if rest.is_empty() { chunk } else { [rest, &chunk].concat().into() };
        self.at = 0;
    }

    /// Returns the bytes of the next item; `None` if more data is needed or the items have ended.
    ///
    /// # Errors
    /// [`ListError`] if an item exceeds the limit or the body is not a list. The body cannot be continued then.
    pub fn next_item(&mut self) -> Result<Option<&[u8]>, ListError> {
        if std::mem::take(&mut self.returned) {
            self.partial.clear();
            self.partial.shrink_to(MAX_KEPT);
        }
        loop {
            let rest = self.chunk.get(self.at..).unwrap_or_default();
            if let Position::Item(skip) = &mut self.position {
                let end = skip.advance(rest);
                let length = end.unwrap_or(rest.len());
                if self.partial.len() + length > self.limit {
                    return Err(ListError::TooLong { limit: self.limit });
                }
                let start = self.at;
                self.at += length;
                if end.is_none() || !self.partial.is_empty() {
                    self.partial.extend_from_slice(&rest[..length]);
                }
                if end.is_none() {
                    self.release_chunk();
                    return Ok(None);
                }
                self.position = Position::AfterItem;
                self.items += 1;
                if self.partial.is_empty() {
                    return Ok(self.chunk.get(start..start + length));
                }
                self.returned = true;
                return Ok(Some(&self.partial));
            }
            let Some(&byte) = rest.first() else {
                self.release_chunk();
                return Ok(None);
            };
            self.at += 1;
            self.position = match (self.position, byte) {
                (Position::Envelope, _) if self.envelope.push(byte)? => Position::First,
                (Position::First | Position::AfterItem, b']') => {
                    self.envelope.leave_items();
                    Position::Envelope
                }
                (Position::First | Position::Next, b'{') => {
                    self.at -= 1;
                    Position::Item(Skip::default())
                }
                (Position::AfterItem, b',') => Position::Next,
                (Position::Envelope, _) => Position::Envelope,
                (position, byte) if cursor::is_space(byte) => position,
                _ => return Err(malformed("unexpected bytes between its items")),
            };
        }
    }

    /// Releases the chunk, so that the network reader can reuse its memory.
    fn release_chunk(&mut self) {
        self.chunk = Bytes::new();
        self.at = 0;
    }

    /// Returns the metadata at the end of the body.
    ///
    /// # Errors
    /// [`ListError`] if the body ended early or is not a list.
    pub fn finish(self) -> Result<ListMeta, ListError> {
        let whole = self.at == self.chunk.len()
            && matches!(self.position, Position::Envelope)
            && self.envelope.is_whole();
        if !whole {
            return Err(ListError::Truncated { items: self.items });
        }
        self.envelope.meta()
    }
}

fn malformed(problem: impl Into<String>) -> ListError {
    ListError::Malformed { problem: problem.into() }
}

/// The list without its items, and the state of its parser.
#[derive(Debug, Default)]
struct Envelope {
    bytes: Vec<u8>,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// Range of the last string at the top level, with quotes; before a bracket, this is its key.
    key: (usize, usize),
}

impl Envelope {
    /// Adds a byte. Returns whether it opens the items.
    fn push(&mut self, byte: u8) -> Result<bool, ListError> {
        let at = self.bytes.len();
        if at == 0 && cursor::is_space(byte) {
            return Ok(false);
        }
        if at == ENVELOPE_LIMIT {
            return Err(malformed(format!("its own fields are longer than {ENVELOPE_LIMIT} bytes")));
        }
        if self.depth == 0 && !(at == 0 && byte == b'{' || self.is_whole() && cursor::is_space(byte)) {
            return Err(malformed("it is not one JSON object"));
        }
        self.bytes.push(byte);
        let escaped = std::mem::take(&mut self.escaped);
        match byte {
            b'\\' if self.in_string && !escaped => self.escaped = true,
            b'"' if !escaped => {
                self.in_string = !self.in_string;
                if self.depth == 1 && self.in_string {
                    self.key.0 = at;
                } else if self.depth == 1 {
                    self.key.1 = at + 1;
                }
            }
            b'[' if !self.in_string && self.depth == 1 && self.is_at_items() => return Ok(true),
            b'{' | b'[' if !self.in_string => self.depth += 1,
            b'}' | b']' if !self.in_string => self.depth -= 1,
            _ => {}
        }
        Ok(false)
    }

    fn is_at_items(&self) -> bool {
        let key = self.bytes.get(self.key.0..self.key.1).unwrap_or_default();
        key == br#""items""#
            || key.contains(&b'\\') && serde_json::from_slice::<String>(key).is_ok_and(|key| key == "items")
    }

    fn leave_items(&mut self) {
        self.bytes.push(b']');
    }

    fn is_whole(&self) -> bool {
        self.depth == 0 && !self.bytes.is_empty()
    }

    fn meta(&self) -> Result<ListMeta, ListError> {
        let decoding = |error: serde_json::Error| malformed(error.to_string());
        let head: Head<'_> = serde_json::from_slice(&self.bytes).map_err(decoding)?;
        if head.kind.as_deref() == Some("Status") {
            return Err(ListError::Status(serde_json::from_slice(&self.bytes).map_err(decoding)?));
        }
        let List { metadata, items: () } = serde_json::from_slice(&self.bytes).map_err(decoding)?;
        if metadata.resource_version.is_empty() {
            return Err(malformed("it has no resourceVersion"));
        }
        Ok(ListMeta {
            resource_version: metadata.resource_version,
            continue_token: metadata.continue_token.filter(|token| !token.is_empty()),
            remaining: metadata.remaining_item_count,
        })
    }
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    kind: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct List {
    metadata: Metadata,
    #[serde(deserialize_with = "no_items")]
    items: (),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    resource_version: String,
    #[serde(rename = "continue")]
    continue_token: Option<String>,
    remaining_item_count: Option<i64>,
}

/// Accepts `null` or the emptied array of items.
fn no_items<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    match Option::<Vec<IgnoredAny>>::deserialize(deserializer)? {
        Some(items) if !items.is_empty() => Err(D::Error::custom("unexpected items")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_in(
        reader: ListReader,
        text: &[u8],
        sizes: &[usize],
    ) -> Result<(Vec<String>, ListMeta), ListError> {
        let (mut reader, mut rest, mut sizes) = (reader, text, sizes.iter().cycle());
        let mut items = Vec::new();
        while !rest.is_empty() {
            let (chunk, rest_of_text) =
                rest.split_at(rest.len().min(sizes.next().copied().unwrap_or(usize::MAX)));
            rest = rest_of_text;
            reader.push(Bytes::copy_from_slice(chunk));
            while let Some(item) = reader.next_item()? {
                items.push(String::from_utf8_lossy(item).into_owned());
            }
        }
        Ok((items, reader.finish()?))
    }

    fn read(text: &str) -> Result<(Vec<String>, ListMeta), ListError> {
        read_in(ListReader::new(), text.as_bytes(), &[])
    }

    fn meta(resource_version: &str, continue_token: Option<&str>, remaining: Option<i64>) -> ListMeta {
        ListMeta {
            resource_version: resource_version.into(),
            continue_token: continue_token.map(Into::into),
            remaining,
        }
    }

    const LIST: &str = r#" {"kind":"PodList","apiVersion":"v1","more":{"items":[{"x":1}]},"names":["items"],"metadata":
        {"resourceVersion":"7","continue":"a\"]b","remainingItemCount":3},"items" : [ {"metadata":{"name":"a]}"}} ,
        {"items":[{},{}]},{}]} "#;

    #[test]
    fn items_are_returned_unchanged_and_the_metadata_last() {
        let (items, list) = read(LIST).unwrap();
        assert_eq!(items, [r#"{"metadata":{"name":"a]}"}}"#, r#"{"items":[{},{}]}"#, "{}"]);
        assert_eq!(list, meta("7", Some("a\"]b"), Some(3)));
    }

    #[test]
    fn metadata_may_follow_the_items() {
        let (items, list) =
            read(r#"{"it\u0065ms":[{"a":1}],"metadata":{"continue":"","resourceVersion":"7"}}"#).unwrap();
        assert_eq!((items.len(), list), (1, meta("7", None, None)));
    }

    #[test]
    fn an_item_within_a_chunk_is_not_copied() {
        let mut reader = ListReader::new();
        let chunk = Bytes::from_static(br#"{"items":[{},{"a":1}"#);
        reader.push(chunk.clone());
        assert_eq!(reader.next_item().unwrap().unwrap().as_ptr(), chunk[10..].as_ptr());
        assert_eq!(reader.next_item().unwrap().unwrap().as_ptr(), chunk[13..].as_ptr());
        assert_eq!(reader.next_item().unwrap(), None);
        assert_eq!(reader.partial.capacity(), 0);
    }

    #[test]
    fn a_chunk_is_released_after_its_last_item() {
        for text in [r#"{"items":[{},{"a":1}"#, r#"{"items":[{},{"a":"#] {
            let mut reader = ListReader::new();
            let chunk = Bytes::from(text.as_bytes().to_vec());
            reader.push(chunk.clone());
            while reader.next_item().unwrap().is_some() {}
            assert!(chunk.is_unique(), "{text}");
        }
    }

    #[test]
    fn null_and_an_empty_array_are_lists_without_items() {
        for items in ["null", "[]", " [ \n ] "] {
            let text = format!(r#"{{"metadata":{{"resourceVersion":"7"}},"items":{items}}}"#);
            assert_eq!(read(&text).unwrap(), (Vec::new(), meta("7", None, None)));
        }
    }

    #[test]
    fn an_incomplete_list_is_truncated() {
        let whole = LIST.trim_end();
        for length in 0..whole.len() {
            let result = read(&whole[..length]);
            assert!(matches!(result, Err(ListError::Truncated { .. })), "{length}: {result:?}");
        }
        let result = read(r#"{"items":[{},{},{"#);
        assert_eq!(result.unwrap_err().to_string(), "the list ended early, after 2 complete items");
    }

    #[test]
    fn a_status_is_not_a_list() {
        let text = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":"Expired","code":410}"#;
        assert!(matches!(read(text), Err(ListError::Status(status)) if status.code == 410));
    }

    #[test]
    fn a_body_without_a_list_is_malformed() {
        for text in [
            "404 page not found",
            "[]",
            "{}",
            r#"{"metadata":{"resourceVersion":"7"}}"#,
            r#"{"metadata":{"resourceVersion":"7"},"items":{}}"#,
            r#"{"metadata":{"resourceVersion":"7"},"items":[null]}"#,
            r#"{"metadata":{"resourceVersion":"7"},"items":[1]}"#,
            r#"{"metadata":{"resourceVersion":"7"},"items":[,{}]}"#,
            r#"{"metadata":{"resourceVersion":"7"},"items":[{}{}]}"#,
            r#"{"metadata":{"resourceVersion":"7"},"items":[{},]}"#,
            r#"{"metadata":{"resourceVersion":"7"},"items":[],"items":[]}"#,
            r#"{"metadata":{"resourceVersion":"7"},"items":[]}{}"#,
            r#"{"metadata":{"resourceVersion":"7"},"items"[]}"#,
            r#"{"metadata":{"resourceVersion":"7"},"items":[]]"#,
            r#"{"metadata":{"resourceVersion":""},"items":[]}"#,
            r#"{"items":[]}"#,
        ] {
            let result = read(text);
            assert!(matches!(result, Err(ListError::Malformed { .. })), "{text}: {result:?}");
        }
    }

    #[test]
    fn an_item_over_the_limit_is_an_error_before_it_is_kept() {
        let reader = || ListReader::new().with_limit(10);
        let text = br#"{"items":[{"a":1234},{"a":12345}]}"#;
        for sizes in [[1], [7], [100]] {
            assert!(matches!(read_in(reader(), text, &sizes), Err(ListError::TooLong { limit: 10 })));
        }
        assert!(matches!(read_in(reader(), &text[..20], &[3]), Err(ListError::Truncated { items: 1 })));
        let long = format!(r#"{{"items":[],"x":"{}"#, "x".repeat(ENVELOPE_LIMIT));
        assert!(matches!(read(&long), Err(ListError::Malformed { .. })));
    }

    proptest! {
        #[test]
        fn any_cuts_give_the_same_items(sizes in proptest::collection::vec(1..40_usize, 1..9)) {
            let cut = read_in(ListReader::new(), LIST.as_bytes(), &sizes).unwrap();
            prop_assert_eq!(cut, read(LIST).unwrap());
        }

        #[test]
        fn no_bytes_make_it_panic(
            at in 0..LIST.len(),
            bytes in proptest::collection::vec(prop_oneof![any::<u8>(), proptest::sample::select(b"{}[]\"\\,: ".to_vec())], 0..20),
            sizes in proptest::collection::vec(1..40_usize, 1..4),
        ) {
            let text = [&LIST.as_bytes()[..at], &bytes, &LIST.as_bytes()[(at + bytes.len() / 2).min(LIST.len())..]].concat();
            let _ = read_in(ListReader::new(), &text, &sizes);
            let _ = read_in(ListReader::new(), &bytes, &sizes);
        }
    }
}
