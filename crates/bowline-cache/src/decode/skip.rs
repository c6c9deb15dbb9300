//! Finds the end of a JSON object or array by counting brackets outside strings. Resumable between chunks.
//!
//! It only delimits: the decoder of the bytes checks matching brackets, UTF-8 and numbers.

use super::block::{BLOCK, Masks, parity};

/// State of a search within an object or array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Skip {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Skip {
    /// Continues with `bytes`; the very first byte is the opening bracket. Returns the number of bytes up to the end of
    /// the value, or `None` if it continues.
    #[inline]
    pub(super) fn advance(&mut self, bytes: &[u8]) -> Option<usize> {
        let (blocks, tail) = bytes.as_chunks::<BLOCK>();
        for (number, block) in blocks.iter().enumerate() {
            if let Some(end) = self.block(block, BLOCK) {
                return Some(number * BLOCK + end);
            }
        }
        if tail.is_empty() {
            return None;
        }
        // Spaces have no effect, in strings and outside.
        let mut padded = [b' '; BLOCK];
        padded[..tail.len()].copy_from_slice(tail);
        let end = self.block(&padded, tail.len())?;
        Some(blocks.len() * BLOCK + end)
    }

    /// Same for one block with `length` valid bytes.
    #[inline]
    fn block(&mut self, block: &[u8; BLOCK], length: usize) -> Option<usize> {
        let masks = Masks::of(block);
        let quotes = masks.quote & !self.escapes(masks.backslash, length);
        let strings = parity(quotes) ^ if self.in_string { u64::MAX } else { 0 };
        self.in_string = strings >> (BLOCK - 1) == 1;

        let open = masks.open & !strings;
        let mut close = masks.close & !strings;
        let closes = close.count_ones() as usize;
        if closes < self.depth {
            self.depth += open.count_ones() as usize;
            self.depth -= closes;
            return None;
        }
        // Enough brackets close in this block to end the value: count one by one.
        let mut opened = open;
        while close != 0 {
            let at = close.trailing_zeros();
            let before = opened & ((1 << at) - 1);
            self.depth += before.count_ones() as usize;
            opened &= !before;
            self.depth = self.depth.saturating_sub(1);
            if self.depth == 0 {
                return Some(at as usize + 1);
            }
            close &= close - 1;
        }
        self.depth += opened.count_ones() as usize;
        None
    }

    /// Mask of the bytes that are escaped by a backslash.
    #[inline]
    fn escapes(&mut self, backslash: u64, length: usize) -> u64 {
        let mut escaped = u64::from(self.escaped);
        self.escaped = false;
        let mut rest = backslash & !escaped;
        while rest != 0 {
            let at = rest.trailing_zeros();
            if at as usize + 1 == length {
                self.escaped = true;
                break;
            }
            escaped |= 2 << at;
            rest &= !(3 << at);
        }
        escaped
    }
}

/// The length of the object or array at the start of `bytes`; `None` if it does not end.
#[inline]
pub(super) fn container(bytes: &[u8]) -> Option<usize> {
    Skip::default().advance(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same, byte by byte.
    fn simple(bytes: &[u8]) -> Option<usize> {
        let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
        for (at, byte) in bytes.iter().enumerate() {
            // Backslashes occur only in strings, where brackets do not count anyway.
            let plain = std::mem::take(&mut escaped);
            match byte {
                b'\\' if !plain => escaped = true,
                b'"' if !plain => in_string = !in_string,
                b'{' | b'[' if !in_string => depth += 1,
                b'}' | b']' if !in_string => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }

    fn structural() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            3 => proptest::sample::select(b"{[".to_vec()),
            3 => proptest::sample::select(b"]}".to_vec()),
            1 => proptest::sample::select(b"\"\\".to_vec()),
            8 => proptest::sample::select(b"ax:, ".to_vec()),
        ];
        proptest::collection::vec(byte, 0..400).prop_map(|mut bytes| {
            bytes.insert(0, b'{');
            bytes
        })
    }

    #[test]
    fn a_value_ends_where_its_last_bracket_closes() {
        assert_eq!(container(b"{}"), Some(2));
        assert_eq!(container(b"[[],{}] , {}"), Some(7));
        assert_eq!(container(br#"{"a}":"\"}"}x"#), Some(12));
        assert_eq!(container(br#"{"a":"\\"}"#), Some(10));
        assert_eq!(container(b"{"), None);
        assert_eq!(container(b""), None);
        assert_eq!(container(br#"{"a":"}"#), None);
    }

    #[test]
    fn a_backslash_at_the_end_of_a_block_escapes_the_first_byte_of_the_next() {
        for filling in 50..70 {
            let text = format!(r#"{{"{}\"}}"}}"#, "a".repeat(filling));
            assert_eq!(container(text.as_bytes()), Some(text.len()), "{filling}");
        }
    }

    proptest! {
        #[test]
        fn blocks_find_the_end_that_single_bytes_find(bytes in structural()) {
            prop_assert_eq!(container(&bytes), simple(&bytes));
        }

        #[test]
        fn cuts_do_not_change_where_the_end_is(bytes in structural(), sizes in proptest::collection::vec(1..80_usize, 1..20)) {
            let mut skip = Skip::default();
            let (mut at, mut found, mut sizes) = (0, None, sizes.iter().cycle());
            while at < bytes.len() && found.is_none() {
                let size = sizes.next().copied().unwrap_or(1).min(bytes.len() - at);
                found = skip.advance(&bytes[at..at + size]).map(|end| at + end);
                at += size;
            }
            prop_assert_eq!(found, simple(&bytes));
        }
    }
}
