//! Errors of a schema or an object, limited in number and size.

use super::problem::{MAX_PROBLEMS, MAX_TEXT};
use crate::FieldError;

/// Errors, up to [`MAX_PROBLEMS`] of them and [`MAX_TEXT`] bytes. The first is always kept, however long it is; later
/// ones beyond the limit are dropped.
#[derive(Debug, Default)]
pub(super) struct Errors {
    errors: Vec<FieldError>,
    text: usize,
}

impl Errors {
    pub(super) fn push(&mut self, error: FieldError) {
        if !self.is_full() {
            self.text += error.to_string().len();
            self.errors.push(error);
        }
    }

    /// Adds errors up to the limit.
    pub(super) fn extend(&mut self, errors: impl IntoIterator<Item = FieldError>) {
        let mut errors = errors.into_iter();
        while !self.is_full()
            && let Some(error) = errors.next()
        {
            self.push(error);
        }
    }

    /// Whether the limit is reached, so that validation can stop.
    pub(super) fn is_full(&self) -> bool {
        self.errors.len() >= MAX_PROBLEMS || self.text >= MAX_TEXT
    }

    pub(super) fn into_vec(self) -> Vec<FieldError> {
        self.errors
    }
}
