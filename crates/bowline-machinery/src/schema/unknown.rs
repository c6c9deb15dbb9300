//! The paths of unknown fields, limited in number and size.

/// Maximum number of reported unknown fields, as in Kubernetes for a built-in kind.
const MAX_PATHS: usize = 100;

/// Maximum bytes of all paths. Each contains the full path, so a long name above many unknown fields would produce far
/// more text than the object has.
const MAX_TEXT: usize = 64 << 10;

/// The paths found. The first is always kept, however long it is.
#[derive(Debug, Default)]
pub(super) struct UnknownPaths {
    paths: Vec<String>,
    text: usize,
}

impl UnknownPaths {
    /// Adds a path up to the limit. Beyond it the path is not built.
    pub(super) fn add(&mut self, path: impl FnOnce() -> String) {
        if self.paths.len() < MAX_PATHS && self.text < MAX_TEXT {
            let path = path();
            self.text += path.len();
            self.paths.push(path);
        }
    }

    /// The number of paths.
    pub(super) fn len(&self) -> usize {
        self.paths.len()
    }

    /// The paths. Those from `place` on are sorted among themselves, and so are those before.
    pub(super) fn into_sorted(mut self, place: usize) -> Vec<String> {
        let place = place.min(self.paths.len());
        let (before, behind) = self.paths.split_at_mut(place);
        before.sort_unstable();
        behind.sort_unstable();
        self.paths
    }
}
