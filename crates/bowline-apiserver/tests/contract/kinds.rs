//! Built-in kinds: what is stored of their objects, and what is refused.

mod objects;
mod recorded;
mod refusals;
