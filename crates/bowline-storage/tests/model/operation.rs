//! Operations on a store.

use proptest::prelude::*;

pub(crate) const TABLES: usize = 3;
/// Adjacent keys: equal prefixes, the ends of Unicode's ranges, the empty key.
pub(crate) const KEYS: [&str; 12] = [
    "",
    "a",
    "a/x",
    "a/y",
    "ab/x",
    "b/x",
    "b/y",
    "é/x",
    "\u{d7ff}x",
    "\u{e000}x",
    "\u{10ffff}",
    "\u{10ffff}\u{10ffff}z",
];
pub(crate) const PREFIXES: [&str; 9] = ["", "a", "a/", "b/", "b/x", "é", "\u{d7ff}", "\u{10ffff}", "zz"];

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Put {
        table: usize,
        key: usize,
        length: usize,
    },
    Delete {
        table: usize,
        key: usize,
    },
    /// A put (or a delete) that expects the wrong revision.
    Stale {
        table: usize,
        key: usize,
        expected: u64,
        delete: bool,
    },
    Panic {
        table: usize,
        key: usize,
    },
    Get {
        table: usize,
        key: usize,
    },
    List {
        table: usize,
        prefix: usize,
        after: Option<usize>,
        back: Option<u64>,
        limit: Option<usize>,
    },
    OpenPager {
        table: usize,
        prefix: usize,
        limit: usize,
    },
    NextPage {
        which: usize,
    },
    Watch {
        table: usize,
        prefix: usize,
        back: u64,
    },
    ListAndWatch {
        table: usize,
        prefix: usize,
    },
    Poll {
        which: usize,
    },
    Progress {
        which: usize,
    },
    Close {
        which: usize,
    },
    Compact {
        back: u64,
    },
    DropTable {
        table: usize,
    },
    CreateTable {
        table: usize,
    },
}

pub(crate) fn operation() -> impl Strategy<Value = Operation> {
    let table = || 0..TABLES;
    let key = || 0..KEYS.len();
    let prefix = || 0..PREFIXES.len();
    // The distance of a revision into the past, from one step into the future on.
    let back = || prop_oneof![3 => 0_u64..4, 2 => 0_u64..40];
    prop_oneof![
        60 => (table(), key(), 0_usize..60).prop_map(|(table, key, length)| Operation::Put { table, key, length }),
        15 => (table(), key()).prop_map(|(table, key)| Operation::Delete { table, key }),
        4 => (table(), key(), 0_u64..40, any::<bool>())
            .prop_map(|(table, key, expected, delete)| Operation::Stale { table, key, expected, delete }),
        1 => (table(), key()).prop_map(|(table, key)| Operation::Panic { table, key }),
        4 => (table(), key()).prop_map(|(table, key)| Operation::Get { table, key }),
        20 => (table(), prefix(), proptest::option::of(key()), proptest::option::of(back()),
            proptest::option::of(1_usize..6))
            .prop_map(|(table, prefix, after, back, limit)| Operation::List { table, prefix, after, back, limit }),
        5 => (table(), prefix(), 1_usize..4)
            .prop_map(|(table, prefix, limit)| Operation::OpenPager { table, prefix, limit }),
        15 => any::<usize>().prop_map(|which| Operation::NextPage { which }),
        8 => (table(), prefix(), back()).prop_map(|(table, prefix, back)| Operation::Watch { table, prefix, back }),
        4 => (table(), prefix()).prop_map(|(table, prefix)| Operation::ListAndWatch { table, prefix }),
        30 => any::<usize>().prop_map(|which| Operation::Poll { which }),
        10 => any::<usize>().prop_map(|which| Operation::Progress { which }),
        3 => any::<usize>().prop_map(|which| Operation::Close { which }),
        3 => back().prop_map(|back| Operation::Compact { back }),
        1 => table().prop_map(|table| Operation::DropTable { table }),
        2 => table().prop_map(|table| Operation::CreateTable { table }),
    ]
}

pub(crate) fn options() -> impl Strategy<Value = (usize, usize)> {
    let bytes = prop_oneof![Just(usize::MAX), 0_usize..4000];
    (prop_oneof![1_usize..4, 4_usize..30, Just(1000)], bytes)
}
