//! The client: every verb, form and wrapper.

mod forms;
mod pages;
mod reads;
mod subresources;
mod watches;
mod world;
mod writes;
