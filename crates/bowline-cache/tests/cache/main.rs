//! Caches on the embedded server with simulated time and injected faults. Tests without faults are in `tests/real`, on
//! two arms.

mod chaos;
mod managed_fields;
mod threads;
mod time;
#[path = "../real/traffic.rs"]
#[expect(dead_code, reason = "the other suite reads more of what was asked")]
mod traffic;
mod trouble;
mod world;
