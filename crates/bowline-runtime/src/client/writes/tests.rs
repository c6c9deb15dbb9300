//! The rule of read-your-writes against a model: a server's history of one key, and an informer that is behind.

use bowline_clock::Instant;
use proptest::prelude::*;

use super::*;

const DEADLINE: Duration = Duration::from_secs(5);

fn at(seconds: u64) -> Instant {
    Instant::from_nanos(0) + Duration::from_secs(seconds)
}

fn key() -> ObjectKey {
    ObjectKey::new("web", "a")
}

fn meta(uid: &str, version: u64) -> ObjectMeta {
    ObjectMeta {
        uid: Some(uid.to_owned()),
        resource_version: Some(version.to_string()),
        ..ObjectMeta::default()
    }
}

/// What an informer has of the one key, and how far it is.
#[derive(Clone, Debug, Default)]
struct Seen {
    object: Option<ObjectMeta>,
    version: u64,
}

impl View for Seen {
    fn with<T>(&self, _: &ObjectKey, look: impl FnOnce(Option<&ObjectMeta>) -> T) -> T {
        look(self.object.as_ref())
    }

    fn has_reached(&self, _: &ObjectKey, version: u64) -> bool {
        self.version >= version
    }
}

/// What there is of the key after a write.
#[derive(Clone, Debug, PartialEq, Eq)]
struct There {
    uid: String,
    version: u64,
    is_inside: bool,
}

/// A server's history: what there was after each version.
#[derive(Debug, Default)]
struct Server {
    version: u64,
    objects: u64,
    now: Option<There>,
    history: Vec<(u64, Option<There>)>,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Create(bool),
    Update(bool),
    Nothing,
    Delete,
    DeleteKnown,
    DeleteMany,
    Conflict,
}

impl Server {
    /// Does something, if it can be done, and gives the answer.
    fn act(&mut self, act: Act) -> Option<(String, What)> {
        self.version += 1;
        let (version, before) = (self.version, self.now.clone());
        let (uid, what) = match (act, before) {
            (Act::Create(is_inside), None) => {
                self.objects += 1;
                let uid = format!("u{}", self.objects);
                self.now = Some(There { uid: uid.clone(), version, is_inside });
                (uid, there(version, is_inside))
            }
            (Act::Update(is_inside), Some(object)) => {
                self.now = Some(There { version, is_inside, ..object.clone() });
                (object.uid, there(version, is_inside))
            }
            (Act::Nothing, Some(object)) => (object.uid, there(object.version, object.is_inside)),
            (Act::Delete, Some(object)) => {
                self.now = None;
                (object.uid, What::Gone(None))
            }
            (Act::DeleteKnown, Some(object)) => {
                self.now = None;
                (object.uid, What::Gone(object.is_inside.then_some(object.version)))
            }
            (Act::DeleteMany, Some(object)) => {
                self.now = None;
                (object.uid, What::NewerThan(object.version, object.is_inside))
            }
            // What was sent was read before the last version.
            (Act::Conflict, Some(object)) => (object.uid, What::NewerThan(object.version - 1, false)),
            _ => {
                self.version -= 1;
                return None;
            }
        };
        self.history.push((version, self.now.clone()));
        Some((uid, what))
    }

    /// What informers have at a version.
    fn visible(&self, version: u64) -> Option<&There> {
        let last = self.history.iter().rev().find(|(at, _)| *at <= version);
        last.and_then(|(_, there)| there.as_ref()).filter(|there| there.is_inside)
    }

    /// The next version after one at which informers are told something.
    fn next_event(&self, version: u64) -> Option<u64> {
        let changes = self.history.iter().map(|(at, _)| *at).filter(|at| *at > version);
        changes.into_iter().find(|at| self.visible(*at) != self.visible(*at - 1))
    }

    fn seen(&self, version: u64) -> Seen {
        Seen { object: self.visible(version).map(|there| meta(&there.uid, there.version)), version }
    }
}

fn there(version: u64, is_inside: bool) -> What {
    let version = Version::Number(version);
    if is_inside { What::There(version) } else { What::Elsewhere(version) }
}

fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => any::<bool>().prop_map(Act::Create),
        3 => any::<bool>().prop_map(Act::Update),
        1 => Just(Act::Nothing),
        1 => Just(Act::Delete),
        1 => Just(Act::DeleteKnown),
        1 => Just(Act::DeleteMany),
        1 => Just(Act::Conflict),
    ]
}

proptest! {
    /// Some things are written, their answers come in any order, the informer goes on by some events: if it may be read
    /// then, nothing that it is still to be told is older than the last write. When it was told everything, it may be read.
    #[test]
    fn what_may_be_read_is_never_older_than_what_was_written(
        rounds in prop::collection::vec((prop::collection::vec(acts(), 1..4), any::<bool>(), 0_usize..4), 1..12),
    ) {
        let (mut server, mut reached, mut written) = (Server::default(), 0, 0);
        let writes = Writes::new(DEADLINE);
        let reader = writes.add_reader();
        for (acts, backwards, events) in rounds {
            let mut answers: Vec<_> = acts.iter().filter_map(|act| server.act(*act)).collect();
            if !answers.is_empty() {
                written = server.version;
            }
            if backwards {
                answers.reverse();
            }
            for (uid, what) in answers {
                writes.note(key(), &Answer { uid: &uid, what }, at(0));
            }
            for _ in 0..events {
                reached = server.next_event(reached).unwrap_or(reached);
            }
            let verdict = writes.look(&key(), reader, &server.seen(reached), at(1));
            let is_current = server.next_event(reached).is_none_or(|next| next > written);
            prop_assert!(is_current || verdict == Verdict::Wait(at(5)), "{server:?} {reached} {writes:?}");
        }
        while let Some(next) = server.next_event(reached) {
            reached = next;
        }
        prop_assert_eq!(writes.look(&key(), reader, &server.seen(reached), at(1)), Verdict::Read);
        prop_assert_eq!(writes.len(), 0);
    }
}

fn note(writes: &Writes, name: &str, uid: &str, version: u64, now: Instant) {
    let what = What::There(Version::Number(version));
    writes.note(ObjectKey::new("web", name), &Answer { uid, what }, now);
}

#[test]
fn a_write_is_kept_until_every_informer_has_it() {
    let writes = Writes::new(DEADLINE);
    let (typed, metadata) = (writes.add_reader(), writes.add_reader());
    note(&writes, "a", "u", 7, at(0));
    let has = Seen { object: Some(meta("u", 7)), version: 7 };
    let has_not = Seen { object: Some(meta("u", 6)), version: 6 };
    assert_eq!(writes.look(&key(), typed, &has, at(1)), Verdict::Read);
    assert_eq!(writes.look(&key(), metadata, &has_not, at(1)), Verdict::Wait(at(5)));
    assert_eq!(writes.look(&key(), metadata, &has, at(1)), Verdict::Read);
    assert!(writes.is_empty());
}

#[test]
fn what_nobody_reads_does_not_pile_up() {
    let writes = Writes::new(DEADLINE);
    writes.add_reader();
    for number in 0..20_000 {
        note(&writes, &format!("a{number}"), "u", number, at(number / 10));
        assert!(writes.len() <= 2 * KEPT, "{}", writes.len());
    }
    // Those of the last five seconds are all there, however many they are.
    for number in 0..5_000 {
        note(&writes, &format!("b{number}"), "u", 30_000 + number, at(2_000));
    }
    assert!(writes.len() >= 5_000, "{}", writes.len());
}

#[test]
fn versions_that_are_no_numbers_are_seen_when_they_are_the_same() {
    let writes = Writes::new(DEADLINE);
    let reader = writes.add_reader();
    let what = What::There(Version::new("x7"));
    writes.note(key(), &Answer { uid: "u", what }, at(0));
    let seen = |version: &str| {
        let mut object = meta("u", 1);
        object.resource_version = Some(version.to_owned());
        Seen { object: Some(object), version: 0 }
    };
    assert_eq!(writes.look(&key(), reader, &seen("x6"), at(1)), Verdict::Wait(at(5)));
    assert_eq!(writes.look(&key(), reader, &seen("x8"), at(6)), Verdict::Late);
    assert_eq!(writes.look(&key(), reader, &seen("x8"), at(61)), Verdict::Late);
    assert!(writes.is_empty(), "it is forgotten: it may never be seen");
    let what = What::There(Version::new("x7"));
    writes.note(key(), &Answer { uid: "u", what }, at(0));
    assert_eq!(writes.look(&key(), reader, &seen("x7"), at(1)), Verdict::Read);
}

#[test]
fn a_list_waits_for_the_latest_and_gives_up_with_the_first() {
    let writes = Writes::new(DEADLINE);
    let reader = writes.add_reader();
    note(&writes, "a", "u", 7, at(0));
    note(&writes, "b", "v", 8, at(2));
    let nothing = Seen::default();
    assert_eq!(writes.look_at_all(Some("web"), reader, &nothing, at(3)), Verdict::Wait(at(7)));
    assert_eq!(writes.look_at_all(Some("other"), reader, &nothing, at(3)), Verdict::Read);
    assert_eq!(writes.look_at_all(None, reader, &nothing, at(5)), Verdict::Late);
    let all = Seen { object: None, version: 8 };
    assert_eq!(writes.look_at_all(None, reader, &all, at(5)), Verdict::Read);
    assert!(writes.is_empty());
}

#[test]
fn however_many_informers_there_are_none_sees_for_another() {
    let writes = Writes::new(DEADLINE);
    let readers: Vec<_> = (0..40).map(|_| writes.add_reader()).collect();
    note(&writes, "a", "u", 7, at(0));
    let has = Seen { object: Some(meta("u", 7)), version: 7 };
    let has_not = Seen { object: Some(meta("u", 6)), version: 6 };
    let (last, others) = readers.split_last().unwrap();
    for reader in others {
        assert_eq!(writes.look(&key(), *reader, &has, at(1)), Verdict::Read);
    }
    assert_eq!(writes.look(&key(), *last, &has_not, at(1)), Verdict::Wait(at(5)));
    assert_eq!(writes.look(&key(), *last, &has, at(1)), Verdict::Read);
    assert!(writes.is_empty());
}
