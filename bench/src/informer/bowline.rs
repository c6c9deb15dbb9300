//! The subject `bowline`: our own informer. The only file of the scenarios that knows `bowline-cache`.

use super::subject::Run;
use crate::apiserver::load::Failure;
use crate::subject::Measured;

const NOT_YET: &str = "bowline-cache has no informer yet";

#[expect(clippy::unused_async, reason = "there will be something to wait for")]
pub(super) async fn sync(_run: &Run) -> Result<Measured, Failure> {
    Err(NOT_YET.into())
}

#[expect(clippy::unused_async, reason = "there will be something to wait for")]
pub(super) async fn events(_run: &Run) -> Result<Measured, Failure> {
    Err(NOT_YET.into())
}

#[expect(clippy::unused_async, reason = "there will be something to wait for")]
pub(super) async fn get(_run: &Run) -> Result<Measured, Failure> {
    Err(NOT_YET.into())
}

#[expect(clippy::unused_async, reason = "there will be something to wait for")]
pub(super) async fn index(_run: &Run) -> Result<Measured, Failure> {
    Err(NOT_YET.into())
}
