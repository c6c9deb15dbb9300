//! Parses one line of a watch: event type and object.

use std::{borrow::Cow, collections::BTreeMap};

use kube::core::Status;
use serde::Deserialize;

use super::cursor::{Cursor, Step};

/// The annotation of the bookmark that ends the initial events of a streaming list.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// A watch event. Objects are bytes of the line.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchFrame<'a> {
    /// An object that is new to this watch.
    Added(&'a [u8]),
    /// A changed object.
    Modified(&'a [u8]),
    /// A deleted object, in its last state.
    Deleted(&'a [u8]),
    /// No changes up to this version.
    Bookmark {
        /// The version from which a watch can resume.
        resource_version: Cow<'a, str>,
        /// Whether all initial objects have been sent.
        initial_events_end: bool,
    },
    /// The server ends the watch, with this reason.
    Error(Box<Status>),
}

/// A line of a watch that cannot be parsed. The message does not quote the line: it may hold a secret.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// A line is too long.
    #[error("a line of the watch is longer than {limit} bytes")]
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// A line is not an event.
    #[error("a line of {length} bytes is not a watch event: {problem}")]
    Malformed {
        /// Length of the line.
        length: usize,
        /// The problem.
        problem: String,
    },
    /// The event type is unknown.
    #[error("a watch event has the unknown type {name:?}")]
    UnknownType {
        /// The event type.
        name: String,
    },
}

impl<'a> WatchFrame<'a> {
    /// Parses a line.
    ///
    /// The object is delimited, not checked: its decoder finds invalid JSON. A line that begins as servers write it,
    /// `{"type":"ADDED","object":{`, is not scanned: the object ends one byte before the line. Further fields after the
    /// object, which no server writes, would become part of it and fail to decode.
    ///
    /// # Errors
    /// [`FrameError`] if the line has no `type` or `object`, the type is unknown, or a bookmark or error cannot be
    /// decoded.
    pub fn parse(line: &'a [u8]) -> Result<Self, FrameError> {
        let malformed = |problem: String| FrameError::Malformed { length: line.len(), problem };
        let (name, object) = match usual(line) {
            Some((name, object)) => (Cow::Borrowed(name), object),
            None => unusual(line)
                .ok_or_else(|| malformed("it is not a JSON object with a type and an object".into()))?,
        };
        match &*name {
            "ADDED" => Ok(Self::Added(object)),
            "MODIFIED" => Ok(Self::Modified(object)),
            "DELETED" => Ok(Self::Deleted(object)),
            "BOOKMARK" => {
                let Bookmark { metadata } = serde_json::from_slice(object)
                    .map_err(|error| malformed(format!("a bookmark, but {error}")))?;
                if metadata.resource_version.is_empty() {
                    return Err(malformed("a bookmark, but without a version".into()));
                }
                let end =
                    metadata.annotations.as_ref().and_then(|annotations| annotations.get(INITIAL_EVENTS_END));
                Ok(Self::Bookmark {
                    initial_events_end: end.is_some_and(|value| value == "true"),
                    resource_version: metadata.resource_version,
                })
            }
            "ERROR" => serde_json::from_slice(object)
                .map(Self::Error)
                .map_err(|error| malformed(format!("an error, but {error}"))),
            _ => Err(FrameError::UnknownType { name: name.into_owned() }),
        }
    }
}

/// Parses the usual form, `{"type":"…","object":{…}}`.
fn usual(line: &[u8]) -> Option<(&str, &[u8])> {
    let rest = line.trim_ascii().strip_prefix(br#"{"type":""#)?;
    let name = ["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
        .into_iter()
        .find(|name| rest.starts_with(name.as_bytes()))?;
    let object = rest.get(name.len()..)?.strip_prefix(br#"","object":"#)?.strip_suffix(b"}")?;
    (object.starts_with(b"{") && object.ends_with(b"}")).then_some((name, object))
}

/// Parses any form. Of duplicate keys, the first counts.
fn unusual(line: &[u8]) -> Option<(Cow<'_, str>, &[u8])> {
    let (mut name, mut object) = (None, None);
    let mut cursor = Cursor::new(line);
    cursor.expect(b'{')?;
    let mut first = true;
    while let Step::Key(key) = cursor.next_key(first)? {
        first = false;
        if name.is_none() && key.is("type") {
            name = Some(cursor.string()?.text()?);
        } else if object.is_none() && key.is("object") {
            let bytes = line.get(cursor.value()?)?;
            object = Some(bytes.starts_with(b"{").then_some(bytes)?);
        } else {
            cursor.value()?;
        }
    }
    cursor.peek().is_none().then_some((name?, object?))
}

#[derive(Deserialize)]
struct Bookmark<'a> {
    #[serde(borrow)]
    metadata: BookmarkMetadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMetadata<'a> {
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    annotations: Option<BTreeMap<String, String>>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(line: &str) -> Result<WatchFrame<'_>, FrameError> {
        WatchFrame::parse(line.as_bytes())
    }

    #[test]
    fn the_object_is_returned_unchanged() {
        let object = br#"{"metadata":{"name":"a}"}}"#.as_slice();
        let line = r#"{"type":"ADDED","object":{"metadata":{"name":"a}"}}}"#;
        assert_eq!(parse(line).unwrap(), WatchFrame::Added(object));
        let line = " {\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":\"a}\"}}}\r";
        assert_eq!(parse(line).unwrap(), WatchFrame::Modified(object));
    }

    #[test]
    fn the_order_and_white_space_do_not_matter() {
        let line = r#" { "object" : {"a":["}",{}]} , "more":[1,{}], "type" : "DELE\u0054ED" } "#;
        assert_eq!(parse(line).unwrap(), WatchFrame::Deleted(br#"{"a":["}",{}]}"#));
        assert_eq!(usual(line.as_bytes()), None);
    }

    #[test]
    fn a_bookmark_has_a_version_and_may_end_the_initial_events() {
        let bookmark = |resource_version: &'static str, initial_events_end| WatchFrame::Bookmark {
            resource_version: resource_version.into(),
            initial_events_end,
        };
        let line = r#"{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"12",
            "creationTimestamp":null},"spec":{"containers":null},"status":{}}}"#;
        assert_eq!(parse(line).unwrap(), bookmark("12", false));
        let line = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"12","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
        assert_eq!(parse(line).unwrap(), bookmark("12", true));
        assert_eq!(parse(&line.replace("true", "false")).unwrap(), bookmark("12", false));
        let line = r#"{"type":"BOOKMARK","object":{"metadata":{}}}"#;
        assert!(
            matches!(parse(line), Err(FrameError::Malformed { problem, .. }) if problem.contains("resourceVersion"))
        );
    }

    #[test]
    fn an_error_has_code_and_reason() {
        let line = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",
            "message":"too old resource version: 1 (2)","reason":"Expired","code":410}}"#;
        let WatchFrame::Error(status) = parse(line).unwrap() else { panic!("it is an error") };
        assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
        assert!(status.message.starts_with("too old"));
    }

    #[test]
    fn an_unknown_type_is_named() {
        for line in [r#"{"type":"RENAMED","object":{}}"#, r#"{"object":{},"type":"RENAMED"}"#] {
            assert!(matches!(parse(line), Err(FrameError::UnknownType { name }) if name == "RENAMED"));
        }
    }

    #[test]
    fn an_invalid_line_is_malformed_and_not_quoted() {
        for line in [
            "",
            "{}",
            "[]",
            r#"{"type":"ADDED"}"#,
            r#"{"object":{"a":"secret"}}"#,
            r#"{"type":"ADDED","object":null}"#,
            r#"{"type":"ADDED","object":{"a":"secret"}"#,
            r#"{"type":"ADDED","object":{"a":"secret"}}}x"#,
            r#"{"type":1,"object":{}}"#,
        ] {
            let error = parse(line).unwrap_err();
            assert!(matches!(error, FrameError::Malformed { .. }), "{line}");
            assert!(!error.to_string().contains("secret"));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100), prefix in any::<bool>()) {
            let line = if prefix { [br#"{"type":"ADDED","object":{"#, bytes.as_slice()].concat() } else { bytes };
            let _ = WatchFrame::parse(&line);
        }

        #[test]
        fn an_incomplete_line_is_no_decodable_object(cut in 0..58_usize) {
            let line = br#"{"type":"ADDED","object":{"a":{"b":{}},"c":{"d":[{}],"e":{}}}}"#;
            let whole = |line| match WatchFrame::parse(line) {
                Ok(WatchFrame::Added(object)) => serde_json::from_slice::<serde_json::Value>(object).is_ok(),
                _ => false,
            };
            prop_assert!(whole(line));
            prop_assert!(!whole(&line[..cut]));
        }
    }
}
