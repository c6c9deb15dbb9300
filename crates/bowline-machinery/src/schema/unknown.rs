//! The paths of unknown fields, as many of them as are told.

/// As many unknown fields as Kubernetes reports of a built-in kind.
const MAX_PATHS: usize = 100;

/// How long the paths may become together: each has the whole way there in it, so that a long name above many unknown
/// fields would make far more text than the object has.
const MAX_TEXT: usize = 64 << 10;

/// Paths that were found. The first is always told, however long it is.
#[derive(Debug, Default)]
pub(super) struct UnknownPaths {
    paths: Vec<String>,
    text: usize,
}

impl UnknownPaths {
    /// Adds a path, unless enough is told. Then the path is not even made.
    pub(super) fn add(&mut self, path: impl FnOnce() -> String) {
        if self.paths.len() < MAX_PATHS && self.text < MAX_TEXT {
            let path = path();
            self.text += path.len();
            self.paths.push(path);
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.paths.len()
    }

    /// The paths; those from `place` on are sorted among themselves, and so are those before.
    pub(super) fn into_sorted(mut self, place: usize) -> Vec<String> {
        let place = place.min(self.paths.len());
        let (before, behind) = self.paths.split_at_mut(place);
        before.sort_unstable();
        behind.sort_unstable();
        self.paths
    }
}
