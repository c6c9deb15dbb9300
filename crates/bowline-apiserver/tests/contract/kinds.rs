//! Built-in kinds: what is stored of their objects, and what is refused.

mod admission;
mod objects;
mod recorded;
mod refusals;
mod services;
