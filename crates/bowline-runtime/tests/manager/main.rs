//! The manager on the embedded server, on simulated time: what starts and stops when, what fails alone, who leads.

mod adding;
mod election;
mod faults;
mod order;
mod servers;
mod sharing;
mod world;
