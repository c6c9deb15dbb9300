//! A problem that a check found, and its printed form.

use std::fmt;

/// One problem: the file, and the error or remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    file: String,
    line: Option<usize>,
    message: String,
}

impl Problem {
    /// A problem of a file as a whole.
    pub(super) fn new(file: impl Into<String>, message: impl Into<String>) -> Self {
        Self { file: file.into(), line: None, message: message.into() }
    }

    /// A problem on one line; the first line is 1.
    pub(super) fn at(file: impl Into<String>, line: usize, message: impl Into<String>) -> Self {
        Self { line: Some(line), ..Self::new(file, message) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

/// The problems as they are printed, for the tests of the checks.
#[cfg(test)]
pub(super) fn printed(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(Problem::to_string).collect()
}
