//! Custom resources: what follows from a write of a definition or of its objects.

use crate::resource::Resource;
use crate::server::Inner;
use crate::write::Outcome;

/// Does what follows from a write.
pub(crate) fn committed(_inner: &Inner, _resource: &Resource, _outcome: &Outcome) {}
