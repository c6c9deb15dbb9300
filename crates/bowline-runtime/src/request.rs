//! Requests: the object to reconcile, and its cluster.

use std::fmt;
use std::hash::{Hash, Hasher};

use bowline_machinery::ObjectKey;

use crate::ClusterName;

/// The object to reconcile. It says which object, not what happened to it: a reconciler reads the present state, so that one
/// run can stand for any number of events. [`Triggers`](crate::Triggers) say why it runs.
///
/// # Clusters
/// A controller may watch several clusters ([`in_cluster`](crate::source::KindSource::in_cluster)). A request names the cluster
/// of its object unless that is the controller's own: objects of the same name in two clusters are two requests, reconciled
/// and retried apart. A request that a handler makes with [`new`](Self::new) is for the controller's own cluster, also in a
/// watch on another cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    key: ObjectKey,
    /// None for the controller's own cluster.
    cluster: Option<ClusterName>,
}

impl Request {
    /// A request for an object in a namespace of the controller's own cluster. An empty namespace means a cluster-scoped
    /// object: use [`cluster_scoped`](Self::cluster_scoped).
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        ObjectKey::new(namespace, name).into()
    }

    /// A request for a cluster-scoped object of the controller's own cluster.
    ///
    /// ```
    /// use bowline_runtime::Request;
    ///
    /// let request = Request::cluster_scoped("worker-1");
    /// assert_eq!((request.namespace(), request.name()), (None, "worker-1"));
    /// ```
    #[must_use]
    pub fn cluster_scoped(name: &str) -> Self {
        ObjectKey::cluster_scoped(name).into()
    }

    /// The same object in another cluster. `None` and the name of the controller's own cluster mean its own cluster.
    ///
    /// ```
    /// use bowline_runtime::{ClusterName, Request};
    ///
    /// let (home, hub) = (Request::new("default", "a"), ClusterName::new("hub"));
    /// let there = home.clone().in_cluster(hub);
    /// assert_ne!(home, there);
    /// assert_eq!(there.cluster().map(ClusterName::as_str), Some("hub"));
    /// ```
    #[must_use]
    pub fn in_cluster(mut self, cluster: impl Into<Option<ClusterName>>) -> Self {
        self.cluster = cluster.into();
        self
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

    /// The name of the object's cluster. None for the controller's own cluster.
    #[must_use]
    pub fn cluster(&self) -> Option<&ClusterName> {
        self.cluster.as_ref()
    }

    /// The form in the queue of a controller of the cluster `home`: requests for its own cluster name no cluster.
    #[inline]
    pub(crate) fn seen_from(mut self, home: Option<&ClusterName>) -> Self {
        if self.cluster.is_some() && self.cluster.as_ref() == home {
            self.cluster = None;
        }
        self
    }
}

/// An object of the controller's own cluster.
impl From<ObjectKey> for Request {
    fn from(key: ObjectKey) -> Self {
        Self { key, cluster: None }
    }
}

/// Not derived, so that a request for the controller's own cluster costs no more than its key.
impl Hash for Request {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
        if let Some(cluster) = &self.cluster {
            cluster.hash(state);
        }
    }
}

/// `namespace/name` or `name`; with `@cluster` for another cluster.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)?;
        match &self.cluster {
            Some(cluster) => write!(f, "@{cluster}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::hash::BuildHasher as _;

    use bowline_clock::HashState;

    use super::*;

    #[test]
    fn equal_keys_of_two_clusters_are_two_requests() {
        let home = || Request::new("default", "a");
        let there = |cluster: &str| home().in_cluster(ClusterName::new(cluster));
        let all = || [home(), there("hub"), there("edge"), there("hub"), home()];
        let state = HashState::for_lookups();
        let hashes = all().map(|request| state.hash_one(request));
        assert!(hashes[1] == hashes[3] && hashes[0] == hashes[4] && hashes[0] != hashes[1]);
        let sorted: Vec<_> = BTreeSet::from(all()).iter().map(ToString::to_string).collect();
        assert_eq!(sorted, ["default/a", "default/a@edge", "default/a@hub"]);
    }

    #[test]
    fn a_controllers_own_cluster_has_no_name_in_its_queue() {
        let (hub, edge) = (ClusterName::new("hub"), ClusterName::new("edge"));
        let there = Request::new("default", "a").in_cluster(hub.clone());
        assert_eq!(there.clone().seen_from(Some(&hub)), Request::new("default", "a"));
        assert_eq!(there.clone().seen_from(Some(&edge)), there);
        assert_eq!(there.clone().seen_from(None), there);
    }

    #[test]
    fn a_request_is_a_pointer_longer_than_its_key() {
        assert_eq!(size_of::<Request>(), size_of::<ObjectKey>() + size_of::<usize>());
    }
}
