//! The values that an author gives to a controller, found by their types.

use std::any::{Any, TypeId, type_name};
use std::fmt;

/// One value of each type; from [`ControllerBuilder::state`](crate::ControllerBuilder::state).
#[derive(Default)]
pub(crate) struct States(Vec<State>);

struct State {
    id: TypeId,
    type_name: &'static str,
    value: Box<dyn Any + Send + Sync>,
}

impl States {
    /// Adds a value, in place of that of the same type.
    pub(super) fn insert<S: Send + Sync + 'static>(&mut self, value: S) {
        let state = State { id: TypeId::of::<S>(), type_name: type_name::<S>(), value: Box::new(value) };
        match self.0.iter_mut().find(|other| other.id == state.id) {
            Some(other) => *other = state,
            None => self.0.push(state),
        }
    }

    /// The value of a type.
    ///
    /// # Panics
    /// When there is none. The text names the controller, the type and the remedy.
    #[track_caller]
    pub(crate) fn expect<S: Send + Sync + 'static>(&self, controller: &str) -> &S {
        // Controllers have a few values: a search costs less than a hash.
        let found = self.0.iter().find(|state| state.id == TypeId::of::<S>());
        match found.and_then(|state| state.value.downcast_ref()) {
            Some(value) => value,
            None => self.missing::<S>(controller),
        }
    }

    #[cold]
    #[track_caller]
    fn missing<S>(&self, controller: &str) -> ! {
        panic!(
            "the controller {controller:?} has no state of type `{}` (it has {self:?}): call `.state(..)` on its builder",
            type_name::<S>()
        )
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|state| format_args!("{}", state.type_name).to_string()))
            .finish()
    }
}
