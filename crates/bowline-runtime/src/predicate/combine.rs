//! Predicates that combine others.

use super::{Annotations, Generation, Labels, Predicate, ResourceVersion, Selector};
use crate::Change;

/// Accepts a change if both predicates do; from [`Predicate::and`].
#[derive(Clone, Copy, Debug)]
pub struct And<A, B>(pub(super) A, pub(super) B);

/// Accepts a change if one of the two predicates does; from [`Predicate::or`].
#[derive(Clone, Copy, Debug)]
pub struct Or<A, B>(pub(super) A, pub(super) B);

/// Accepts a change if the other predicate does not; from [`not`].
#[derive(Clone, Copy, Debug)]
pub struct Not<P>(P);

/// Accepts a change that `predicate` rejects. Predicates about updates accept all other changes, which `not` then
/// rejects.
pub fn not<P>(predicate: P) -> Not<P> {
    Not(predicate)
}

/// `and` and `or` for predicates of every kind. The trait's methods need the kind's type, which is not yet inferred
/// there.
macro_rules! combine {
    ($($predicate:ident $(<$($parameter:ident),+>)?;)+) => {$(
        impl$(<$($parameter),+>)? $predicate$(<$($parameter),+>)? {
            /// Accepts a change if both predicates do.
            #[must_use]
            pub fn and<P>(self, other: P) -> And<Self, P> {
                And(self, other)
            }

            /// Accepts a change if one of the two predicates does.
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
