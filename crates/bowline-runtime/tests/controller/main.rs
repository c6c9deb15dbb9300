//! Controllers on the embedded server with simulated time, where what is slow, forbidden or broken is made so.

mod outcomes;
mod trouble;
mod world;
