//! The environment of the shell: clock and locks. The `shuttle` test replaces this module with locks and a clock that a
//! model checker schedules; the rest of the shell must not use others.

pub(crate) use std::sync::MutexGuard;

pub(crate) use bowline_clock::{Clock, Sleep, poll_cooperate};

pub(crate) use crate::lock::{Lock, SHARED_KEYS};
