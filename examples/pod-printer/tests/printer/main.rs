//! The controller on the embedded server, with simulated time, and the program around it.

mod controller;
mod failures;
mod program;
mod start_and_stop;
mod world;
