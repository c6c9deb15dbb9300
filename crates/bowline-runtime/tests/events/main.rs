//! Recorders, broadcasters and sinks, in a simulation against the embedded API server, with faults.

mod forms;
mod world;
