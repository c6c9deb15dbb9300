//! Controllers on the embedded server with simulated time, where what is slow, forbidden or broken is made so.

mod lifecycle;
mod observed;
mod order;
mod outcomes;
mod panics;
mod scale;
mod stress;
mod triggers;
mod trouble;
mod watches;
mod world;
