//! The owner of a controller's builder: a cluster, or a type that has one.

use crate::Cluster;

/// The owner of a [`ControllerBuilder`](crate::ControllerBuilder) and of its controller, with a [`Cluster`].
///
/// Sealed: other crates cannot implement it.
pub trait HasCluster: Clone + Sealed {
    /// The cluster that the controller reads from and writes to.
    fn cluster(&self) -> &Cluster;
}

/// Accessible in this crate only.
pub trait Sealed {}

impl Sealed for Cluster {}

impl HasCluster for Cluster {
    fn cluster(&self) -> &Cluster {
        self
    }
}
