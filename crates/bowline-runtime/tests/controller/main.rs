//! Controllers on the embedded server with simulated time, where what is slow, forbidden or broken is made so.

mod annotated;
mod building;
mod clusters;
mod handlers;
mod lifecycle;
mod namespaces;
mod observed;
mod order;
mod outcomes;
mod panics;
mod payloads;
mod retried;
mod scale;
mod stress;
mod triggers;
mod trouble;
mod watches;
mod world;
