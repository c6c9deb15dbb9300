//! What a Kubernetes API server does, as one suite with two arms: the embedded server, always, and a real kube-apiserver
//! when `BOWLINE_REAL_KUBECONFIG` says where one is (`cargo xtask real test`). Every case is one rule, names it, and runs
//! in a namespace of its own.

mod custom;
mod discovery;
mod env;
mod errors;
mod health;
mod writes;

use env::{Answer, Env};
