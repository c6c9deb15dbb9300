//! The record of a real kube-apiserver: its audit log.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

use crate::record::{AGENT, Moment, Place, Record, Request};

/// Audit policy: writes of config maps, reads and writes of leases.
pub(crate) const POLICY: &str = r#"{
  "apiVersion": "audit.k8s.io/v1",
  "kind": "Policy",
  "rules": [
    {
      "level": "Metadata",
      "verbs": ["create", "update", "patch", "delete"],
      "resources": [{"resources": ["configmaps"]}]
    },
    {
      "level": "Metadata",
      "verbs": ["get", "create", "update", "patch", "delete"],
      "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]
    },
    {"level": "None"}
  ]
}"#;

/// The read position in an audit log.
#[derive(Default)]
pub(crate) struct AuditLog(Mutex<Read>);

#[derive(Default)]
struct Read {
    bytes: u64,
    /// Started requests, by audit id.
    open: BTreeMap<String, Place>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(rename = "auditID")]
    id: String,
    stage: String,
    verb: String,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: Object,
    response_status: Option<Response>,
    request_received_timestamp: Timestamp,
    stage_timestamp: Timestamp,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Object {
    resource: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize)]
struct Response {
    #[serde(default)]
    code: u16,
}

impl AuditLog {
    /// Appends the new lines to a record.
    pub(crate) fn read(&self, path: &Path, record: &Record) -> io::Result<()> {
        let mut read = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file?,
        };
        file.seek(SeekFrom::Start(read.bytes))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        // The last line may be incomplete.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        read.bytes += u64::try_from(whole).map_err(io::Error::other)?;
        for line in text[..whole].lines() {
            let event: Event = serde_json::from_str(line)?;
            read.take(event, record);
        }
        Ok(())
    }
}

impl Read {
    fn take(&mut self, event: Event, record: &Record) {
        let Some(identity) = event.user_agent.strip_prefix(AGENT) else { return };
        match event.stage.as_str() {
            "RequestReceived" => {
                let request = Request {
                    identity,
                    verb: &event.verb,
                    namespace: &event.object_ref.namespace,
                    resource: &event.object_ref.resource,
                    name: &event.object_ref.name,
                };
                if let Some(place) = record.begin(&request, moment(event.request_received_timestamp)) {
                    self.open.insert(event.id, place);
                }
            }
            "ResponseComplete" => {
                let is_done = event.response_status.is_some_and(|response| response.code < 300);
                if let Some(place) = self.open.remove(&event.id).filter(|_| is_done) {
                    record.end(&place, moment(event.stage_timestamp));
                }
            }
            _ => {}
        }
    }
}

fn moment(time: Timestamp) -> Moment {
    Moment::from_micros(u64::try_from(time.as_microsecond()).unwrap_or(0))
}
