//! Events: what a controller tells people about an object.

/// Tells people about objects, through `Event`s.
#[derive(Clone, Debug, Default)]
pub struct Recorder {}
