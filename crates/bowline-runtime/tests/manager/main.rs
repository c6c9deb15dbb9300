//! The manager on the embedded server, on simulated time: what starts and stops when, what fails alone, who leads.

mod adding;
mod election;
mod faults;
mod missing;
mod order;
mod servers;
mod sharing;
mod signals;
mod stop;
mod takeover;
mod threads;
mod world;
