//! Recorders, broadcasters and sinks, in a simulation against the embedded API server, with faults.

mod correlation;
mod faults;
mod forms;
mod shutdown;
mod world;
