//! Informers on the embedded server, with simulated time and with faults: what they hold, and what they tell.

mod basics;
mod world;
