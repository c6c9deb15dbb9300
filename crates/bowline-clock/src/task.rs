//! One task of a scope, and its result.

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::task::JoinHandle;

/// A task of a [`Scope`](crate::Scope); await it for its output. Dropping it does not stop the task, which belongs to
/// its scope.
#[derive(Debug)]
pub struct Task<T> {
    name: Arc<str>,
    state: State<T>,
}

#[derive(Debug)]
enum State<T> {
    Running(JoinHandle<Result<T, String>>),
    /// Ran inline, or was refused (`None`).
    Over(Option<Result<T, String>>),
}

impl<T> Task<T> {
    pub(crate) fn running(name: Arc<str>, handle: JoinHandle<Result<T, String>>) -> Self {
        Self { name, state: State::Running(handle) }
    }

    pub(crate) fn over(name: Arc<str>, result: Option<Result<T, String>>) -> Self {
        Self { name, state: State::Over(result) }
    }

    /// Its name with the names of its scopes in front: `manager/webhooks/listener`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

// The output is moved out, never pinned.
impl<T> Unpin for Task<T> {}

impl<T> Future for Task<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = match &mut self.state {
            State::Running(handle) => match ready!(Pin::new(handle).poll(cx)) {
                Ok(result) => Some(result),
                Err(error) if error.is_cancelled() => None,
                Err(error) => Some(Err(panic_message(&*error.into_panic()).to_owned())),
            },
            State::Over(result) => result.take(),
        };
        Poll::Ready(match result {
            Some(Ok(output)) => Ok(output),
            Some(Err(message)) => Err(TaskError::Panicked { task: self.name.to_string(), message }),
            None => Err(TaskError::Aborted { task: self.name.to_string() }),
        })
    }
}

/// A task ended without an output.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// It panicked. Its scope continues.
    #[error("task {task} panicked: {message}")]
    Panicked {
        /// The task's full name.
        task: String,
        /// The panic message.
        message: String,
    },
    /// Its scope was aborted, or closed when the task was spawned.
    #[error("task {task} was aborted with its scope")]
    Aborted {
        /// The task's full name.
        task: String,
    },
}

/// The message of a caught panic, if it is a text.
#[must_use]
pub fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message")
}
