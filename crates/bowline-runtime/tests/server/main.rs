//! The servers of a program on real sockets: metrics and health probes.

mod exposition;
mod limits;
mod probes;
mod scrapes;
mod world;
