//! Doubly linked lists through the slots of an arena: constant-time removal from the middle, and no allocation.

use crate::arena::Slot;

/// The neighbours of an entry in one list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Link {
    previous: Option<Slot>,
    next: Option<Slot>,
}

impl Link {
    pub(crate) fn next(self) -> Option<Slot> {
        self.next
    }
}

/// Access to an entry's link in this list.
pub(crate) trait Links {
    fn link(&mut self, slot: Slot) -> &mut Link;
}

/// A FIFO list with removal from the middle.
#[derive(Debug, Default)]
pub(crate) struct List {
    head: Option<Slot>,
    tail: Option<Slot>,
}

impl List {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    #[inline(always)]
    pub(crate) fn head(&self) -> Option<Slot> {
        self.head
    }

    /// The entries in their order.
    pub(crate) fn iter<'a>(&self, link: impl Fn(Slot) -> Link + 'a) -> impl Iterator<Item = Slot> + 'a {
        std::iter::successors(self.head, move |slot| link(*slot).next)
    }

    /// Appends an entry; returns its link, which the caller stores in the entry.
    #[inline(always)]
    pub(crate) fn push(&mut self, links: &mut impl Links, slot: Slot) -> Link {
        let previous = self.tail.replace(slot);
        match previous {
            Some(previous) => links.link(previous).next = Some(slot),
            None => self.head = Some(slot),
        }
        Link { previous, next: None }
    }

    /// Removes the entry with this link.
    #[inline(always)]
    pub(crate) fn remove(&mut self, links: &mut impl Links, Link { previous, next }: Link) {
        match previous {
            Some(previous) => links.link(previous).next = next,
            None => self.head = next,
        }
        match next {
            Some(next) => links.link(next).previous = previous,
            None => self.tail = previous,
        }
    }
}
