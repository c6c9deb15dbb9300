//! The client: every verb, form and wrapper.

mod forms;
mod reads;
mod subresources;
mod world;
mod writes;
