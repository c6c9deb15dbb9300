//! All responses of the server, rendered in advance.

use std::fmt::Write as _;

use bytes::Bytes;

use super::widget;

/// Revision of the list. Its objects have smaller ones, updates have greater ones.
const LISTED: usize = 1_000_000;

/// Distance between successively updated widgets, so that they are not neighbors in any store. It is prime, and no
/// realistic number of widgets is a multiple of it.
const STRIDE: usize = 7_919;

/// Bytes per write.
const CHUNK: usize = 64 << 10;

/// A list, and the events of a watch after it.
pub(super) struct Recording {
    /// The body of the list.
    pub(super) list: Bytes,
    /// The list as the initial events of a watch.
    pub(super) initial: Frames,
    pub(super) updates: Frames,
}

/// Events, one a line.
#[derive(Clone, Default)]
pub(super) struct Frames {
    bytes: Bytes,
    /// The end of each event.
    ends: Vec<usize>,
}

impl Recording {
    /// Renders `n` widgets, each updated once per round.
    pub(super) fn new(n: usize, rounds: usize) -> Self {
        assert!(!n.is_multiple_of(STRIDE), "steps of {STRIDE} do not reach all of {n}");
        let mut list = r#"{"apiVersion":"bench.bowline.dev/v1","kind":"WidgetList","metadata":"#.to_owned();
        write!(list, r#"{{"resourceVersion":"{LISTED}"}},"items":["#)
            .expect("writing to a string cannot fail");
        let mut initial = Rendering::default();
        for number in 0..n {
            let revision = LISTED - n + number;
            if number > 0 {
                list.push(',');
            }
            widget::render(&mut list, number, n, revision, 0);
            initial.event("ADDED", |text| widget::render(text, number, n, revision, 0));
        }
        list += "]}";
        initial.event("BOOKMARK", |text| {
            let metadata = format!(
                r#"{{"annotations":{{"k8s.io/initial-events-end":"true"}},"resourceVersion":"{LISTED}"}}"#
            );
            *text += r#"{"apiVersion":"bench.bowline.dev/v1","kind":"Widget","metadata":"#;
            *text += &metadata;
            text.push('}');
        });
        let mut updates = Rendering::default();
        for update in 0..n * rounds {
            let (number, change) = (update % n * STRIDE % n, update / n + 1);
            updates.event("MODIFIED", |text| widget::render(text, number, n, LISTED + 1 + update, change));
        }
        Self { list: Bytes::from(list), initial: initial.finish(), updates: updates.finish() }
    }
}

#[derive(Default)]
struct Rendering {
    text: String,
    ends: Vec<usize>,
}

impl Rendering {
    fn event(&mut self, kind: &str, object: impl FnOnce(&mut String)) {
        write!(self.text, r#"{{"type":"{kind}","object":"#).expect("writing to a string cannot fail");
        object(&mut self.text);
        self.text += "}\n";
        self.ends.push(self.text.len());
    }

    fn finish(self) -> Frames {
        Frames { bytes: Bytes::from(self.text), ends: self.ends }
    }
}

impl Frames {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// All frames, in pieces to write.
    pub(super) fn chunks(&self) -> impl Iterator<Item = Bytes> {
        let starts = (0..self.bytes.len()).step_by(CHUNK);
        starts.map(|start| self.bytes.slice(start..self.bytes.len().min(start + CHUNK)))
    }

    /// One frame; after the last the first follows.
    pub(super) fn one(&self, number: usize) -> &[u8] {
        let number = number % self.len();
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[number]]
    }

    /// `count` frames from `first` on, starting over after the last one; each piece holds whole frames.
    pub(super) fn some(&self, from: usize, many: usize) -> impl Iterator<Item = Bytes> {
        let (mut next, mut left) = (from % self.len(), many);
        std::iter::from_fn(move || {
            let until = self.len().min(next + left);
            let start = next.checked_sub(1).map_or(0, |before| self.ends[before]);
            let piece = (left > 0).then(|| self.bytes.slice(start..self.ends[until - 1]))?;
            left -= until - next;
            next = 0;
            Some(piece)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn text(pieces: impl Iterator<Item = Bytes>) -> String {
        pieces.map(|piece| String::from_utf8(piece.to_vec()).unwrap()).collect()
    }

    fn revision(line: &str) -> u64 {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        event["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
    }

    #[test]
    fn every_round_updates_every_widget_once_and_revisions_grow() {
        let all = text(Recording::new(200, 3).updates.chunks());
        let lines: Vec<_> = all.lines().collect();
        assert_eq!(lines.len(), 600);
        let revisions: Vec<_> = lines.iter().map(|line| revision(line)).collect();
        assert!(revisions.is_sorted() && revisions[0] > LISTED as u64, "{revisions:?}");
        for (round, lines) in lines.chunks(200).enumerate() {
            let events = lines.iter().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
            let names: BTreeSet<_> = events
                .map(|event| {
                    assert_eq!(event["object"]["status"]["change"], round + 1);
                    event["object"]["metadata"]["name"].as_str().unwrap().to_owned()
                })
                .collect();
            assert_eq!(names.len(), 200);
        }
    }

    #[test]
    fn the_list_and_the_initial_events_tell_of_the_same_widgets() {
        let recording = Recording::new(30, 1);
        let list: serde_json::Value = serde_json::from_slice(&recording.list).unwrap();
        let events = text(recording.initial.chunks());
        let lines: Vec<serde_json::Value> =
            events.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let (bookmark, added) = lines.split_last().unwrap();
        assert_eq!(bookmark["object"]["metadata"]["resourceVersion"], list["metadata"]["resourceVersion"]);
        assert_eq!(bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
        let objects: Vec<_> = added.iter().map(|event| event["object"].clone()).collect();
        assert_eq!(list["items"], serde_json::Value::Array(objects));
    }

    #[test]
    fn frames_go_round() {
        let frames = Recording::new(5, 1).updates;
        let all: Vec<_> = text(frames.chunks()).lines().map(str::to_owned).collect();
        let some: Vec<_> = text(frames.some(3, 9)).lines().map(str::to_owned).collect();
        assert_eq!(some, [&all[3..], &all[..], &all[..2]].concat());
        assert_eq!(frames.some(3, 0).count(), 0);
        let one: Vec<_> =
            (3..12).map(|number| String::from_utf8(frames.one(number).to_vec()).unwrap()).collect();
        assert_eq!(one.concat(), text(frames.some(3, 9)));
    }
}
