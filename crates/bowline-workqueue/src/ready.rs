//! Keys ready for a worker: higher priorities first, FIFO within a priority, with aging against starvation.

use std::collections::BTreeMap;

use crate::arena::{Arena, Slot};
use crate::list::{Link, Links, List};
use crate::machine::{Entry, EntryState};

/// Every `AGING`-th dispatch takes the oldest entry, whatever its priority.
pub(crate) const AGING: u32 = 16;

/// Number of empty priority classes to keep, so that a class that comes and goes does not allocate.
const KEPT_CLASSES: usize = 8;

/// Entries are in two lists each: that of their priority, and that of all entries by age.
///
/// While all have priority zero, both lists would be the same. The list by age is kept only from the first other
/// priority on, until no entry is ready.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    /// Entries with priority zero: most entries, and often the only ones.
    zero: List,
    /// All other priorities.
    others: BTreeMap<i32, List>,
    /// All entries by age; empty unless `mixed`.
    age: List,
    mixed: bool,
    len: usize,
    hand_outs: u32,
}

impl Ready {
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Appends an entry to the list of its priority.
    #[inline(always)]
    pub(crate) fn push<K, P>(&mut self, entries: &mut Arena<Entry<K, P>>, slot: Slot) {
        let priority = entries[slot].priority;
        if priority != 0 {
            self.mix(entries);
        }
        let class = self.class(priority).push(&mut ByClass(entries), slot);
        let age = if self.mixed { self.age.push(&mut ByAge(entries), slot) } else { Link::default() };
        entries[slot].place = EntryState::Ready { class, age };
        self.len += 1;
    }

    /// The entry to dispatch next.
    #[inline(always)]
    pub(crate) fn next(&self) -> Option<Slot> {
        if !self.mixed {
            return self.zero.head();
        }
        if self.hand_outs + 1 == AGING {
            return self.age.head();
        }
        let above = self.others.range(1..).rev().find_map(|(_, class)| class.head());
        above.or(self.zero.head()).or_else(|| self.others.values().rev().find_map(List::head))
    }

    /// All entries in dispatch order, if no entry is added and aging does not apply.
    pub(crate) fn iter<'a, K, P>(
        &'a self,
        entries: &'a Arena<Entry<K, P>>,
    ) -> impl Iterator<Item = Slot> + 'a {
        let link = |slot: Slot| match entries[slot].place {
            EntryState::Ready { class, .. } => class,
            _ => unreachable!("only entries in line are linked"),
        };
        let above = self.others.range(1..).rev().map(|(_, class)| class);
        let below = self.others.range(..0).rev().map(|(_, class)| class);
        above.chain([&self.zero]).chain(below).flat_map(move |class| class.iter(link))
    }

    /// Removes an entry of this priority and with these links; it is dispatched.
    #[inline(always)]
    pub(crate) fn leave<K, P>(&mut self, entries: &mut Arena<Entry<K, P>>, priority: i32, place: EntryState) {
        if let EntryState::Ready { class, age } = place {
            self.hand_outs = (self.hand_outs + 1) % AGING;
            self.len -= 1;
            self.leave_class(entries, priority, class);
            if self.mixed {
                self.age.remove(&mut ByAge(entries), age);
                self.mixed = self.len > 0;
            }
        }
    }

    /// Moves an entry to the end of a higher priority; it keeps its age.
    pub(crate) fn raise<K, P>(&mut self, entries: &mut Arena<Entry<K, P>>, slot: Slot, to: i32) {
        self.mix(entries);
        let entry = &mut entries[slot];
        let from = std::mem::replace(&mut entry.priority, to);
        if let EntryState::Ready { class, age } = entry.place {
            self.leave_class(entries, from, class);
            let class = self.class(to).push(&mut ByClass(entries), slot);
            entries[slot].place = EntryState::Ready { class, age };
        }
    }

    /// Starts the list by age. Its cost is amortized: each visited entry was pushed once.
    #[cold]
    fn mix<K, P>(&mut self, entries: &mut Arena<Entry<K, P>>) {
        if std::mem::replace(&mut self.mixed, true) {
            return;
        }
        let mut next = self.zero.head();
        while let Some(slot) = next {
            next = ByClass(entries).link(slot).next();
            let link = self.age.push(&mut ByAge(entries), slot);
            *ByAge(entries).link(slot) = link;
        }
    }

    #[inline(always)]
    fn class(&mut self, priority: i32) -> &mut List {
        if priority == 0 { &mut self.zero } else { self.others.entry(priority).or_default() }
    }

    #[inline(always)]
    fn leave_class<K, P>(&mut self, entries: &mut Arena<Entry<K, P>>, priority: i32, link: Link) {
        let class = self.class(priority);
        class.remove(&mut ByClass(entries), link);
        if priority != 0 && class.is_empty() && self.others.len() > KEPT_CLASSES {
            self.others.remove(&priority);
        }
    }
}

struct ByClass<'a, K, P>(&'a mut Arena<Entry<K, P>>);
struct ByAge<'a, K, P>(&'a mut Arena<Entry<K, P>>);

impl<K, P> Links for ByClass<'_, K, P> {
    fn link(&mut self, slot: Slot) -> &mut Link {
        match &mut self.0[slot].place {
            EntryState::Ready { class, .. } => class,
            _ => unreachable!("only entries in line are linked"),
        }
    }
}

impl<K, P> Links for ByAge<'_, K, P> {
    fn link(&mut self, slot: Slot) -> &mut Link {
        match &mut self.0[slot].place {
            EntryState::Ready { age, .. } => age,
            _ => unreachable!("only entries in line are linked"),
        }
    }
}
