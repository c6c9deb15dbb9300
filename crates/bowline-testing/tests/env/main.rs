//! Test environments: operators and their runs, waits and their errors, the clean-up.
//!
//! Most tests run on the arm that `BOWLINE_TEST_ARM` names (`cargo xtask real test` for the real one).

mod calls;
mod ending;
mod existing;
mod failure;
mod failures;
mod faults;
mod finish;
mod install;
mod operator;
mod permissions;
mod runs;
mod seed;
mod wait;
mod website;
