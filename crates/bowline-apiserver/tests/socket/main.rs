//! The server on a socket, as a client meets it that has nothing but the kubeconfig.

mod connections;
mod http2;
mod identity;
mod kubeconfig;
mod plane;
mod shutdown;
