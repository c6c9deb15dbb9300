//! Informers on the embedded server, with simulated time and faults: their objects and events.

mod answers;
mod bad_objects;
mod basics;
mod denied;
mod gaps;
mod handlers;
mod lifecycle;
mod observed;
mod parts;
mod pauses;
mod property;
mod script;
mod world;
