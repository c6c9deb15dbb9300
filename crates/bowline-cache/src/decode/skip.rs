//! Where a JSON value ends: brackets counted outside strings, resumed where the bytes ran out.
//!
//! This only delimits. That brackets match in kind, that strings are UTF-8 and numbers numbers, is for the decoder that the
//! delimited bytes go to.

use super::block::{BLOCK, Masks, parity};

/// A place within an object or array whose end is looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Skip {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Skip {
    /// Goes on with `bytes`; the first byte ever is the opening bracket. Gives how many of them belong to the value if it
    /// ends here, `None` if it goes on behind them.
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
        // Spaces mean nothing, neither in a string nor outside.
        let mut padded = [b' '; BLOCK];
        padded[..tail.len()].copy_from_slice(tail);
        let end = self.block(&padded, tail.len())?;
        Some(blocks.len() * BLOCK + end)
    }

    /// The same for one block, of which `length` bytes count.
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
        // As many brackets close as are open before this block: perhaps the last one is among them.
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

    /// The bytes that a backslash before them makes plain.
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

/// The length of the object or array that `bytes` begin with, or `None` if it does not end.
#[inline]
pub(super) fn container(bytes: &[u8]) -> Option<usize> {
    Skip::default().advance(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One byte after the other.
    fn simple(bytes: &[u8]) -> Option<usize> {
        let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
        for (at, byte) in bytes.iter().enumerate() {
            // Backslashes stand in strings only, where brackets mean nothing with or without one.
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
