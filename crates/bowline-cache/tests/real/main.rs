//! Informers and caches on two arms: the embedded server on simulated time, and a real kube-apiserver in real time if
//! `BOWLINE_REAL_KUBECONFIG` is set (`cargo xtask real test`). Every test has its own namespace and injects no faults.

mod arm;
mod custom;
mod forms;
mod informer;
mod lifetime;
mod options;
mod reads;
mod traffic;
