//! What the shell takes from the world around it. The `shuttle` test replaces this module by one whose locks
//! and clock a model checker schedules; nothing else in the shell may know of them.

pub(crate) use std::sync::MutexGuard;

pub(crate) use bowline_clock::{Clock, Sleep, poll_cooperate};

pub(crate) use crate::lock::{Lock, PIECE};
