//! What a reconciler is asked to look after.

use std::fmt;

use bowline_machinery::ObjectKey;

/// The object that a reconciler is to look after: which one, not what happened to it. A reconciler reads the state that it
/// finds, so that one run can stand for any number of events. Why it runs, [`Triggers`](crate::Triggers) say.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    key: ObjectKey,
}

impl Request {
    /// A request for an object in a namespace; an empty namespace is that of a cluster-scoped object.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { key: ObjectKey::new(namespace, name) }
    }

    /// The key of the object.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// The object's namespace, if it is in one.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.key.namespace()
    }

    /// The object's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.key.name()
    }
}

impl From<ObjectKey> for Request {
    fn from(key: ObjectKey) -> Self {
        Self { key }
    }
}

impl From<Request> for ObjectKey {
    fn from(request: Request) -> Self {
        request.key
    }
}

/// As its key: `namespace/name`, or `name`.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}
