//! Who is told of events: a trait, closures, or one closure for each kind of event.

use std::fmt;
use std::sync::Arc;

use crate::event::{Deleted, Event};

/// Is told what happens to the objects of an informer, one event at a time, in order.
///
/// A handler has a task of its own and is never called twice at once. It should be quick, typically putting a key into a
/// work queue: while it runs, its events wait, and when many do, those of one object become one. It must not block its
/// thread; whoever has to wait takes a [`Subscription`](crate::Subscription) instead. A panic is caught, logged and counted;
/// the next event comes all the same.
///
/// Closures are handlers: `|event: &Event<Pod>| …`.
pub trait Handler<K>: Send + 'static {
    /// Takes one event.
    fn handle(&mut self, event: &Event<K>);

    /// No more events are at hand for now: what was gathered from those before can be passed on, all at once. Called after at
    /// most 64 events, always before the handler counts as in sync, and before it waits for more.
    fn flush(&mut self) {}
}

impl<K, F: FnMut(&Event<K>) + Send + 'static> Handler<K> for F {
    fn handle(&mut self, event: &Event<K>) {
        self(event);
    }
}

type OnAdd<K> = Box<dyn FnMut(&Arc<K>, bool) + Send>;
type OnUpdate<K> = Box<dyn FnMut(&Arc<K>, &Arc<K>) + Send>;
type OnDelete<K> = Box<dyn FnMut(&Deleted<K>) + Send>;

/// A handler with a closure for each kind of event; what has none is not told.
#[must_use = "a handler does nothing until it is added to an informer"]
pub struct HandlerFuncs<K> {
    add: Option<OnAdd<K>>,
    update: Option<OnUpdate<K>>,
    delete: Option<OnDelete<K>>,
}

impl<K> HandlerFuncs<K> {
    /// A handler that does nothing yet.
    pub fn new() -> Self {
        Self { add: None, update: None, delete: None }
    }

    /// When an object came: the object, and whether it was there from the start.
    pub fn on_add(mut self, add: impl FnMut(&Arc<K>, bool) + Send + 'static) -> Self {
        self.add = Some(Box::new(add));
        self
    }

    /// When an object changed: what it was, and what it is.
    pub fn on_update(mut self, update: impl FnMut(&Arc<K>, &Arc<K>) + Send + 'static) -> Self {
        self.update = Some(Box::new(update));
        self
    }

    /// When an object went.
    pub fn on_delete(mut self, delete: impl FnMut(&Deleted<K>) + Send + 'static) -> Self {
        self.delete = Some(Box::new(delete));
        self
    }
}

impl<K> Default for HandlerFuncs<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: 'static> Handler<K> for HandlerFuncs<K> {
    fn handle(&mut self, event: &Event<K>) {
        match event {
            Event::Add { object, in_initial_list } => {
                if let Some(add) = &mut self.add {
                    add(object, *in_initial_list);
                }
            }
            Event::Update { old, new } => {
                if let Some(update) = &mut self.update {
                    update(old, new);
                }
            }
            Event::Delete(deleted) => {
                if let Some(delete) = &mut self.delete {
                    delete(deleted);
                }
            }
        }
    }
}

impl<K> fmt::Debug for HandlerFuncs<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerFuncs")
            .field("add", &self.add.is_some())
            .field("update", &self.update.is_some())
            .field("delete", &self.delete.is_some())
            .finish()
    }
}
