//! The servers of a program on real sockets: metrics and probes.

mod authentication;
mod dashboards;
mod encryption;
mod exposition;
mod limits;
mod probes;
mod scrapes;
mod world;
