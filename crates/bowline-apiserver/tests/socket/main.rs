//! The server on a socket, as a client meets it that has nothing but the kubeconfig.

mod connections;
mod identity;
mod plane;
mod shutdown;
