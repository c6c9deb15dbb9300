//! Caches on the embedded server with simulated time, where what is slow or forbidden is made so. What needs no fault is in
//! `tests/real`, which has two arms.

mod chaos;
mod managed_fields;
mod threads;
mod time;
#[path = "../real/traffic.rs"]
#[expect(dead_code, reason = "the other suite reads more of what was asked")]
mod traffic;
mod trouble;
mod world;
