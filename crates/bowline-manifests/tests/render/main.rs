//! Manifests as a whole: their text, their order, and what a server says about them.

mod accepted;
mod description;
mod documents;
mod options;
mod snapshots;
