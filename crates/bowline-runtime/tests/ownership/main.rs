//! What controllers do to objects: claim, finalize and ensure them, in a simulation against the embedded API server, with others
//! in the way.

mod claim;
mod ensure;
mod finalizer;
mod world;
