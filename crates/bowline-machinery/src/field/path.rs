//! The path of a field.

use std::fmt;

/// The path of a field inside an object, as Kubernetes prints it: `spec.containers[0].env[NAME]`.
///
/// Cheap to extend, so that validation can build a path for every field.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath(String);

impl FieldPath {
    /// The path of a top-level field, or several names joined by dots.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The object itself. Printed as `<nil>` in an error, as Kubernetes does.
    #[must_use]
    pub fn root() -> Self {
        Self::default()
    }

    /// Whether this is the object itself.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// A field of the object at this path.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { Self::new(name) } else { self.with(&[".", name]) }
    }

    /// An item of the list at this path.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// A value of the map at this path.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.with(&["[", key, "]"])
    }

    /// Joins parts without `format!`: validation makes many paths and rarely prints one.
    fn with(&self, parts: &[&str]) -> Self {
        let mut text =
            String::with_capacity(self.0.len() + parts.iter().map(|part| part.len()).sum::<usize>());
        text.push_str(&self.0);
        text.extend(parts.iter().copied());
        Self(text)
    }

    /// As text; empty for the object itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_root() { "<nil>" } else { &self.0 })
    }
}
