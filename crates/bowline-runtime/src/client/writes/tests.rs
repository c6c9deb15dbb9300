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

/// An informer's object of the one key, and the version that it has reached.
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

    fn has_reached_in(&self, _: Option<&str>, version: u64) -> bool {
        self.version >= version
    }
}

/// A read of one key that begins now.
fn look(
    writes: &WriteTracker,
    key: &ObjectKey,
    reader: u32,
    view: &impl View,
    now: Instant,
) -> CacheReadiness {
    writes.look(key, Reading { reader, started: writes.moment(now), view, now })
}

/// A read of a namespace, or of all, that begins now.
fn look_at_all(
    writes: &WriteTracker,
    namespace: Option<&str>,
    reader: u32,
    view: &impl View,
    now: Instant,
) -> CacheReadiness {
    writes.look_at_all(namespace, Reading { reader, started: writes.moment(now), view, now })
}

fn late(names: &[&str]) -> CacheReadiness {
    CacheReadiness::Late(Late::Objects(names.iter().map(|name| ObjectKey::new("web", name)).collect()))
}

/// State of the key after a write.
#[derive(Clone, Debug, PartialEq, Eq)]
struct There {
    uid: String,
    version: u64,
    is_inside: bool,
}

/// A server's history: the state after each version.
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
    /// Does an act, if it is possible, and returns the response.
    fn act(&mut self, act: Act) -> Option<(String, WriteEffect)> {
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
                (object.uid, WriteEffect::Gone(None))
            }
            (Act::DeleteKnown, Some(object)) => {
                self.now = None;
                (object.uid, WriteEffect::Gone(object.is_inside.then_some(object.version)))
            }
            (Act::DeleteMany, Some(object)) => {
                self.now = None;
                (object.uid, WriteEffect::NewerThan(object.version, object.is_inside))
            }
            // The sent object was read before the last version.
            (Act::Conflict, Some(object)) => (object.uid, WriteEffect::NewerThan(object.version - 1, false)),
            _ => {
                self.version -= 1;
                return None;
            }
        };
        self.history.push((version, self.now.clone()));
        Some((uid, what))
    }

    /// The informers' object at a version.
    fn visible(&self, version: u64) -> Option<&There> {
        let last = self.history.iter().rev().find(|(at, _)| *at <= version);
        last.and_then(|(_, there)| there.as_ref()).filter(|there| there.is_inside)
    }

    /// The next version after one at which informers get an event.
    fn next_event(&self, version: u64) -> Option<u64> {
        let changes = self.history.iter().map(|(at, _)| *at).filter(|at| *at > version);
        changes.into_iter().find(|at| self.visible(*at) != self.visible(*at - 1))
    }

    fn seen(&self, version: u64) -> Seen {
        Seen { object: self.visible(version).map(|there| meta(&there.uid, there.version)), version }
    }
}

fn there(version: u64, is_inside: bool) -> WriteEffect {
    let version = Version::Number(version);
    if is_inside { WriteEffect::There(version) } else { WriteEffect::Elsewhere(version) }
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

/// Records a live read that is sent after all writes have ended.
fn observe(writes: &WriteTracker, server: &Server, reached: u64) {
    let now = at(0) + IN_FLIGHT;
    let cached = server.seen(reached).object.and_then(|object| object.uid);
    let object = server.now.as_ref();
    let object =
        object.map(|object| Answer { uid: &object.uid, what: there(object.version, object.is_inside) });
    let found = Found { object, cached: cached.as_deref() };
    writes.observe(&key(), &found, writes.moment(now), now);
}

/// Fate of the responses of a round of writes.
#[derive(Clone, Copy, Debug)]
enum Answers {
    InOrder,
    Backwards,
    /// All are lost.
    Lost,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    /// Writes a few times, delivers the responses in any order or not at all, and applies some events to the informer.
    /// If the cache may be read then, no event still to come is older than the last write. After all events, the cache
    /// may be read.
    #[test]
    fn what_may_be_read_is_never_older_than_what_was_written(
        rounds in prop::collection::vec(
            (
                prop::collection::vec(acts(), 1..4),
                prop_oneof![Just(Answers::InOrder), Just(Answers::Backwards), Just(Answers::Lost)],
                0_usize..4,
            ),
            1..12,
        ),
    ) {
        let (mut server, mut reached, mut written, mut is_any_lost) = (Server::default(), 0, 0, false);
        let writes = WriteTracker::new(DEADLINE);
        let reader = writes.add_reader();
        for (acts, fate, events) in rounds {
            let mut answers: Vec<_> = acts.iter().filter_map(|act| server.act(*act)).collect();
            if !answers.is_empty() {
                written = server.version;
            }
            if matches!(fate, Answers::Backwards) {
                answers.reverse();
            }
            for (uid, what) in answers {
                match fate {
                    Answers::Lost => writes.note_unknown(key(), at(0) + IN_FLIGHT, at(0)),
                    _ => writes.note(key(), &Answer { uid: &uid, what }, at(0)),
                }
            }
            for _ in 0..events {
                reached = server.next_event(reached).unwrap_or(reached);
            }
            let verdict = look(&writes, &key(), reader, &server.seen(reached), at(1));
            let is_current = server.next_event(reached).is_none_or(|next| next > written);
            // After a lost response, it is enough that the informer's state equals the server's: later events are
            // checked when they come.
            is_any_lost |= matches!(fate, Answers::Lost);
            let is_same = is_any_lost && server.visible(reached) == server.visible(server.version);
            prop_assert!(is_current || is_same || verdict != CacheReadiness::Read, "{server:?} {reached} {writes:?}");
            if verdict == late(&["a"]) {
                observe(&writes, &server, reached);
            }
        }
        while let Some(next) = server.next_event(reached) {
            reached = next;
        }
        let now = at(0) + 2 * IN_FLIGHT;
        if look(&writes, &key(), reader, &server.seen(reached), now) != CacheReadiness::Read {
            observe(&writes, &server, reached);
        }
        prop_assert_eq!(look(&writes, &key(), reader, &server.seen(reached), now), CacheReadiness::Read);
        prop_assert_eq!(writes.len(), 0);
    }
}

fn note(writes: &WriteTracker, name: &str, uid: &str, version: u64, now: Instant) {
    let what = WriteEffect::There(Version::Number(version));
    writes.note(ObjectKey::new("web", name), &Answer { uid, what }, now);
}

#[test]
fn a_write_is_kept_until_every_informer_has_it() {
    let writes = WriteTracker::new(DEADLINE);
    let (typed, metadata) = (writes.add_reader(), writes.add_reader());
    note(&writes, "a", "u", 7, at(0));
    let has = Seen { object: Some(meta("u", 7)), version: 7 };
    let has_not = Seen { object: Some(meta("u", 6)), version: 6 };
    assert_eq!(look(&writes, &key(), typed, &has, at(1)), CacheReadiness::Read);
    assert_eq!(look(&writes, &key(), metadata, &has_not, at(1)), CacheReadiness::Wait(at(5)));
    assert_eq!(look(&writes, &key(), metadata, &has, at(1)), CacheReadiness::Read);
    assert!(writes.is_empty());
}

#[test]
fn unread_writes_beyond_the_bound_are_in_the_watermark_and_none_is_forgotten() {
    let writes = WriteTracker::new(DEADLINE);
    let reader = writes.add_reader();
    let (last, is_behind) = (20_000, |version| Seen { object: None, version });
    for number in 1..=last {
        note(&writes, &format!("a{number}"), "u", number, at(100));
        assert!(writes.len() <= MAX_PENDING, "{}", writes.len());
    }
    // The first one has no entry of its own any more, and is still waited for.
    let first = ObjectKey::new("web", "a1");
    assert_eq!(look(&writes, &first, reader, &is_behind(0), at(101)), CacheReadiness::Wait(at(105)));
    assert_eq!(
        look(&writes, &first, reader, &is_behind(0), at(106)),
        CacheReadiness::Late(Late::Objects(vec![first.clone()]))
    );
    assert_eq!(
        look_at_all(&writes, Some("web"), reader, &is_behind(0), at(106)),
        CacheReadiness::Late(Late::Everything)
    );
    assert_eq!(writes.needed_version(Some("web")), Some(last));
    // No more than that is needed.
    let reached = last - writes.len() as u64;
    assert_eq!(look(&writes, &first, reader, &is_behind(reached), at(101)), CacheReadiness::Read);
    assert_eq!(look_at_all(&writes, None, reader, &is_behind(last), at(101)), CacheReadiness::Read);
    assert!(writes.is_empty());
}

#[test]
fn versions_that_are_no_numbers_are_seen_when_they_are_the_same() {
    let writes = WriteTracker::new(DEADLINE);
    let reader = writes.add_reader();
    let what = WriteEffect::There(Version::new("x7"));
    writes.note(key(), &Answer { uid: "u", what }, at(0));
    let seen = |version: &str| {
        let mut object = meta("u", 1);
        object.resource_version = Some(version.to_owned());
        Seen { object: Some(object), version: 0 }
    };
    assert_eq!(look(&writes, &key(), reader, &seen("x6"), at(1)), CacheReadiness::Wait(at(5)));
    assert_eq!(look(&writes, &key(), reader, &seen("x8"), at(6)), late(&["a"]));
    assert_eq!(look(&writes, &key(), reader, &seen("x8"), at(61)), late(&["a"]));
    assert!(writes.is_empty(), "it is forgotten: it may never be seen");
    let what = WriteEffect::There(Version::new("x7"));
    writes.note(key(), &Answer { uid: "u", what }, at(0));
    assert_eq!(look(&writes, &key(), reader, &seen("x7"), at(1)), CacheReadiness::Read);
}

#[test]
fn a_list_waits_for_all_and_gives_up_with_the_first() {
    let writes = WriteTracker::new(DEADLINE);
    let reader = writes.add_reader();
    note(&writes, "a", "u", 7, at(0));
    note(&writes, "b", "v", 8, at(2));
    let nothing = Seen::default();
    assert_eq!(look_at_all(&writes, Some("web"), reader, &nothing, at(3)), CacheReadiness::Wait(at(5)));
    assert_eq!(look_at_all(&writes, Some("other"), reader, &nothing, at(3)), CacheReadiness::Read);
    assert_eq!(look_at_all(&writes, None, reader, &nothing, at(5)), late(&["a", "b"]));
    let all = Seen { object: None, version: 8 };
    assert_eq!(look_at_all(&writes, None, reader, &all, at(5)), CacheReadiness::Read);
    assert!(writes.is_empty());
}

#[test]
fn a_list_does_not_wait_for_writes_that_begin_after_it() {
    let writes = WriteTracker::new(DEADLINE);
    let reader = writes.add_reader();
    note(&writes, "a", "u", 7, at(0));
    let (started, view) = (writes.moment(at(0)), Seen { object: None, version: 7 });
    note(&writes, "b", "v", 8, at(1));
    let reading = Reading { reader, started, view: &view, now: at(1) };
    assert_eq!(writes.look_at_all(None, reading), CacheReadiness::Read);
    assert_eq!(look_at_all(&writes, None, reader, &view, at(1)), CacheReadiness::Wait(at(6)));
}

#[test]
fn a_list_waits_no_longer_than_the_deadline_for_an_object_that_is_written_again_and_again() {
    let writes = WriteTracker::new(DEADLINE);
    let reader = writes.add_reader();
    note(&writes, "a", "u", 1, at(0));
    let (started, view) = (writes.moment(at(1)), Seen::default());
    for second in 1..6 {
        note(&writes, "a", "u", second + 1, at(second));
        let reading = Reading { reader, started, view: &view, now: at(second) };
        assert_eq!(writes.look_at_all(None, reading), CacheReadiness::Wait(at(6)));
    }
    let reading = Reading { reader, started, view: &view, now: at(6) };
    assert_eq!(writes.look_at_all(None, reading), late(&["a"]));
}

/// Counts the look-ups of objects.
#[derive(Default)]
struct Counted(std::cell::Cell<usize>);

impl View for Counted {
    fn with<T>(&self, _: &ObjectKey, look: impl FnOnce(Option<&ObjectMeta>) -> T) -> T {
        self.0.set(self.0.get() + 1);
        look(None)
    }

    fn has_reached(&self, _: &ObjectKey, _: u64) -> bool {
        false
    }

    fn has_reached_in(&self, _: Option<&str>, _: u64) -> bool {
        false
    }
}

#[test]
fn a_list_looks_only_at_the_writes_of_its_own_namespace() {
    let writes = WriteTracker::new(DEADLINE);
    let reader = writes.add_reader();
    for number in 0..1000 {
        let (namespace, version) = (["a", "web", "z"][number % 3], 1 + number as u64);
        let namespace = if number == 500 { "own" } else { namespace };
        let what = WriteEffect::There(Version::Number(version));
        let key = ObjectKey::new(namespace, &format!("a{number}"));
        writes.note(key, &Answer { uid: "u", what }, at(0));
    }
    let looked = |namespace| {
        let view = Counted::default();
        look_at_all(&writes, namespace, reader, &view, at(1));
        view.0.get()
    };
    let one = looked(Some("own"));
    assert!((1..4).contains(&one), "{one}");
    assert_eq!(looked(Some("nowhere")), 0);
    assert_eq!(looked(None), 1000 * one);
}

#[test]
fn an_object_that_may_have_been_written_is_read_live_until_the_server_was_asked_after_it() {
    let writes = WriteTracker::new(DEADLINE);
    let reader = writes.add_reader();
    let (until, view) = (at(60), Seen { object: Some(meta("u", 9)), version: 9 });
    writes.note_unknown(key(), until, at(0));
    // A response to another write does not settle it: it may come later.
    note(&writes, "a", "u", 8, at(1));
    assert_eq!(look(&writes, &key(), reader, &view, at(2)), late(&["a"]));
    let found = |version| {
        let object = Answer { uid: "u", what: WriteEffect::There(Version::Number(version)) };
        Found { object: Some(object), cached: Some("u") }
    };
    let early = writes.moment(at(59));
    writes.observe(&key(), &found(9), early, at(61));
    assert_eq!(look(&writes, &key(), reader, &view, at(61)), late(&["a"]));
    writes.observe(&key(), &found(10), writes.moment(at(61)), at(61));
    assert_eq!(look(&writes, &key(), reader, &view, at(61)), CacheReadiness::Wait(at(66)));
    let view = Seen { object: Some(meta("u", 10)), version: 10 };
    assert_eq!(look(&writes, &key(), reader, &view, at(62)), CacheReadiness::Read);
    assert!(writes.is_empty());
}

#[test]
fn unnamed_objects_that_may_have_been_written_are_in_the_watermark_of_their_namespace() {
    let writes = WriteTracker::new(DEADLINE);
    let reader = writes.add_reader();
    let view = Seen { object: None, version: 9 };
    writes.note_unknown_in(Some("web"), at(60), at(0));
    assert_eq!(
        look_at_all(&writes, Some("web"), reader, &view, at(1)),
        CacheReadiness::Late(Late::Everything)
    );
    assert_eq!(look_at_all(&writes, None, reader, &view, at(1)), CacheReadiness::Late(Late::Everything));
    assert_eq!(look(&writes, &key(), reader, &view, at(1)), late(&["a"]));
    assert_eq!(look_at_all(&writes, Some("other"), reader, &view, at(1)), CacheReadiness::Read);
    assert_eq!(writes.needed_version(Some("web")), None);
    // After that, the version of the collection covers it.
    writes.note_version(&Version::Number(9), writes.moment(at(59)), at(60));
    assert_eq!(look(&writes, &key(), reader, &view, at(60)), CacheReadiness::Ask);
    writes.note_version(&Version::Number(10), writes.moment(at(60)), at(60));
    assert_eq!(look(&writes, &key(), reader, &view, at(60)), CacheReadiness::Wait(at(65)));
    assert_eq!(look(&writes, &key(), reader, &view, at(65)), late(&["a"]));
    assert_eq!(writes.needed_version(Some("web")), Some(10));
    let view = Seen { object: None, version: 10 };
    assert_eq!(look(&writes, &key(), reader, &view, at(61)), CacheReadiness::Read);
    assert!(writes.is_empty());
}

#[test]
fn deletions_beyond_the_bound_need_the_version_of_the_collection() {
    let writes = WriteTracker::new(DEADLINE);
    let reader = writes.add_reader();
    for number in 0..=MAX_PENDING {
        let key = ObjectKey::new("web", &format!("a{number}"));
        writes.note(key, &Answer { uid: "u", what: WriteEffect::Gone(None) }, at(0));
    }
    let (view, first) = (Seen { object: None, version: 9 }, ObjectKey::new("web", "a0"));
    assert_eq!(look(&writes, &first, reader, &view, at(1)), CacheReadiness::Ask);
    writes.note_version(&Version::Number(10), writes.moment(at(1)), at(1));
    assert_eq!(look(&writes, &first, reader, &view, at(1)), CacheReadiness::Wait(at(6)));
    assert_eq!(
        look(&writes, &first, reader, &Seen { object: None, version: 10 }, at(1)),
        CacheReadiness::Read
    );
}

#[test]
fn many_namespaces_share_the_watermark_of_the_resource() {
    let writes = WriteTracker::new(DEADLINE);
    let reader = writes.add_reader();
    for number in 0..1000 {
        writes.note_unknown_in(Some(&format!("n{number}")), at(0), at(0));
    }
    let view = Seen { object: None, version: 9 };
    for number in [0, 999] {
        let namespace = format!("n{number}");
        assert_eq!(look_at_all(&writes, Some(&namespace), reader, &view, at(1)), CacheReadiness::Ask);
    }
    assert!(writes.count.load(Ordering::Relaxed) < 100);
}

#[test]
fn however_many_informers_there_are_none_sees_for_another() {
    let writes = WriteTracker::new(DEADLINE);
    let readers: Vec<_> = (0..40).map(|_| writes.add_reader()).collect();
    note(&writes, "a", "u", 7, at(0));
    let has = Seen { object: Some(meta("u", 7)), version: 7 };
    let has_not = Seen { object: Some(meta("u", 6)), version: 6 };
    let (last, others) = readers.split_last().unwrap();
    for reader in others {
        assert_eq!(look(&writes, &key(), *reader, &has, at(1)), CacheReadiness::Read);
    }
    assert_eq!(look(&writes, &key(), *last, &has_not, at(1)), CacheReadiness::Wait(at(5)));
    assert_eq!(look(&writes, &key(), *last, &has, at(1)), CacheReadiness::Read);
    assert!(writes.is_empty());
}
