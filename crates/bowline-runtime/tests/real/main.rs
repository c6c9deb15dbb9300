//! What an operator author uses, on two arms: the embedded server on simulated time, and a real kube-apiserver if there is
//! one (`cargo xtask real test`).

mod arm;
mod client_forms;
mod client_reads;
mod client_subresources;
mod client_writes;
