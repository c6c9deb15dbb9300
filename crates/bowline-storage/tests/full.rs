//! A store at its maximum of bytes.

use bowline_storage::{NewRecord, Options, Revision, Store, TableId, WriteError};
use proptest::prelude::*;

const MAX: usize = 16_000;

fn store() -> (Store<()>, TableId) {
    let store = Store::new(Options::default().max_bytes(MAX));
    let table = store.create_table("a");
    (store, table)
}

fn put(store: &Store<()>, table: TableId, key: &str, bytes: usize) -> Result<Revision, WriteError<()>> {
    let expected = store.get(table, key).map(|record| record.revision);
    store.put(table, key, expected, |_| NewRecord::new(vec![0; bytes], ())).map(|record| record.revision)
}

fn delete(store: &Store<()>, table: TableId, key: &str) {
    if let Some(record) = store.get(table, key) {
        let deleted = store.delete(table, key, record.revision, |_| NewRecord::new(record.body.clone(), ()));
        deleted.expect("a delete never fails for want of room");
    }
}

#[test]
fn a_full_store_refuses_creates_and_allows_small_growth_and_deletes() {
    let (store, table) = store();
    let created = (0..100).take_while(|index| put(&store, table, &format!("k{index}"), 1000).is_ok()).count();
    assert!((10..16).contains(&created), "{created}");
    let revision = store.revision();
    let error = put(&store, table, "another", 1000).expect_err("it is full");
    assert!(matches!(error, WriteError::Full { max_bytes: MAX }), "{error}");
    assert_eq!(store.revision(), revision, "the revision is not used");
    assert!(store.get(table, "another").is_none());

    put(&store, table, "k0", 1500).expect("an update may go over the limit by a sixteenth");
    assert!(put(&store, table, "k0", 5000).is_err());
    put(&store, table, "k0", 10).expect("less is always taken");
    delete(&store, table, "k1");
    put(&store, table, "another", 1000).expect("there is room");
}

#[test]
fn a_dropped_table_frees_its_bytes() {
    let (store, table) = store();
    while put(&store, table, &store.revision().to_string(), 1000).is_ok() {}
    store.drop_table(table);
    let table = store.create_table("b");
    put(&store, table, "a", 10_000).expect("there is room");
}

proptest! {
    /// After any writes, a store has the same remaining bytes as one with only the final records.
    #[test]
    fn the_remaining_bytes_depend_only_on_the_stored_records(
        writes in proptest::collection::vec((0..6_u8, proptest::option::of(0..6000_usize)), 0..60),
    ) {
        let (store, table) = store();
        for (key, bytes) in writes {
            let key = key.to_string();
            match bytes {
                Some(bytes) => drop(put(&store, table, &key, bytes)),
                None => delete(&store, table, &key),
            }
        }
        let (fresh, other) = self::store();
        let mut lengths: Vec<_> = (0..6_u8)
            .filter_map(|key| store.get(table, &key.to_string()))
            .map(|record| (record.key.to_string(), record.body.len()))
            .collect();
        // A store may exceed its limit by updates: records that shrink and grow again all fit.
        for (key, _) in &lengths {
            put(&fresh, other, key, 0).expect("six small records fit");
        }
        lengths.sort_by_key(|(_, length)| *length);
        for (key, length) in &lengths {
            put(&fresh, other, key, *length).expect("it fitted before");
        }
        for length in (0..MAX).step_by(50) {
            let (one, another) = (put(&store, table, "x", length).is_ok(), put(&fresh, other, "x", length).is_ok());
            prop_assert_eq!(one, another, "{}", length);
            delete(&store, table, "x");
            delete(&fresh, other, "x");
        }
    }
}
