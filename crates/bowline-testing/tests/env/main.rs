//! Test environments: what they give a test, how they wait, what they say when that was in vain, and what they leave behind.
//!
//! Most tests run on the arm that `BOWLINE_TEST_ARM` names (`cargo xtask real test` for the real one).

mod failure;
mod finish;
mod install;
mod operator;
mod wait;
mod website;
