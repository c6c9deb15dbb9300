//! Informers on the embedded server, with simulated time and with faults: what they hold, and what they tell.

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
