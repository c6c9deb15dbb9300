//! Many writers, watchers and listers on real threads: every watcher rebuilds the state of the store.
#![expect(clippy::unwrap_used, reason = "a test that fails may panic")]

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bowline_clock::{Clock, Rng};
use bowline_storage::{
    ListError, ListRequest, Listing, NewRecord, Options, Revision, Store, TableId, Watch, WatchClosed,
};

const WRITERS: usize = 4;
const WRITES: u64 = 5_000;
const PREFIXES: [&str; 4] = ["", "0/", "1/", "2/"];
const KEYS: u64 = 60;

type State = BTreeMap<Arc<str>, Revision>;

fn state(listing: &Listing<()>) -> State {
    listing.items.iter().map(|record| (record.key.clone(), record.revision)).collect()
}

fn write(store: &Store<()>, tables: &[TableId], rng: &Rng) {
    for _ in 0..WRITES {
        let table = if rng.range(0..4) == 0 { tables[1] } else { tables[0] };
        let key = rng.range(0..KEYS);
        let key = format!("{}/{key}", key % 3);
        let made = |revision: Revision| NewRecord::new(revision.to_string(), ());
        // Another writer may come in between; then this write is refused, as expected.
        let _ = match store.get(table, &key) {
            Some(there) if rng.range(0..4) == 0 => store.delete(table, &key, there.revision, made),
            there => store.put(table, &key, there.map(|there| there.revision), made),
        };
    }
}

/// Watches a table until the end, and builds its state from events alone.
async fn follow(
    store: Store<()>,
    table: TableId,
    prefix: &'static str,
    relists: Arc<AtomicU64>,
    rng: Rng,
) -> State {
    let start = || -> (State, Revision, Watch<()>) {
        let (listing, watch) = store.list_and_watch(table, prefix);
        (state(&listing), listing.revision, watch)
    };
    let (mut states, mut seen, mut watch) = start();
    loop {
        if states.keys().any(|key| key.ends_with("end")) {
            return states;
        }
        match watch.next().await {
            Err(WatchClosed::FellBehind { .. }) => {
                relists.fetch_add(1, Ordering::Relaxed);
                (states, seen, watch) = start();
            }
            Err(closed) => panic!("{closed}"),
            Ok(batch) => {
                for event in batch.events {
                    assert!(event.revision > seen, "in order, none twice");
                    seen = event.revision;
                    let before = event.previous.as_ref().map(|previous| previous.revision);
                    let known = match event.current() {
                        Some(record) => states.insert(record.key.clone(), record.revision),
                        None => states.remove(event.key()),
                    };
                    assert_eq!(known, before, "none is missing");
                }
                assert!(batch.revision >= seen);
                seen = batch.revision;
            }
        }
        // The store also has the revision that the watch reports.
        let claimed = watch.revision();
        match store.list(table, ListRequest { prefix, at: Some(claimed), ..ListRequest::default() }) {
            Ok(listing) => assert_eq!(state(&listing), states, "at {claimed}"),
            Err(ListError::Compacted { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        if rng.range(0..4) == 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// Reads the table in pages while it changes, and then in one piece.
fn page(store: &Store<()>, table: TableId, rng: &Rng) -> bool {
    let limit = NonZeroUsize::new(usize::try_from(rng.range(1..9)).unwrap());
    let mut pages = store.list(table, ListRequest { limit, ..ListRequest::default() }).unwrap();
    let at = Some(pages.revision);
    let mut remaining = pages.remaining;
    while remaining > 0 {
        let after = pages.items.last().map(|last| last.key.clone());
        let Ok(next) = store.list(table, ListRequest { after: after.as_deref(), at, limit, prefix: "" })
        else {
            return false;
        };
        assert_eq!(next.remaining, remaining.saturating_sub(limit.unwrap().get()));
        remaining = next.remaining;
        pages.items.extend(next.items);
    }
    let Ok(whole) = store.list(table, ListRequest { at, ..ListRequest::default() }) else { return false };
    assert!(whole.items.iter().all(|record| record.revision <= whole.revision));
    assert_eq!(state(&pages), state(&whole));
    true
}

async fn soak(log_events: usize) -> u64 {
    let clock = Clock::real();
    let seed = clock.rng().next_u64();
    println!("seed {seed}");
    let rng = Rng::seeded(seed);
    let store = Store::new(Options::default().log_events(NonZeroUsize::new(log_events).unwrap()));
    let tables: Arc<[TableId]> = [store.create_table("pods"), store.create_table("nodes")].into();
    let relists = Arc::new(AtomicU64::new(0));

    let scope = clock.scope("soak");
    let followers: Vec<_> = PREFIXES
        .into_iter()
        .flat_map(|prefix| tables.iter().map(move |&table| (table, prefix)))
        .map(|(table, prefix)| {
            let follower = follow(store.clone(), table, prefix, relists.clone(), rng.fork());
            (table, prefix, scope.spawn("follower", follower))
        })
        .collect();
    let spawner = scope.spawner();
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let (store, tables, rng) = (store.clone(), tables.clone(), rng.fork());
            spawner.spawn_blocking("writer", move || write(&store, &tables, &rng))
        })
        .collect();
    let lister = {
        let (store, table, rng) = (store.clone(), tables[0], rng.fork());
        spawner.spawn_blocking("lister", move || (0..300).filter(|_| page(&store, table, &rng)).count())
    };
    for writer in writers {
        writer.await.expect("writers do not panic");
    }
    let paged = lister.await.expect("lists agree with themselves");
    println!("{paged} lists were read to their end");

    for prefix in PREFIXES {
        for &table in &*tables {
            store.put(table, &format!("{prefix}end"), None, |_| NewRecord::new("", ())).unwrap();
        }
    }
    for (table, prefix, follower) in followers {
        let followed =
            clock.timeout(Duration::from_secs(60), follower).await.expect("every follower comes to the end");
        let followed = followed.expect("no follower misses anything");
        let ended = followed.into_iter().filter(|(key, _)| !key.ends_with("end")).collect::<State>();
        let mut there = state(&store.list(table, ListRequest { prefix, ..ListRequest::default() }).unwrap());
        there.retain(|key, _| !key.ends_with("end"));
        assert_eq!(ended, there);
    }
    assert_eq!(scope.panicked(), 0);
    relists.load(Ordering::Relaxed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_watcher_ends_with_the_state_of_the_store() {
    assert_eq!(soak(1_000_000).await, 0, "with a log as long as the run, nobody falls behind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_watcher_that_falls_behind_relists_and_ends_with_the_state_of_the_store() {
    println!("{} new starts", soak(20).await);
}
