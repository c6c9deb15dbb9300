//! The guarantees of the guide, claim by claim.
#![expect(clippy::unwrap_used, reason = "a test that fails may panic")]

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use bowline_storage::{
    BATCH, Batch, ListError, ListRequest, NewRecord, Options, Record, Revision, Store, TableId, Watch,
    WatchClosed, WatchError, WriteError,
};

/// Writes to the current revision, and returns the record.
fn write<M: Default>(store: &Store<M>, table: TableId, key: &str, body: &str) -> Arc<Record<M>> {
    let expected = store.get(table, key).map(|record| record.revision);
    store.put(table, key, expected, |_| NewRecord::new(body.to_owned(), M::default())).unwrap()
}

fn delete<M: Default>(store: &Store<M>, table: TableId, key: &str) -> Arc<Record<M>> {
    let revision = store.get(table, key).unwrap().revision;
    store.delete(table, key, revision, |_| NewRecord::new("last", M::default())).unwrap()
}

fn poll<M>(watch: &mut Watch<M>) -> Poll<Result<Batch<M>, WatchClosed>> {
    watch.poll_next(&mut Context::from_waker(Waker::noop()))
}

fn keep(events: usize) -> Options {
    Options::default().log_events(NonZeroUsize::new(events).unwrap())
}

fn at(revision: Revision) -> ListRequest<'static> {
    ListRequest { at: Some(revision), ..ListRequest::default() }
}

/// Counts its instances.
#[derive(Clone, Default)]
struct Counted(Arc<()>);

#[test]
fn the_first_commit_of_a_store_is_two() {
    let store = Store::<()>::default();
    let table = store.create_table("pods");
    assert_eq!(store.revision(), Revision::FIRST);
    assert_eq!(write(&store, table, "a", "").revision.get(), 2);
    assert_eq!(store.revision().to_string(), "2");
}

#[test]
fn a_panic_in_make_changes_nothing() {
    let store = Store::<()>::default();
    let table = store.create_table("pods");
    let before = write(&store, table, "a", "before");
    let (_, mut watch) = store.list_and_watch(table, "");
    let expected = Some(before.revision);
    let put = || store.put(table, "a", expected, |_| std::panic::resume_unwind(Box::new("make")));
    assert!(catch_unwind(AssertUnwindSafe(put)).is_err());
    let delete =
        || store.delete(table, "a", before.revision, |_| std::panic::resume_unwind(Box::new("make")));
    assert!(catch_unwind(AssertUnwindSafe(delete)).is_err());

    assert_eq!(store.revision(), before.revision);
    assert!(Arc::ptr_eq(&store.get(table, "a").unwrap(), &before));
    assert!(poll(&mut watch).is_pending());
    assert_eq!(write(&store, table, "a", "after").revision.get(), before.revision.get() + 1);
    assert!(poll(&mut watch).is_ready());
}

#[test]
fn a_mismatch_returns_the_stored_record() {
    let store = Store::<()>::default();
    let table = store.create_table("pods");
    let there = write(&store, table, "a", "");
    let error = store.put(table, "a", None, |_| unreachable!("not made")).unwrap_err();
    assert!(Arc::ptr_eq(error.found().unwrap(), &there));
    assert_eq!(
        error.to_string(),
        r#"key "a" is at revision 2, the write expects it absent: read it and retry"#
    );
    let error = store.delete(table, "b", there.revision, |_| unreachable!("not made")).unwrap_err();
    assert!(error.found().is_none());
    assert_eq!(
        error.to_string(),
        r#"key "b" is absent, the write expects it at revision 2: read it and retry"#
    );
}

#[test]
fn a_key_written_after_its_delete_is_created_again() {
    let store = Store::<()>::default();
    let table = store.create_table("pods");
    let first = write(&store, table, "a", "");
    assert_eq!(write(&store, table, "a", "").created, first.revision);
    assert_eq!(delete(&store, table, "a").created, first.revision);
    let again = write(&store, table, "a", "");
    assert_eq!(again.created, again.revision);
}

#[test]
fn a_watch_that_is_never_read_keeps_no_memory() {
    let store = Store::<Counted>::new(keep(10));
    let (table, counted) = (store.create_table("pods"), Counted::default());
    let (_, mut watch) = store.list_and_watch(table, "");
    let mut expected = None;
    for _ in 0..1000 {
        let record = store.put(table, "a", expected, |_| NewRecord::new("", counted.clone())).unwrap();
        expected = Some(record.revision);
    }
    // The current record, ten replaced ones, and the test's own.
    assert_eq!(Arc::strong_count(&counted.0), 12);
    let seen = Revision::FIRST;
    assert_eq!(poll(&mut watch).map(Result::unwrap_err), Poll::Ready(WatchClosed::FellBehind { seen }));
    assert_eq!(poll(&mut watch).map(Result::unwrap_err), Poll::Ready(WatchClosed::FellBehind { seen }));
    assert_eq!(watch.revision(), seen);
}

#[test]
fn the_log_stays_within_its_bytes() {
    let store = Store::<Counted>::new(Options::default().log_bytes(10_000));
    let (table, counted) = (store.create_table("pods"), Counted::default());
    let body = "x".repeat(900);
    let (mut most, mut present) = (0, 0);
    for round in 0..200 {
        let key = (round % 7).to_string();
        let contents = |_| NewRecord::new(body.clone(), counted.clone());
        match store.get(table, &key) {
            Some(record) if round % 3 == 0 => {
                drop(store.delete(table, &key, record.revision, contents).unwrap());
                present -= 1;
            }
            Some(record) => drop(store.put(table, &key, Some(record.revision), contents).unwrap()),
            None => {
                drop(store.put(table, &key, None, contents).unwrap());
                present += 1;
            }
        }
        let kept = Arc::strong_count(&counted.0) - 1 - present;
        assert!(kept * body.len() <= 10_000, "{kept} records are kept by the log alone");
        most = most.max(kept);
    }
    // And close to the limit: bodies of 900 bytes, and some hundred bytes around each.
    assert!(most >= 8, "{most}");
}

#[test]
fn a_table_that_is_dropped_is_freed_and_empty() {
    let store = Store::<Counted>::default();
    let (table, counted) = (store.create_table("pods"), Counted::default());
    let record = store.put(table, "a", None, |_| NewRecord::new("", counted.clone())).unwrap();
    let (_, mut watch) = store.list_and_watch(table, "");
    let revision = record.revision;
    drop(record);
    store.drop_table(table);
    assert_eq!(Arc::strong_count(&counted.0), 1);
    assert!(store.get(table, "a").is_none());
    let listing = store.list(table, at(revision)).unwrap();
    assert!(listing.items.is_empty());
    assert!(matches!(store.put(table, "a", None, |_| unreachable!("not made")), Err(WriteError::NoTable)));
    assert!(matches!(
        store.delete(table, "a", revision, |_| unreachable!("not made")),
        Err(WriteError::NoTable)
    ));
    assert_eq!(poll(&mut watch).map(Result::unwrap_err), Poll::Ready(WatchClosed::TableDropped));
    let (_, mut late) = store.list_and_watch(table, "");
    assert_eq!(poll(&mut late).map(Result::unwrap_err), Poll::Ready(WatchClosed::TableDropped));

    let again = store.create_table("pods");
    assert_ne!(again, table);
    write(&store, again, "a", "");
    assert!(store.get(table, "a").is_none());
    let error = WatchError::Compacted { after: Revision::FIRST, oldest: revision };
    assert_eq!(store.watch(again, "", Revision::FIRST).unwrap_err(), error);
}

#[test]
fn an_unknown_table_behaves_like_a_dropped_one() {
    let (one, other) = (Store::<()>::default(), Store::<()>::default());
    let tables: Vec<_> = (0..5).map(|table| one.create_table(&table.to_string())).collect();
    let foreign = tables[4];
    other.create_table("0");
    assert!(other.get(foreign, "a").is_none());
    assert!(matches!(other.put(foreign, "a", None, |_| unreachable!("not made")), Err(WriteError::NoTable)));
    assert!(other.list(foreign, ListRequest::default()).unwrap().items.is_empty());
    let mut watch = other.watch(foreign, "", Revision::FIRST).unwrap();
    assert_eq!(poll(&mut watch).map(Result::unwrap_err), Poll::Ready(WatchClosed::TableDropped));
    assert_eq!(watch.revision(), Revision::FIRST);
    other.drop_table(foreign);
}

#[test]
fn a_thousand_tables_are_independent() {
    let store = Store::<()>::default();
    let tables: Vec<TableId> = (0..1000).map(|table| store.create_table(&table.to_string())).collect();
    for (number, &table) in tables.iter().enumerate() {
        write(&store, table, "key", &number.to_string());
    }
    for (number, &table) in tables.iter().enumerate() {
        assert_eq!(store.create_table(&number.to_string()), table);
        let items = store.list(table, ListRequest::default()).unwrap().items;
        assert_eq!(items.len(), 1);
        assert_eq!(items[0].body, number.to_string());
    }
    store.compact(store.revision());
    let expired = tables.iter().filter(|&&table| store.list(table, at(Revision::FIRST)).is_err());
    assert_eq!(expired.count(), 1000, "compaction reaches every table");
}

#[test]
fn a_table_without_writes_does_not_expire() {
    let store = Store::<()>::new(keep(3));
    let (quiet, loud) = (store.create_table("quiet"), store.create_table("loud"));
    let revision = write(&store, quiet, "a", "").revision;
    for _ in 0..100 {
        write(&store, loud, "a", "");
    }
    assert_eq!(store.list(quiet, at(revision)).unwrap().items.len(), 1);
    assert!(store.watch(quiet, "", revision).is_ok());
    assert!(matches!(store.list(loud, at(revision)), Err(ListError::Compacted { .. })));
    assert!(matches!(store.watch(loud, "", revision), Err(WatchError::Compacted { .. })));
}

#[test]
fn a_record_larger_than_the_log_can_be_watched() {
    let store = Store::<()>::new(Options::default().log_bytes(100));
    let table = store.create_table("pods");
    let (_, mut watch) = store.list_and_watch(table, "");
    for _ in 0..3 {
        let written = write(&store, table, "a", &"x".repeat(1000));
        let Poll::Ready(Ok(batch)) = poll(&mut watch) else { panic!("an event, and no end") };
        assert_eq!(batch.revision, written.revision);
    }
}

#[test]
fn a_batch_is_bounded_and_complete_up_to_its_last_event() {
    let store = Store::<()>::default();
    let table = store.create_table("pods");
    let (_, mut watch) = store.list_and_watch(table, "");
    let count = BATCH * 2 + 10;
    for number in 0..count {
        write(&store, table, &number.to_string(), "");
    }
    let mut seen = Vec::new();
    while let Poll::Ready(batch) = poll(&mut watch) {
        let batch = batch.unwrap();
        assert!(batch.events.len() <= BATCH);
        assert_eq!(batch.events.last().unwrap().revision, batch.revision);
        assert_eq!(watch.revision(), batch.revision);
        seen.extend(batch.events.iter().map(|event| event.revision.get()));
    }
    assert_eq!(seen, (2..2 + count as u64).collect::<Vec<_>>());
}

#[test]
fn a_watch_skips_any_number_of_events_of_other_prefixes() {
    let store = Store::<()>::default();
    let table = store.create_table("pods");
    let (_, mut watch) = store.list_and_watch(table, "mine/");
    for _ in 0..20_000 {
        write(&store, table, "other/a", "");
    }
    let mine = write(&store, table, "mine/a", "");
    let Poll::Ready(Ok(batch)) = poll(&mut watch) else { panic!("an event") };
    assert_eq!(batch.events.len(), 1);
    assert_eq!(batch.events[0].revision, mine.revision);
}

#[test]
fn a_waiting_watch_does_not_fall_behind_because_of_other_prefixes() {
    let store = Store::<()>::new(keep(3));
    let table = store.create_table("pods");
    let (_, mut watch) = store.list_and_watch(table, "mine/");
    assert!(poll(&mut watch).is_pending());
    for _ in 0..100 {
        write(&store, table, "other/a", "");
        assert_eq!(watch.revision(), store.revision(), "a bookmark moves along");
    }
    let mine = write(&store, table, "mine/a", "");
    assert_eq!(watch.revision().get(), mine.revision.get() - 1);
    let Poll::Ready(Ok(batch)) = poll(&mut watch) else { panic!("an event, and no end") };
    assert_eq!(batch.events[0].revision, mine.revision);
}

#[test]
fn compaction_does_not_affect_watches_that_have_read_the_dropped_events() {
    let store = Store::<()>::default();
    let (table, other) = (store.create_table("pods"), store.create_table("nodes"));
    write(&store, table, "a", "");
    let (_, mut follower) = store.list_and_watch(table, "");
    let mut laggard = store.watch(table, "", Revision::FIRST).unwrap();
    write(&store, other, "a", "");
    store.compact(Revision::new(u64::MAX));
    let newest = write(&store, table, "b", "").revision;
    assert!(matches!(poll(&mut laggard), Poll::Ready(Err(WatchClosed::FellBehind { .. }))));
    let Poll::Ready(Ok(batch)) = poll(&mut follower) else { panic!("an event, and no end") };
    assert_eq!(batch.events[0].revision, newest);
}

#[test]
fn the_revision_of_a_watch_excludes_lost_events() {
    let store = Store::<()>::default();
    let table = store.create_table("pods");
    let (_, watch) = store.list_and_watch(table, "");
    write(&store, table, "a", "");
    store.compact(store.revision());
    assert_eq!(watch.revision(), Revision::FIRST);
}

#[tokio::test]
async fn dropping_a_wait_loses_nothing() {
    let store = Store::<()>::default();
    let table = store.create_table("pods");
    let (_, mut watch) = store.list_and_watch(table, "");
    for _ in 0..3 {
        tokio::select! {
            biased;
            _ = watch.next() => panic!("nothing happened"),
            () = std::future::ready(()) => {}
        }
    }
    let revision = write(&store, table, "a", "").revision;
    assert_eq!(watch.next().await.unwrap().revision, revision);
}

/// Reads its table and writes to another when it is dropped.
#[derive(Default)]
struct Nosy(Option<(Store<Nosy>, TableId, TableId)>);

impl Drop for Nosy {
    fn drop(&mut self) {
        if let Some((store, own, ended)) = self.0.take() {
            // Would block forever under any of the store's locks.
            drop(store.get(own, "a"));
            write(&store, ended, "a", "");
        }
    }
}

#[test]
fn dropping_metadata_may_call_the_store() {
    let store = Store::<Nosy>::new(keep(1));
    let (table, ended) = (store.create_table("pods"), store.create_table("ended"));
    let mut expected = None;
    for _ in 0..4 {
        let meta = Nosy(Some((store.clone(), table, ended)));
        expected = Some(store.put(table, "a", expected, |_| NewRecord::new("", meta)).unwrap().revision);
    }
    assert_eq!(store.revision().get(), 1 + 4 + 2, "two were replaced, and are gone from the log");
    store.compact(store.revision());
    assert_eq!(store.revision().get(), 1 + 4 + 3);
    store.drop_table(table);
    assert_eq!(store.revision().get(), 1 + 4 + 4);
}

/// A task whose only reference is its waker. It owns a watch, and writes when it is dropped.
struct Task {
    store: Store<()>,
    table: TableId,
    _watch: Watch<()>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Task {
    fn drop(&mut self) {
        write(&self.store, self.table, "ended", "");
    }
}

#[test]
fn dropping_a_waker_may_drop_a_watch() {
    let store = Store::<()>::default();
    let table = store.create_table("pods");
    let (_, mut watch) = store.list_and_watch(table, "");
    let fall_asleep = |watch: &mut Watch<()>| {
        while poll(watch).is_ready() {}
        let (_, owned) = store.list_and_watch(table, "");
        let waker = Waker::from(Arc::new(Task { store: store.clone(), table, _watch: owned }));
        assert!(watch.poll_next(&mut Context::from_waker(&waker)).is_pending());
    };
    // Each would block forever if the waker were dropped under a lock: replaced, woken, and dropped with the watch.
    fall_asleep(&mut watch);
    assert!(poll(&mut watch).is_pending());
    fall_asleep(&mut watch);
    write(&store, table, "a", "");
    fall_asleep(&mut watch);
    drop(watch);
    assert_eq!(store.revision().get(), 1 + 1 + 3, "all three tasks ended");
}
