//! Predicates made of others.

use super::{Annotations, Generation, Labels, Predicate, ResourceVersion, Selector};
use crate::Change;

/// Accepts what both accept; from [`Predicate::and`].
#[derive(Clone, Copy, Debug)]
pub struct And<A, B>(pub(super) A, pub(super) B);

/// Accepts what one of the two accepts; from [`Predicate::or`].
#[derive(Clone, Copy, Debug)]
pub struct Or<A, B>(pub(super) A, pub(super) B);

/// Accepts what the other does not; from [`not`].
#[derive(Clone, Copy, Debug)]
pub struct Not<P>(P);

/// Accepts what `predicate` does not. Mind that those that look at updates accept everything else, which this turns round.
pub fn not<P>(predicate: P) -> Not<P> {
    Not(predicate)
}

/// `and` and `or` for predicates of every kind. Those of the trait want to know of which kind, before anybody knows.
macro_rules! combine {
    ($($predicate:ident $(<$($parameter:ident),+>)?;)+) => {$(
        impl$(<$($parameter),+>)? $predicate$(<$($parameter),+>)? {
            /// Accepts what both accept.
            #[must_use]
            pub fn and<P>(self, other: P) -> And<Self, P> {
                And(self, other)
            }

            /// Accepts what one of the two accepts.
            #[must_use]
            pub fn or<P>(self, other: P) -> Or<Self, P> {
                Or(self, other)
            }
        }
    )+};
}

combine! {
    Generation;
    ResourceVersion;
    Labels;
    Annotations;
    Selector;
    And<A, B>;
    Or<A, B>;
    Not<A>;
}

impl<K: ?Sized, A: Predicate<K>, B: Predicate<K>> Predicate<K> for And<A, B> {
    fn accepts(&self, change: &Change<'_, K>) -> bool {
        self.0.accepts(change) && self.1.accepts(change)
    }
}

impl<K: ?Sized, A: Predicate<K>, B: Predicate<K>> Predicate<K> for Or<A, B> {
    fn accepts(&self, change: &Change<'_, K>) -> bool {
        self.0.accepts(change) || self.1.accepts(change)
    }
}

impl<K: ?Sized, P: Predicate<K>> Predicate<K> for Not<P> {
    fn accepts(&self, change: &Change<'_, K>) -> bool {
        !self.0.accepts(change)
    }
}
