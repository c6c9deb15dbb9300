//! A store, the model beside it, and the rules for both.
#![expect(clippy::unwrap_used, reason = "a test that fails may panic")]

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bowline_storage::{
    BATCH, EventType, ListError, ListRequest, NewRecord, Options, Revision, Store, TableId, Watch,
    WatchClosed, WatchError, WriteError,
};

use crate::commit::{Commit, Version, versions};
use crate::operation::{KEYS, Operation, PREFIXES, TABLES};

pub(crate) struct ModelTable {
    id: TableId,
    dropped: bool,
    /// Earlier revisions cannot be read.
    oldest: u64,
    /// The newest commit that the log dropped.
    evicted: u64,
}

pub(crate) struct ModelWatch {
    watch: Watch<u64>,
    woken: Arc<Woken>,
    table: usize,
    id: TableId,
    prefix: &'static str,
    seen: u64,
    asleep: bool,
    closed: Option<WatchClosed>,
}

pub(crate) struct Pager {
    id: TableId,
    table: usize,
    prefix: &'static str,
    at: u64,
    last: Option<String>,
    limit: NonZeroUsize,
}

#[derive(Default)]
pub(crate) struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

pub(crate) struct World {
    store: Store<u64>,
    log_events: usize,
    log_bytes: usize,
    newest: u64,
    commits: Vec<Commit>,
    tables: Vec<ModelTable>,
    pub(crate) watches: Vec<ModelWatch>,
    pub(crate) pagers: Vec<Pager>,
}

impl World {
    pub(crate) fn new((log_events, log_bytes): (usize, usize)) -> Self {
        let events = NonZeroUsize::new(log_events).unwrap();
        let store = Store::new(Options::default().log_events(events).log_bytes(log_bytes));
        let tables = (0..TABLES)
            .map(|table| store.create_table(&table.to_string()))
            .map(|id| ModelTable { id, dropped: false, oldest: 1, evicted: 1 })
            .collect();
        let (commits, watches, pagers) = (Vec::new(), Vec::new(), Vec::new());
        Self { store, log_events, log_bytes, newest: 1, commits, tables, watches, pagers }
    }

    /// The whole table at a revision, replayed from the first commit.
    fn state(&self, table: TableId, at: u64) -> BTreeMap<String, Version> {
        let mut state = BTreeMap::new();
        for commit in self.commits.iter().filter(|commit| commit.table == table && commit.revision <= at) {
            match commit.change {
                EventType::Deleted => state.remove(&commit.record.key),
                _ => state.insert(commit.record.key.clone(), commit.record.clone()),
            };
        }
        if self.tables.iter().any(|known| known.id == table && !known.dropped) {
            state
        } else {
            BTreeMap::new()
        }
    }

    fn present(&self, table: usize, key: &str) -> Option<Version> {
        self.state(self.tables[table].id, self.newest).remove(key)
    }

    fn before(&self, back: u64) -> u64 {
        (self.newest + 1).saturating_sub(back)
    }

    /// Records a write that the store reported as done, and applies the log's limits.
    fn committed(&mut self, table: usize, change: EventType, previous: Option<Version>, record: Version) {
        self.newest += 1;
        assert_eq!(record.revision, self.newest, "revisions are one sequence without gaps");
        assert_eq!(self.store.revision().get(), self.newest);
        let id = self.tables[table].id;
        self.commits.push(Commit { table: id, revision: self.newest, change, previous, record });
        let kept: Vec<&Commit> = self
            .commits
            .iter()
            .filter(|commit| commit.table == id && commit.revision > self.tables[table].evicted)
            .collect();
        let fits = |kept: &[&Commit]| {
            let bytes: usize = kept.iter().map(|commit| commit.size()).sum();
            kept.len() <= self.log_events && bytes <= self.log_bytes
        };
        let over = (0..kept.len() - 1).find(|&over| fits(&kept[over..])).unwrap_or(kept.len() - 1);
        if over > 0 {
            let evicted = kept[over - 1].revision;
            self.tables[table].evicted = evicted;
            self.tables[table].oldest = self.tables[table].oldest.max(evicted);
        }
        for watch in self.watches.iter().filter(|watch| watch.asleep && !self.gone(watch)) {
            let concerned = self.seen(watch) < self.newest;
            let woken = watch.woken.0.load(Ordering::SeqCst);
            assert_eq!(woken, usize::from(concerned), "a watch is woken once, and only by what concerns it");
        }
    }

    fn contents(&self, length: usize, revision: Revision) -> NewRecord<u64> {
        assert_eq!(revision.get(), self.newest + 1, "make gets the revision");
        let byte = u8::try_from(revision.get() % 251).unwrap();
        NewRecord::new(vec![byte; length], revision.get() * 3)
    }

    fn write(&mut self, table: usize, key: &str, expected: Option<u64>, deletes: bool, length: usize) {
        let id = self.tables[table].id;
        let present = self.present(table, key);
        let expected = expected.map(Revision::new);
        let contents = |revision| self.contents(length, revision);
        let result = if deletes {
            let Some(expected) = expected else { return };
            self.store.delete(id, key, expected, contents)
        } else {
            self.store.put(id, key, expected, contents)
        };
        let agrees = present.as_ref().map(|present| present.revision) == expected.map(Revision::get);
        match result {
            Err(WriteError::NoTable) => assert!(self.tables[table].dropped),
            Err(WriteError::Mismatch { found, .. }) => {
                assert!(!agrees && !self.tables[table].dropped);
                assert_eq!(found.map(|found| Version::of(&found)), present);
            }
            Err(error) => panic!("{error}"),
            Ok(record) => {
                assert!(agrees && !self.tables[table].dropped);
                let revision = self.newest + 1;
                let expected = Version {
                    key: key.to_owned(),
                    revision,
                    created: present.as_ref().map_or(revision, |present| present.created),
                    body: vec![u8::try_from(revision % 251).unwrap(); length],
                    meta: revision * 3,
                };
                assert_eq!(Version::of(&record), expected);
                let change = match (deletes, &present) {
                    (true, _) => EventType::Deleted,
                    (false, None) => EventType::Created,
                    (false, Some(_)) => EventType::Updated,
                };
                self.committed(table, change, present, expected);
            }
        }
    }

    /// Checks a listing against the model; returns the last key if there are more.
    fn check_list(&self, table: usize, id: TableId, list: ListRequest<'_>) -> Option<String> {
        let at = list.at.map_or(self.newest, Revision::get);
        let result = self.store.list(id, list);
        let known = &self.tables[table];
        let oldest = if known.dropped || known.id != id { 0 } else { known.oldest };
        if at > self.newest {
            let newest = Revision::new(self.newest);
            assert_eq!(result.unwrap_err(), ListError::Future { at: at.into(), newest });
            return None;
        }
        if at < oldest {
            let oldest = Revision::new(oldest);
            assert_eq!(result.unwrap_err(), ListError::Compacted { at: at.into(), oldest });
            return None;
        }
        let listing = result.unwrap();
        assert_eq!(listing.revision.get(), at);
        let mut wanted: Vec<Version> = self.state(id, at).into_values().collect();
        wanted.retain(|version| version.key.starts_with(list.prefix));
        wanted.retain(|version| list.after.is_none_or(|after| version.key.as_str() > after));
        let remaining = wanted.len().saturating_sub(list.limit.map_or(usize::MAX, NonZeroUsize::get));
        wanted.truncate(wanted.len() - remaining);
        assert_eq!(versions(&listing), wanted);
        assert_eq!((listing.remaining, listing.more()), (remaining, remaining > 0));
        if listing.more() { wanted.pop().map(|last| last.key) } else { None }
    }

    pub(crate) fn next_page(&mut self, which: usize) {
        if self.pagers.is_empty() {
            return;
        }
        let which = which % self.pagers.len();
        let Pager { id, table, prefix, at, ref last, limit } = self.pagers[which];
        let list = ListRequest { prefix, after: last.as_deref(), at: Some(at.into()), limit: Some(limit) };
        match self.check_list(table, id, list) {
            None => drop(self.pagers.swap_remove(which)),
            last => self.pagers[which].last = last,
        }
    }

    fn watch(&mut self, table: usize, prefix: &'static str, after: u64) {
        let ModelTable { id, dropped, oldest, .. } = self.tables[table];
        match self.store.watch(id, prefix, after.into()) {
            Err(WatchError::Future { .. }) => assert!(after > self.newest),
            Err(WatchError::Compacted { oldest: reported, .. }) => {
                assert!(after < oldest && !dropped);
                assert_eq!(reported.get(), oldest);
            }
            Err(error) => panic!("{error}"),
            Ok(watch) => {
                assert!(after <= self.newest && (after >= oldest || dropped));
                self.opened(table, prefix, after, watch);
            }
        }
    }

    fn opened(&mut self, table: usize, prefix: &'static str, seen: u64, watch: Watch<u64>) {
        let (id, woken) = (self.tables[table].id, Arc::default());
        self.watches.push(ModelWatch { watch, woken, table, id, prefix, seen, asleep: false, closed: None });
    }

    /// The revision of a watch before its next poll: while it sleeps, it skips events of other prefixes.
    fn seen(&self, watch: &ModelWatch) -> u64 {
        let concerns =
            |commit: &&Commit| commit.concerns(watch.id, watch.prefix) && commit.revision > watch.seen;
        match self.commits.iter().find(concerns) {
            _ if !watch.asleep => watch.seen,
            Some(first) => first.revision - 1,
            None => self.newest,
        }
    }

    fn gone(&self, watch: &ModelWatch) -> bool {
        let table = &self.tables[watch.table];
        table.dropped || table.id != watch.id
    }

    pub(crate) fn poll(&mut self, which: usize) {
        let count = self.watches.len();
        let Some(watch) = self.watches.get(which % count.max(1)) else { return };
        let (seen, gone, evicted) = (self.seen(watch), self.gone(watch), self.tables[watch.table].evicted);
        let unseen: Vec<Commit> = self
            .commits
            .iter()
            .filter(|commit| commit.concerns(watch.id, watch.prefix) && commit.revision > seen)
            .take(BATCH)
            .cloned()
            .collect();
        let watch = &mut self.watches[which % count];
        watch.woken.0.store(0, Ordering::SeqCst);
        let waker = Waker::from(watch.woken.clone());
        let polled = watch.watch.poll_next(&mut Context::from_waker(&waker));
        let expected = match watch.closed {
            Some(closed) => Some(closed),
            None if gone => Some(WatchClosed::TableDropped),
            None if seen < evicted => Some(WatchClosed::FellBehind { seen: seen.into() }),
            None => None,
        };
        match polled {
            Poll::Ready(Err(closed)) => {
                assert_eq!(Some(closed), expected);
                if !gone {
                    watch.seen = seen;
                }
                (watch.closed, watch.asleep) = (Some(closed), false);
            }
            Poll::Pending => {
                assert_eq!(
                    (expected, unseen),
                    (None, vec![]),
                    "a watch waits only if there is nothing to see"
                );
                (watch.seen, watch.asleep) = (self.newest, true);
            }
            Poll::Ready(Ok(batch)) => {
                assert_eq!(expected, None);
                let events: Vec<Commit> =
                    batch.events.iter().map(|event| Commit::of(watch.id, event)).collect();
                assert_eq!(events, unseen);
                assert!(!events.is_empty());
                assert_eq!(batch.revision.get(), self.newest);
                (watch.seen, watch.asleep) = (self.newest, false);
            }
        }
    }

    pub(crate) fn progress(&self, which: usize) {
        let Some(watch) = self.watches.get(which % self.watches.len().max(1)) else { return };
        let revision = watch.watch.revision().get();
        if watch.closed.is_some() || self.gone(watch) {
            assert_eq!(revision, watch.seen, "a watch that ended has seen what it has seen");
            return;
        }
        let unseen =
            self.commits.iter().any(|commit| commit.table == watch.id && commit.revision > watch.seen);
        let expected = if watch.asleep || unseen { self.seen(watch) } else { self.newest };
        assert_eq!(revision, expected);
    }

    fn drop_table(&mut self, table: usize) {
        self.store.drop_table(self.tables[table].id);
        self.tables[table].dropped = true;
        for watch in &self.watches {
            if watch.asleep && watch.id == self.tables[table].id {
                assert!(
                    watch.woken.0.load(Ordering::SeqCst) > 0,
                    "a watch of a table that is dropped is woken"
                );
            }
        }
    }

    fn create_table(&mut self, table: usize) {
        let id = self.store.create_table(&table.to_string());
        let known = &mut self.tables[table];
        assert_eq!(known.id == id, !known.dropped, "a table has one id, and no other table ever has it");
        if known.dropped {
            *known = ModelTable { id, dropped: false, oldest: self.newest, evicted: self.newest };
        }
    }

    fn compact(&mut self, up_to: u64) {
        self.store.compact(up_to.into());
        let up_to = up_to.min(self.newest);
        for table in &mut self.tables {
            table.oldest = table.oldest.max(up_to);
            let evicted =
                self.commits.iter().rfind(|commit| commit.table == table.id && commit.revision <= up_to);
            table.evicted = table.evicted.max(evicted.map_or(0, |commit| commit.revision));
        }
    }

    pub(crate) fn run(&mut self, operation: &Operation) {
        match *operation {
            Operation::Put { table, key, length } => {
                let expected = self.present(table, KEYS[key]).map(|present| present.revision);
                self.write(table, KEYS[key], expected, false, length);
            }
            Operation::Delete { table, key } => {
                let expected = self.present(table, KEYS[key]).map(|present| present.revision);
                self.write(table, KEYS[key], expected, true, 5);
            }
            Operation::Stale { table, key, expected, delete } => {
                let expected = self.newest.checked_sub(expected);
                self.write(table, KEYS[key], expected, delete, 5);
            }
            Operation::Panic { table, key } => {
                let expected = self.present(table, KEYS[key]).map(|present| present.revision.into());
                let put = || {
                    self.store.put(self.tables[table].id, KEYS[key], expected, |_| {
                        std::panic::resume_unwind(Box::new(()))
                    })
                };
                let outcome = catch_unwind(AssertUnwindSafe(put));
                assert!(outcome.is_err() || self.tables[table].dropped);
            }
            Operation::Get { table, key } => {
                let found = self.store.get(self.tables[table].id, KEYS[key]);
                assert_eq!(found.map(|found| Version::of(&found)), self.present(table, KEYS[key]));
            }
            Operation::List { table, prefix, after, back, limit } => {
                let list = ListRequest {
                    prefix: PREFIXES[prefix],
                    after: after.map(|after| KEYS[after]),
                    at: back.map(|back| self.before(back).into()),
                    limit: limit.and_then(NonZeroUsize::new),
                };
                self.check_list(table, self.tables[table].id, list);
            }
            Operation::OpenPager { table, prefix, limit } => {
                let (id, prefix, limit) =
                    (self.tables[table].id, PREFIXES[prefix], NonZeroUsize::new(limit).unwrap());
                self.pagers.push(Pager { id, table, prefix, at: self.newest, last: None, limit });
                self.next_page(self.pagers.len() - 1);
            }
            Operation::NextPage { which } => self.next_page(which),
            Operation::Watch { table, prefix, back } => {
                self.watch(table, PREFIXES[prefix], self.before(back));
            }
            Operation::ListAndWatch { table, prefix } => {
                let (listing, watch) = self.store.list_and_watch(self.tables[table].id, PREFIXES[prefix]);
                let mut wanted: Vec<_> =
                    self.state(self.tables[table].id, self.newest).into_values().collect();
                wanted.retain(|version| version.key.starts_with(PREFIXES[prefix]));
                assert_eq!((versions(&listing), listing.revision.get()), (wanted, self.newest));
                self.opened(table, PREFIXES[prefix], self.newest, watch);
            }
            Operation::Poll { which } => self.poll(which),
            Operation::Progress { which } => self.progress(which),
            Operation::Close { which } if !self.watches.is_empty() => {
                drop(self.watches.swap_remove(which % self.watches.len()));
            }
            Operation::Close { .. } => {}
            Operation::Compact { back } => self.compact(self.before(back)),
            Operation::DropTable { table } => self.drop_table(table),
            Operation::CreateTable { table } => self.create_table(table),
        }
    }
}
