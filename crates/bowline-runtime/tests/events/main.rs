//! Recorders, broadcasters and sinks, in a simulation with the embedded API server and faults.

mod correlation;
mod faults;
mod forms;
mod shutdown;
mod world;
