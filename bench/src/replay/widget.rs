//! The replayed kind: its Rust type, and the rendering of its objects. `peers/go/widget` has its Go type.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bytes::{Bytes, BytesMut};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// Path of the widgets of all namespaces.
pub(crate) const PATH: &str = "/apis/bench.bowline.dev/v1/widgets";

/// Number of namespaces.
const NAMESPACES: usize = 20;

/// Number of widgets in a group.
pub(crate) const GROUP: usize = 100;

/// Length of the send time and of the rest of a frame. So the position of the send time marks the end of a frame.
const SENT_BYTES: usize = NOT_STAMPED.len();
const AFTER_SENT: usize = "\"}}}\n".len();

/// Send time in nanoseconds since 1970, in a frame without one.
const NOT_STAMPED: &str = "0000000000000000000";

/// Desired state. A hundred widgets share a group.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]
#[kube(group = "bench.bowline.dev", version = "v1", kind = "Widget", namespaced)]
#[kube(status = "WidgetStatus", schema = "disabled")]
pub(crate) struct WidgetSpec {
    pub(crate) group: String,
    pub(crate) image: String,
    pub(crate) replicas: i32,
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) ports: Vec<Port>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Port {
    pub(crate) name: String,
    pub(crate) port: i32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WidgetStatus {
    /// Counts the updates of the widget.
    pub(crate) change: u64,
    pub(crate) conditions: Vec<Condition>,
    /// Send time, if requested.
    pub(crate) sent: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Condition {
    pub(crate) r#type: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) last_transition_time: Time,
}

impl Widget {
    /// Number of its updates.
    pub(crate) fn change(&self) -> u64 {
        self.status.as_ref().map_or(0, |status| status.change)
    }

    /// Send time in nanoseconds since 1970; 0 if not set.
    pub(crate) fn sent(&self) -> u64 {
        self.status.as_ref().and_then(|status| status.sent.parse().ok()).unwrap_or(0)
    }
}

/// The same frame with a send time, in nanoseconds since 1970.
pub(super) fn stamped(frame: &[u8], sent: u128) -> Bytes {
    let mut frame = BytesMut::from(frame);
    let end = frame.len() - AFTER_SENT;
    frame[end - SENT_BYTES..end].copy_from_slice(format!("{sent:0SENT_BYTES$}").as_bytes());
    frame.freeze()
}

/// The namespace of the widget with this number. The Go programs use the same.
pub(crate) fn namespace(number: usize) -> String {
    format!("bench-{:02}", number % NAMESPACES)
}

/// The name of the widget with this number. The Go programs use the same.
pub(crate) fn name(number: usize) -> String {
    format!("widget-{number:06}")
}

/// Number of groups for this number of widgets.
pub(crate) fn groups(n: usize) -> usize {
    (n / GROUP).max(1)
}

/// Name of a group, as in the Go programs.
pub(crate) fn group(group: usize) -> String {
    format!("group-{group:04}")
}

/// Renders the widget with this number, of `n`, after `change` updates.
pub(super) fn render(text: &mut String, number: usize, n: usize, revision: usize, change: usize) {
    write!(
        text,
        concat!(
            r#"{{"apiVersion":"bench.bowline.dev/v1","kind":"Widget","metadata":{{"#,
            r#""creationTimestamp":"2026-11-01T08:00:00Z","generation":1,"#,
            r#""labels":{{"app.kubernetes.io/name":"widget","app.kubernetes.io/part-of":"bench"}},"#,
            r#""managedFields":[{{"apiVersion":"bench.bowline.dev/v1","fieldsType":"FieldsV1","fieldsV1":{{"#,
            r#""f:spec":{{"f:group":{{}},"f:image":{{}},"f:replicas":{{}},"f:settings":{{"f:level":{{}},"#,
            r#""f:listen":{{}},"f:region":{{}}}},"f:ports":{{}}}}}},"#,
            r#""manager":"bench","operation":"Update","time":"2026-11-01T08:00:00Z"}}],"#,
            r#""name":"{name}","namespace":"{namespace}","resourceVersion":"{revision}","#,
            r#""uid":"{number:08x}-4d57-4a25-a1e1-4cb7c6a6a7a1"}},"#,
            r#""spec":{{"group":"{group}","image":"registry.example.com/shop/widget:1.27.3","ports":["#,
            r#"{{"name":"http","port":8080}},{{"name":"metrics","port":9090}}],"replicas":3,"#,
            r#""settings":{{"level":"info","listen":"0.0.0.0:8080","region":"eu-central-1"}}}},"#,
            r#""status":{{"change":{change},"conditions":["#,
            r#"{{"lastTransitionTime":"2026-11-01T08:00:05Z","message":"all replicas are ready","#,
            r#""reason":"AllReady","status":"True","type":"Ready"}},"#,
            r#"{{"lastTransitionTime":"2026-11-01T08:00:02Z","message":"nothing is left to roll out","#,
            r#""reason":"RolledOut","status":"False","type":"Progressing"}}],"sent":"{sent}"}}}}"#,
        ),
        name = name(number),
        namespace = namespace(number),
        revision = revision,
        number = number,
        group = group(number % groups(n)),
        change = change,
        sent = NOT_STAMPED,
    )
    .expect("writing to a string cannot fail");
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt as _;

    use super::*;

    fn rendered(number: usize, change: usize) -> String {
        let mut text = String::new();
        render(&mut text, number, 400, 1_234, change);
        text
    }

    #[test]
    fn a_widget_is_about_a_kilobyte_that_the_type_reads_whole() {
        let text = rendered(7, 3);
        assert!((1_000..1_300).contains(&text.len()), "{}", text.len());
        let widget: Widget = serde_json::from_str(&text).unwrap();
        assert_eq!((widget.name_any(), widget.namespace()), (name(7), Some(namespace(7))));
        assert_eq!((widget.change(), widget.spec.group.as_str()), (3, "group-0003"));
        let again: serde_json::Value = serde_json::to_value(&widget).unwrap();
        assert_eq!(again, serde_json::from_str::<serde_json::Value>(&text).unwrap());
    }

    #[test]
    fn a_group_has_a_hundred_widgets() {
        let of_third = (0..400).filter(|number| rendered(*number, 0).contains("group-0002"));
        assert_eq!(of_third.count(), GROUP);
        assert_eq!(groups(7), 1, "a few are one group");
    }

    #[test]
    fn the_place_of_the_stamp_is_told_by_where_a_frame_ends() {
        let frame = format!("{{\"type\":\"MODIFIED\",\"object\":{}}}\n", rendered(7, 3));
        let end = frame.len() - AFTER_SENT;
        assert_eq!(&frame[end - SENT_BYTES..end], NOT_STAMPED);
        assert!(frame[..end - SENT_BYTES].ends_with("\"sent\":\""));
        let frame = stamped(frame.as_bytes(), 1_700_000_000_123_456_789);
        let event: serde_json::Value = serde_json::from_slice(&frame).unwrap();
        let widget: Widget = serde_json::from_value(event["object"].clone()).unwrap();
        assert_eq!(widget.sent(), 1_700_000_000_123_456_789);
    }
}
