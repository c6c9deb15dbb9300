//! The manager on the embedded server, on simulated time: order, partial failures, leadership.

mod adding;
mod crds;
mod describe;
mod election;
mod faults;
mod further;
mod missing;
mod order;
mod readiness;
mod servers;
mod sharing;
mod signals;
mod stop;
mod takeover;
mod threads;
mod world;
