//! The events that wait for one handler: every event while the handler keeps up, merged per key when it falls behind.
//! Has no lock and no task.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bowline_clock::{HashMap, HashState};
use kube::Resource;

use crate::event::{Deleted, Event};
use crate::key::object_key;
use bowline_machinery::ObjectKey;

/// Maximum events behind the first batch before they are merged. A busy watch brings as many in a tenth of a second, so
/// a handler on a loaded machine still sees all.
pub(crate) const LIMIT: usize = 8192;

/// Maximum merged entries taken at once. Later events can still be merged into the rest.
const TAKEN_AT_ONCE: usize = 256;

/// Events that are delivered together, shared by all handlers.
pub(crate) type Batch<K> = Arc<[Event<K>]>;

/// The events that wait for one handler.
///
/// Bounded by the number of objects: the first batch of any size, [`LIMIT`] events behind it, and three events per key
/// after that.
pub(crate) struct Backlog<K> {
    shared: VecDeque<Waiting<K>>,
    /// Number of events behind the first batch.
    behind: usize,
    /// Merged events. If it is not empty, `shared` is.
    coalesced: Coalesced<K>,
}

enum Waiting<K> {
    Batch(Batch<K>),
    InitialEnd,
}

/// The next work of a handler.
pub(crate) enum Taken<K> {
    Shared(Batch<K>),
    Own(Box<[Event<K>]>),
    /// The initial list has been taken.
    InitialEnd,
}

impl<K> Default for Backlog<K> {
    fn default() -> Self {
        Self { shared: VecDeque::new(), behind: 0, coalesced: Coalesced::default() }
    }
}

impl<K: Resource> Backlog<K> {
    pub(crate) fn push(&mut self, batch: &Batch<K>) {
        if batch.is_empty() {
            return;
        }
        if !self.coalesced.is_empty() {
            return self.coalesced.extend(batch);
        }
        let is_first = !self.shared.iter().any(|waiting| matches!(waiting, Waiting::Batch(_)));
        if !is_first {
            self.behind += batch.len();
        }
        self.shared.push_back(Waiting::Batch(batch.clone()));
        if self.behind > LIMIT {
            self.coalesce();
        }
    }

    /// Marks the end of the initial list.
    pub(crate) fn push_initial_end(&mut self) {
        if self.coalesced.is_empty() {
            self.shared.push_back(Waiting::InitialEnd);
        } else {
            self.coalesced.initial_end = self.coalesced.slots.last_key_value().map(|(place, _)| *place);
        }
    }

    pub(crate) fn take(&mut self) -> Option<Taken<K>> {
        if let Some(waiting) = self.shared.pop_front() {
            return Some(match waiting {
                Waiting::InitialEnd => Taken::InitialEnd,
                Waiting::Batch(batch) => {
                    let next = self.shared.iter().find_map(|waiting| match waiting {
                        Waiting::Batch(next) => Some(next.len()),
                        Waiting::InitialEnd => None,
                    });
                    self.behind -= next.unwrap_or(0);
                    Taken::Shared(batch)
                }
            });
        }
        self.coalesced.take()
    }

    /// The number of waiting events.
    pub(crate) fn len(&self) -> usize {
        let shared = self.shared.iter().map(|waiting| match waiting {
            Waiting::Batch(batch) => batch.len(),
            Waiting::InitialEnd => 0,
        });
        shared.sum::<usize>() + self.coalesced.slots.len()
    }

    fn coalesce(&mut self) {
        self.behind = 0;
        for waiting in std::mem::take(&mut self.shared) {
            match waiting {
                Waiting::Batch(batch) => self.coalesced.extend(&batch),
                Waiting::InitialEnd if self.coalesced.is_empty() => self.coalesced.initial_end = Some(0),
                Waiting::InitialEnd => self.push_initial_end(),
            }
        }
    }
}

/// One entry per key, in order of arrival.
struct Coalesced<K> {
    slots: BTreeMap<u64, Pending<K>>,
    places: HashMap<ObjectKey, u64>,
    next_place: u64,
    /// The last place of the initial list.
    initial_end: Option<u64>,
}

/// The pending events of one key: at most three, in this order.
struct Pending<K> {
    /// The deletion of an object that the handler knows.
    deleted: Option<Deleted<K>>,
    /// The last deletion of an object that the handler does not know; a deletion is never lost.
    deleted_unseen: Option<Deleted<K>>,
    /// The addition or update of the present object.
    present: Option<Event<K>>,
}

impl<K> Default for Coalesced<K> {
    fn default() -> Self {
        Self {
            slots: BTreeMap::new(),
            places: HashMap::with_hasher(HashState::for_lookups()),
            // Place 0 is for the end of an empty initial list.
            next_place: 1,
            initial_end: None,
        }
    }
}

impl<K: Resource> Coalesced<K> {
    fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.initial_end.is_none()
    }

    fn extend(&mut self, batch: &Batch<K>) {
        for event in batch.iter() {
            let place = *self.places.entry(object_key(&**event.object())).or_insert(self.next_place);
            let pending = self.slots.entry(place).or_insert_with(|| {
                self.next_place += 1;
                Pending { deleted: None, deleted_unseen: None, present: None }
            });
            pending.merge(event);
        }
    }

    fn take(&mut self) -> Option<Taken<K>> {
        let first = self.slots.first_key_value().map(|(place, _)| *place);
        if let Some(end) = self.initial_end
            && first.is_none_or(|first| first > end)
        {
            self.initial_end = None;
            return Some(Taken::InitialEnd);
        }
        let mut taken = Vec::new();
        for _ in 0..TAKEN_AT_ONCE {
            let Some(slot) = self.slots.first_entry() else { break };
            if self.initial_end.is_some_and(|end| *slot.key() > end) {
                break;
            }
            let Pending { deleted, deleted_unseen, present } = slot.remove();
            let events = deleted.into_iter().chain(deleted_unseen).map(Event::Delete).chain(present);
            let from = taken.len();
            taken.extend(events);
            if let Some(event) = taken.get(from) {
                self.places.remove(&object_key(&**event.object()));
            }
        }
        if self.slots.is_empty() {
            // A backlog is seldom large: free its memory.
            self.places.shrink_to(LIMIT);
        }
        (!taken.is_empty()).then(|| Taken::Own(taken.into()))
    }
}

impl<K> Pending<K> {
    fn merge(&mut self, event: &Event<K>) {
        match (event, self.present.take()) {
            (Event::Delete(deleted), Some(Event::Add { .. })) => self.deleted_unseen = Some(deleted.clone()),
            (Event::Delete(deleted), _) => {
                // A second deletion in a row is a repetition.
                if self.deleted.is_none() && self.deleted_unseen.is_none() {
                    self.deleted = Some(deleted.clone());
                }
            }
            (Event::Update { new, .. } | Event::Add { object: new, .. }, Some(Event::Update { old, .. })) => {
                self.present = Some(Event::Update { old, new: new.clone() });
            }
            (
                Event::Update { new: object, .. } | Event::Add { object, .. },
                Some(Event::Add { in_initial_list, .. }),
            ) => {
                self.present = Some(Event::Add { object: object.clone(), in_initial_list });
            }
            (event, _) => self.present = Some(event.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use proptest::prelude::*;

    use super::*;

    fn object(name: &str, uid: u32, version: u32) -> Arc<ConfigMap> {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(name.to_owned());
        object.metadata.uid = Some(uid.to_string());
        object.metadata.resource_version = Some(version.to_string());
        Arc::new(object)
    }

    fn add(name: &str, uid: u32, version: u32) -> Event<ConfigMap> {
        Event::Add { object: object(name, uid, version), in_initial_list: false }
    }

    fn update(name: &str, uid: u32, from: u32, to: u32) -> Event<ConfigMap> {
        Event::Update { old: object(name, uid, from), new: object(name, uid, to) }
    }

    fn delete(name: &str, uid: u32, version: u32) -> Event<ConfigMap> {
        Event::Delete(Deleted { object: object(name, uid, version), final_state_unknown: false })
    }

    fn shown(event: &Event<ConfigMap>) -> String {
        let of = |object: &ConfigMap| {
            let meta = &object.metadata;
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            format!("{}#{}@{}", text(&meta.name), text(&meta.uid), text(&meta.resource_version))
        };
        match event {
            Event::Add { object, in_initial_list } => {
                format!("{}{}", if *in_initial_list { "initial " } else { "+" }, of(object))
            }
            Event::Update { old, new } => format!("{}>{}", of(old), of(new)),
            Event::Delete(deleted) => format!("-{}", of(&deleted.object)),
        }
    }

    fn batch(events: impl IntoIterator<Item = Event<ConfigMap>>) -> Batch<ConfigMap> {
        events.into_iter().collect()
    }

    fn drain(backlog: &mut Backlog<ConfigMap>) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(taken) = backlog.take() {
            match taken {
                Taken::InitialEnd => all.push("end".to_owned()),
                Taken::Shared(events) => all.extend(events.iter().map(shown)),
                Taken::Own(events) => all.extend(events.iter().map(shown)),
            }
        }
        all
    }

    /// A handler that falls behind: one batch in progress, and too many events behind it.
    fn fallen_behind(events: impl IntoIterator<Item = Event<ConfigMap>>) -> Vec<String> {
        let mut backlog = Backlog::default();
        backlog.push(&batch([add("first", 1, 1)]));
        for event in events {
            backlog.push(&batch([event]));
        }
        let filler = (0..=LIMIT).map(|n| add(&format!("filler-{n}"), 9, 9));
        backlog.push(&batch(filler));
        let mut all = drain(&mut backlog);
        assert_eq!(all.remove(0), "+first#1@1");
        all.retain(|event| !event.contains("filler"));
        all
    }

    #[test]
    fn a_handler_that_keeps_up_sees_every_event_of_any_batch() {
        let mut backlog = Backlog::default();
        let many = (0..5 * LIMIT).map(|n| update("a", 1, 1, u32::try_from(n).unwrap()));
        backlog.push(&batch(many));
        backlog.push(&batch((0..LIMIT).map(|_| update("a", 1, 2, 3))));
        assert_eq!(drain(&mut backlog).len(), 6 * LIMIT);
        assert_eq!(backlog.behind, 0);
    }

    #[test]
    fn updates_become_one_from_the_first_old_to_the_last_new() {
        assert_eq!(fallen_behind([update("a", 1, 1, 2), update("a", 1, 2, 3)]), ["a#1@1>a#1@3"]);
        assert_eq!(fallen_behind([add("a", 1, 1), update("a", 1, 1, 2)]), ["+a#1@2"]);
    }

    #[test]
    fn a_deletion_is_never_lost() {
        assert_eq!(fallen_behind([update("a", 1, 1, 2), delete("a", 1, 3)]), ["-a#1@3"]);
        assert_eq!(fallen_behind([add("a", 1, 1), delete("a", 1, 3)]), ["-a#1@3"]);
    }

    #[test]
    fn recreation_is_a_deletion_and_an_addition() {
        assert_eq!(fallen_behind([delete("a", 1, 3), add("a", 2, 4)]), ["-a#1@3", "+a#2@4"]);
        assert_eq!(
            fallen_behind([delete("a", 1, 3), add("a", 2, 4), update("a", 2, 4, 5)]),
            ["-a#1@3", "+a#2@5"]
        );
    }

    #[test]
    fn however_often_it_is_recreated_three_events_are_enough() {
        let again = |uid| [add("a", uid, uid * 10), delete("a", uid, uid * 10 + 1)];
        let events =
            [delete("a", 1, 3)].into_iter().chain((2..50).flat_map(again)).chain([add("a", 50, 500)]);
        assert_eq!(fallen_behind(events), ["-a#1@3", "-a#49@491", "+a#50@500"]);
    }

    #[test]
    fn the_end_of_the_initial_list_keeps_its_position() {
        let mut backlog = Backlog::default();
        backlog.push(&batch([add("a", 1, 1)]));
        backlog.push_initial_end();
        backlog.push(&batch([add("b", 1, 1)]));
        assert_eq!(drain(&mut backlog), ["+a#1@1", "end", "+b#1@1"]);

        backlog.push(&batch([add("a", 1, 1)]));
        backlog.push(&batch([add("b", 1, 1)]));
        backlog.push_initial_end();
        backlog.push(&batch((0..=LIMIT).map(|_| add("c", 1, 1))));
        assert_eq!(drain(&mut backlog), ["+a#1@1", "+b#1@1", "end", "+c#1@1"]);

        backlog.push_initial_end();
        backlog.push(&batch([add("a", 1, 1)]));
        backlog.push(&batch((0..=LIMIT).map(|_| add("c", 1, 1))));
        assert_eq!(drain(&mut backlog), ["end", "+a#1@1", "+c#1@1"]);
    }

    #[test]
    fn a_handler_that_caught_up_sees_every_event_again() {
        let mut backlog = Backlog::default();
        backlog.push(&batch([add("a", 1, 1)]));
        backlog.push(&batch((0..=LIMIT).map(|_| update("a", 1, 1, 2))));
        assert_eq!(drain(&mut backlog), ["+a#1@2"]);
        backlog.push(&batch([update("a", 1, 2, 3)]));
        backlog.push(&batch([update("a", 1, 3, 4)]));
        assert_eq!(drain(&mut backlog), ["a#1@2>a#1@3", "a#1@3>a#1@4"]);
    }

    proptest! {
        /// Any batching of the same events leads to the same final state.
        #[test]
        fn the_view_of_a_handler_ends_where_the_events_do(
            steps in prop::collection::vec((0..4_u8, 0..3_usize, any::<bool>(), 1..700_usize), 1..60),
        ) {
            let mut truth: BTreeMap<String, (u32, u32)> = BTreeMap::new();
            let mut view: BTreeMap<String, (u32, u32)> = BTreeMap::new();
            let mut backlog = Backlog::default();
            let mut version = 0;
            let see = |view: &mut BTreeMap<String, (u32, u32)>, event: &Event<ConfigMap>| {
                let of = |object: &ConfigMap| {
                    let number = |text: &Option<String>| text.as_ref().and_then(|text| text.parse().ok()).unwrap_or(0);
                    (number(&object.metadata.uid), number(&object.metadata.resource_version))
                };
                let name = event.object().metadata.name.clone().unwrap_or_default();
                match event {
                    Event::Add { object, .. } => {
                        assert!(!view.contains_key(&name), "{name} was added twice");
                        view.insert(name, of(object));
                    }
                    Event::Update { old, new } => {
                        assert_eq!(view.get(&name), Some(&of(old)), "`old` is the state delivered last");
                        view.insert(name, of(new));
                    }
                    Event::Delete(_) => {
                        view.remove(&name);
                    }
                }
            };
            for (what, of, take, times) in steps {
                let mut events = Vec::new();
                for _ in 0..times {
                    version += 1;
                    let name = format!("object-{of}");
                    match (truth.get(&name).copied(), what) {
                        (None, _) => {
                            truth.insert(name.clone(), (version, version));
                            events.push(add(&name, version, version));
                        }
                        (Some((uid, _)), 0) => {
                            truth.remove(&name);
                            events.push(delete(&name, uid, version));
                        }
                        (Some((uid, from)), _) => {
                            truth.insert(name.clone(), (uid, version));
                            events.push(update(&name, uid, from, version));
                        }
                    }
                }
                backlog.push(&batch(events));
                if take {
                    match backlog.take() {
                        Some(Taken::Shared(events)) => events.iter().for_each(|event| see(&mut view, event)),
                        Some(Taken::Own(events)) => events.iter().for_each(|event| see(&mut view, event)),
                        _ => {}
                    }
                }
            }
            while let Some(taken) = backlog.take() {
                match taken {
                    Taken::Shared(events) => events.iter().for_each(|event| see(&mut view, event)),
                    Taken::Own(events) => events.iter().for_each(|event| see(&mut view, event)),
                    Taken::InitialEnd => {}
                }
            }
            prop_assert_eq!(view, truth);
            prop_assert_eq!(backlog.len(), 0);
        }
    }
}
