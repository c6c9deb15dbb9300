//! Built-in kinds: stored objects and refused ones.

mod admission;
mod objects;
mod recorded;
mod refusals;
mod services;
