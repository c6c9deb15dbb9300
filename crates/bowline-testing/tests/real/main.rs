//! The real control plane with stand-ins for its programs, so that these tests need no Go and no Kubernetes.

mod detached;
mod killed;
mod plane;
mod stand_in;
