//! Hashes in four bytes, for tables whose entries have no room for eight.

/// Half of a hash is enough for a table of up to four billion slots.
#[expect(clippy::cast_possible_truncation, reason = "the upper half is folded in")]
pub(crate) fn fold(hash: u64) -> u32 {
    (hash ^ hash >> 32) as u32
}

/// The hash in the form that the table expects: it uses the lowest bits and the highest seven.
pub(crate) fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}
