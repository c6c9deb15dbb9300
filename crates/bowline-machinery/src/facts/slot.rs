//! The named types of the table, and the lookup of a struct's field by name.

use std::fmt;
use std::sync::OnceLock;

use super::go_type::Field;

/// A named type's line in the table, parsed when it is needed.
pub(super) struct Slot {
    name: &'static str,
    body: &'static str,
    fields: OnceLock<Fields>,
}

impl Slot {
    pub(super) fn new(name: &'static str, body: &'static str) -> Self {
        Self { name, body, fields: OnceLock::new() }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn fields(&self) -> &Fields {
        self.fields.get_or_init(|| Fields::read(self.body))
    }

    /// The text after the name.
    pub(super) fn body(&self) -> &'static str {
        self.body
    }

    pub(super) fn is_struct(&self) -> bool {
        self.body.starts_with('{')
    }
}

impl fmt::Debug for Slot {
    /// Prints the name only, since types can refer to each other in cycles.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slot").field(&self.name).finish()
    }
}

#[derive(Debug)]
pub(super) struct Fields {
    in_order: Vec<Field>,
    /// The prefixes of their names and their indexes in `in_order`, sorted by name.
    by_name: Vec<(u64, usize)>,
    /// The indexes of those that are always written.
    always_written: Vec<usize>,
}

impl Fields {
    fn read(body: &'static str) -> Self {
        let tokens = body.strip_prefix('{').map_or("", str::trim_start);
        let in_order: Vec<_> = tokens.split(' ').filter(|token| !token.is_empty()).map(Field::read).collect();
        let mut by_name: Vec<_> = in_order.iter().map(|field| beginning(field.name)).zip(0..).collect();
        by_name.sort_unstable_by_key(|&(_, at)| in_order[at].name);
        let always_written = (0..in_order.len()).filter(|&at| in_order[at].is_always_written()).collect();
        Self { in_order, by_name, always_written }
    }

    pub(super) fn in_order(&self) -> &[Field] {
        &self.in_order
    }

    pub(super) fn find(&self, name: &str) -> Option<&Field> {
        // Comparing numbers is several times faster than comparing texts, and few fields share a prefix.
        let beginning = beginning(name);
        let first = self.by_name.partition_point(|&(known, _)| known < beginning);
        let alike = self.by_name[first..].iter().take_while(|&&(known, _)| known == beginning);
        alike.map(|&(_, at)| &self.in_order[at]).find(|field| field.name == name)
    }

    pub(super) fn always_written(&self) -> impl Iterator<Item = &Field> {
        self.always_written.iter().map(|&at| &self.in_order[at])
    }
}

/// The first eight bytes of a name as a number with the same order.
fn beginning(name: &str) -> u64 {
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(name.bytes()) {
        *to = from;
    }
    u64::from_be_bytes(bytes)
}
