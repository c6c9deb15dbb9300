//! The client on the embedded server, in simulated time: tests that need delayed or failed requests.

mod basics;
mod chaos;
mod dropped;
mod failures;
mod gaps;
mod late;
mod mapper;
mod packed;
mod read_your_writes;
mod wire;
mod world;
