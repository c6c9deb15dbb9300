//! The client against the embedded server, in simulated time: what needs a server that can be made slow or wrong.

mod basics;
mod chaos;
mod failures;
mod mapper;
mod packed;
mod read_your_writes;
mod wire;
mod world;
