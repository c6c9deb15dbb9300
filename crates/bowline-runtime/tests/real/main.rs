//! What operators do, on two arms: the embedded server on simulated time, always, and a real kube-apiserver in real time when
//! `BOWLINE_REAL_KUBECONFIG` says where one is (`cargo xtask real test`). Every test has a namespace of its own, and needs no
//! fault to be injected.

mod arm;
mod client;
mod events;
mod ownership;
