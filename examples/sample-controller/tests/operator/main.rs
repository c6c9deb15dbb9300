//! Every promise of the operator, by name. Tests run on the arm that `BOWLINE_TEST_ARM` names, on simulated time where that is
//! the embedded server; those that need a fault always run there.

mod deployment;
mod event;
mod failure;
mod gap;
mod plane;
mod process;
mod program;
#[cfg(unix)]
mod replicas;
#[cfg(unix)]
mod restart;
mod resync;
mod status;
mod world;
