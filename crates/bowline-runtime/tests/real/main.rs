//! Operators' use of the crate on two arms: the embedded server on simulated time, always, and a real kube-apiserver in
//! real time when `BOWLINE_REAL_KUBECONFIG` names one (`cargo xtask real test`). Every test has its own namespace and
//! needs no injected fault.

mod arm;
mod client;
mod events;
mod ownership;
