//! The behavior of a Kubernetes API server, as one suite with two arms: the embedded server, always, and a real kube-apiserver
//! when `BOWLINE_REAL_KUBECONFIG` says where one is (`cargo xtask real test`). Every case is one rule, names it, and runs
//! in a namespace of its own.

mod bodies;
mod concurrency;
mod custom;
mod custom_reads;
mod discovery;
mod dry_run;
mod env;
mod errors;
mod finalizers;
mod generation;
mod health;
mod initial_events;
mod kinds;
mod lists;
mod metadata_form;
mod names;
mod namespaces;
mod paging;
mod patches;
mod pods;
mod selectors;
mod subresources;
mod verbs;
mod watches;
mod writes;

use env::{Answer, Env, event_names, names, revision};
