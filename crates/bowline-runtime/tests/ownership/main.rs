//! Helpers of a reconcile: claim, finalize and ensure objects and update their status, in a simulation against the embedded API
//! server, with competing writers.

mod claim;
mod cleanup;
mod ensure;
mod finalizer;
mod status;
mod world;
