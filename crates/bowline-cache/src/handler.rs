//! Event handlers: a trait, closures, or one closure per type of event.

use std::fmt;
use std::sync::Arc;

use crate::event::{Deleted, Event};

/// Handles the events of an informer, one at a time and in order.
///
/// A handler has a task of its own and is never called concurrently. It should be quick, for example add a key to a
/// work queue. While it runs, its events wait; if many wait, those of one object are merged. It must not block its
/// thread: code that waits uses a [`Subscription`](crate::Subscription) instead. A panic is caught, logged and counted;
/// the handler continues with the next event.
///
/// Closures are handlers: `|event: &Event<Pod>| …`.
pub trait EventHandler<K>: Send + 'static {
    /// Handles one event.
    fn handle(&mut self, event: &Event<K>);

    /// Passes on work that was gathered from earlier events. Called after at most 64 events, before the handler counts
    /// as synced, and before it waits for more events.
    fn flush(&mut self) {}
}

impl<K, F: FnMut(&Event<K>) + Send + 'static> EventHandler<K> for F {
    fn handle(&mut self, event: &Event<K>) {
        self(event);
    }
}

type OnAdd<K> = Box<dyn FnMut(&Arc<K>, bool) + Send>;
type OnUpdate<K> = Box<dyn FnMut(&Arc<K>, &Arc<K>) + Send>;
type OnDelete<K> = Box<dyn FnMut(&Deleted<K>) + Send>;

/// A handler with an optional closure for each type of event.
#[must_use = "a handler does nothing until it is added to an informer"]
pub struct EventHandlerFuncs<K> {
    add: Option<OnAdd<K>>,
    update: Option<OnUpdate<K>>,
    delete: Option<OnDelete<K>>,
}

impl<K> EventHandlerFuncs<K> {
    /// A handler that ignores all events.
    pub fn new() -> Self {
        Self { add: None, update: None, delete: None }
    }

    /// Sets the closure for additions: the object, and whether it is part of the initial list. Default: none.
    pub fn on_add(mut self, add: impl FnMut(&Arc<K>, bool) + Send + 'static) -> Self {
        self.add = Some(Box::new(add));
        self
    }

    /// Sets the closure for updates: the old and the new object. Default: none.
    pub fn on_update(mut self, update: impl FnMut(&Arc<K>, &Arc<K>) + Send + 'static) -> Self {
        self.update = Some(Box::new(update));
        self
    }

    /// Sets the closure for deletions. Default: none.
    pub fn on_delete(mut self, delete: impl FnMut(&Deleted<K>) + Send + 'static) -> Self {
        self.delete = Some(Box::new(delete));
        self
    }
}

impl<K> Default for EventHandlerFuncs<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: 'static> EventHandler<K> for EventHandlerFuncs<K> {
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

impl<K> fmt::Debug for EventHandlerFuncs<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventHandlerFuncs")
            .field("add", &self.add.is_some())
            .field("update", &self.update.is_some())
            .field("delete", &self.delete.is_some())
            .finish()
    }
}
