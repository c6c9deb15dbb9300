//! Where a controller's builder was made: on a cluster, or on something that has one.

use crate::Cluster;

/// Where a [`ControllerBuilder`](crate::ControllerBuilder) was made, and what its controller belongs to: a [`Cluster`].
///
/// Nobody else can be one.
pub trait Home: Clone + Sealed {
    /// The cluster that the controller reads from and writes to.
    fn cluster(&self) -> &Cluster;
}

/// Can only be named in this crate.
pub trait Sealed {}

impl Sealed for Cluster {}

impl Home for Cluster {
    fn cluster(&self) -> &Cluster {
        self
    }
}
