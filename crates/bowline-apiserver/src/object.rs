//! Objects as the server holds them: a JSON value while it works on one, bytes at rest.
//!
//! At rest an object has neither `apiVersion` nor `kind`, which every reader puts in front as its version wants them, and
//! its revision stands at a known place, to be filled in at the moment of the commit.

use std::time::{Duration, SystemTime};

use bowline_machinery::{Status, calendar};
use bowline_storage::{NewRecord, Record, Revision};
use bytes::Bytes;
use serde_json::{Map, Value};

use crate::resource::Resource;

/// Data beside the bytes of an object, so that selection needs no parsing.
#[derive(Debug)]
pub(crate) struct Meta {
    pub(crate) uid: Box<str>,
    pub(crate) labels: Box<[(Box<str>, Box<str>)]>,
    /// The fields that a field selector may name, but for name and namespace, which stand in the key.
    pub(crate) fields: Box<[(Box<str>, Box<str>)]>,
}

/// The key of an object in its table. Neither part can hold a slash.
pub(crate) fn key(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

/// Namespace and name of a key.
pub(crate) fn split_key(key: &str) -> (Option<&str>, &str) {
    match key.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, key),
    }
}

pub(crate) fn metadata(object: &Value) -> Option<&Map<String, Value>> {
    object.get("metadata")?.as_object()
}

/// The object's metadata, which is made if there is none. Anything that is not an object becomes one.
pub(crate) fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    child_mut(object, "metadata")
}

/// A field that is an object; it is made if there is none.
pub(crate) fn child_mut<'a>(object: &'a mut Value, name: &str) -> &'a mut Map<String, Value> {
    into_map(into_map(object).entry(name).or_insert(Value::Null))
}

pub(crate) fn into_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it has just been made an object")
}

/// Takes off what says what an object is: neither stored nor worked on objects have it.
pub(crate) fn strip_kind(object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
}

/// A text of the metadata; empty if it is absent.
pub(crate) fn meta_str<'a>(object: &'a Value, field: &str) -> &'a str {
    metadata(object).and_then(|metadata| metadata.get(field)).and_then(Value::as_str).unwrap_or("")
}

/// Sets a text of the metadata, or removes it if it is empty.
pub(crate) fn set_meta_str(object: &mut Value, field: &str, value: &str) {
    if value.is_empty() {
        metadata_mut(object).remove(field);
    } else {
        metadata_mut(object).insert(field.to_owned(), Value::from(value));
    }
}

pub(crate) fn finalizers(object: &Value) -> Vec<String> {
    let list = metadata(object).and_then(|metadata| metadata.get("finalizers")).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

pub(crate) fn set_finalizers(object: &mut Value, finalizers: Vec<String>) {
    if finalizers.is_empty() {
        metadata_mut(object).remove("finalizers");
    } else {
        metadata_mut(object).insert("finalizers".to_owned(), Value::from(finalizers));
    }
}

/// The most bytes of an object at rest.
const MAX_STORED: usize = 1536 * 1024;

/// Bytes with a place for the revision.
pub(crate) struct Template {
    bytes: Vec<u8>,
    place: usize,
}

impl Template {
    pub(crate) fn new(object: &Value) -> Self {
        let mut template = Self { bytes: Vec::with_capacity(2048), place: 0 };
        template.bytes.push(b'{');
        template.metadata(metadata(object).unwrap_or(&Map::new()));
        for (name, value) in object.as_object().into_iter().flatten() {
            if !matches!(name.as_str(), "metadata" | "apiVersion" | "kind") {
                template.bytes.push(b',');
                template.field(name, value);
            }
        }
        template.bytes.push(b'}');
        template
    }

    fn metadata(&mut self, metadata: &Map<String, Value>) {
        self.bytes.extend_from_slice(br#""metadata":{"resourceVersion":""#);
        self.place = self.bytes.len();
        self.bytes.push(b'"');
        for (name, value) in metadata {
            if name != "resourceVersion" {
                self.bytes.push(b',');
                self.field(name, value);
            }
        }
        self.bytes.push(b'}');
    }

    fn field(&mut self, name: &str, value: &Value) {
        serde_json::to_writer(&mut self.bytes, name).expect("text can always be written to memory");
        self.bytes.push(b':');
        serde_json::to_writer(&mut self.bytes, value).expect("a value can always be written to memory");
    }

    /// Refuses what etcd would refuse to store, in its words.
    pub(crate) fn check_size(&self) -> Result<(), Status> {
        if self.bytes.len() <= MAX_STORED {
            return Ok(());
        }
        Err(Status::failure(500, "", "etcdserver: request is too large"))
    }

    /// Whether a record holds the same but for its revision.
    pub(crate) fn same_as<M>(&self, record: &Record<M>) -> bool {
        let revision = record.revision.to_string();
        let old = &record.body;
        old.len() == self.bytes.len() + revision.len()
            && old[..self.place] == self.bytes[..self.place]
            && old[self.place + revision.len()..] == self.bytes[self.place..]
    }

    pub(crate) fn finish(&self, revision: Revision) -> Bytes {
        let revision = revision.to_string();
        let mut bytes = Vec::with_capacity(self.bytes.len() + revision.len());
        bytes.extend_from_slice(&self.bytes[..self.place]);
        bytes.extend_from_slice(revision.as_bytes());
        bytes.extend_from_slice(&self.bytes[self.place..]);
        Bytes::from(bytes)
    }
}

/// A record to store: bytes, completed once the revision is known, and the data beside them.
pub(crate) fn contents(
    resource: &Resource,
    object: &Value,
) -> (Template, impl FnOnce(&Template, Revision) -> NewRecord<Meta> + use<>) {
    let meta = Meta {
        uid: meta_str(object, "uid").into(),
        labels: labels(object),
        fields: resource
            .behaviour
            .fields(object)
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
    };
    (Template::new(object), move |template: &Template, revision| NewRecord {
        body: template.finish(revision),
        meta,
    })
}

fn labels(object: &Value) -> Box<[(Box<str>, Box<str>)]> {
    let labels = metadata(object).and_then(|metadata| metadata.get("labels")).and_then(Value::as_object);
    let text = |value: &Value| value.as_str().unwrap_or_default().into();
    labels.into_iter().flatten().map(|(name, value)| (name.as_str().into(), text(value))).collect()
}

/// A time as Kubernetes writes it: seconds, UTC.
pub(crate) fn timestamp(time: SystemTime) -> String {
    let whole = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    let seconds = match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => whole(since),
        // A part of a second before it belongs to the second before it.
        Err(until) => -whole(until.duration()) - i64::from(until.duration().subsec_nanos() > 0),
    };
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = calendar::date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The time that a [timestamp] says.
pub(crate) fn time(text: &str) -> Option<SystemTime> {
    let (date, clock) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers = |text: &str, separator| -> Option<[i64; 3]> {
        let numbers: Vec<u32> = text.split(separator).map(str::parse).collect::<Result<_, _>>().ok()?;
        <[u32; 3]>::try_from(numbers).ok().map(|numbers| numbers.map(i64::from))
    };
    let ([year, month, day], [hour, minute, second]) = (numbers(date, '-')?, numbers(clock, ':')?);
    let seconds = calendar::days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    let distance = Duration::from_secs(seconds.unsigned_abs());
    let epoch = SystemTime::UNIX_EPOCH;
    if seconds < 0 { epoch.checked_sub(distance) } else { epoch.checked_add(distance) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_revision_is_put_in_its_place() {
        let object = json!({"kind": "A", "apiVersion": "v1", "metadata": {"name": "a", "resourceVersion": "7"}, "data": {}});
        let bytes = Template::new(&object).finish(Revision::from(12));
        assert_eq!(bytes, r#"{"metadata":{"resourceVersion":"12","name":"a"},"data":{}}"#);
    }

    #[test]
    fn times_are_seconds_in_utc() {
        for (seconds, text) in [
            (-7_423_729_307, "1734-10-02T04:58:13Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_763_203_191, "2025-11-15T10:39:51Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            let distance = Duration::from_secs(i64::unsigned_abs(seconds));
            let epoch = SystemTime::UNIX_EPOCH;
            let at = if seconds < 0 { epoch - distance } else { epoch + distance };
            assert_eq!((timestamp(at).as_str(), time(text)), (text, Some(at)));
        }
    }
}
