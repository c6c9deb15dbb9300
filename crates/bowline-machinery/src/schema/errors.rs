//! What is wrong with a schema or an object, as much of it as is told.

use super::problem::{MAX_PROBLEMS, MAX_TEXT};
use crate::FieldError;

/// Errors, up to [`MAX_PROBLEMS`] of them and [`MAX_TEXT`] bytes. The first is always told, however long it is; what
/// comes when it is full is dropped.
#[derive(Debug, Default)]
pub(super) struct Errors {
    told: Vec<FieldError>,
    text: usize,
}

impl Errors {
    pub(super) fn push(&mut self, error: FieldError) {
        if !self.is_full() {
            self.text += error.to_string().len();
            self.told.push(error);
        }
    }

    /// Takes no more of them than are told.
    pub(super) fn extend(&mut self, errors: impl IntoIterator<Item = FieldError>) {
        let mut errors = errors.into_iter();
        while !self.is_full()
            && let Some(error) = errors.next()
        {
            self.push(error);
        }
    }

    /// Whether nothing more is told, so that nothing more need be looked for.
    pub(super) fn is_full(&self) -> bool {
        self.told.len() >= MAX_PROBLEMS || self.text >= MAX_TEXT
    }

    pub(super) fn into_vec(self) -> Vec<FieldError> {
        self.told
    }
}
