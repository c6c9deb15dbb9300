//! The names of a cluster's controllers.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The names that are taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    taken: Arc<Mutex<BTreeSet<Arc<str>>>>,
}

/// A name that is taken as long as this is there.
#[derive(Debug)]
pub(crate) struct Claim {
    name: Arc<str>,
    claims: Claims,
}

impl Claims {
    /// Takes a name; none if somebody has it.
    pub(crate) fn claim(&self, name: &Arc<str>) -> Option<Claim> {
        let is_new = self.taken.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone());
        is_new.then(|| Claim { name: name.clone(), claims: self.clone() })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
    }
}
