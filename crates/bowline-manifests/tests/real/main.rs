//! Manifests on two arms: the embedded server on simulated time, always, and a real kube-apiserver in real time when
//! `BOWLINE_REAL_KUBECONFIG` names one (`cargo xtask real test`). Only the real one authorizes: there, the operator runs as its
//! service account under exactly its generated roles.

mod arm;
mod installation;
mod operator;
mod roles;
mod run;
mod tasks;
