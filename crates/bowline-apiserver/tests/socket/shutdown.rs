//! How a server ends.

use bowline_apiserver::ServeOptions;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams, WatchParams};
use tokio::net::TcpStream;

use crate::plane::{PATIENCE, client, connect, plane, serving, soon};

#[tokio::test]
async fn a_server_that_stops_ends_watches_and_idle_connections_and_takes_no_more() {
    let serving = plane(ServeOptions::default()).await;
    let namespaces: Api<Namespace> = Api::all(client(&serving.kubeconfig().to_yaml(), "bowline").await);
    let watch = namespaces.watch(&WatchParams::default(), "0").await.expect("a watch begins");
    let mut watch = std::pin::pin!(watch);
    watch.next().await.expect("there is a namespace").expect("it can be read");
    let _idle = connect(&serving).await;
    let _silent = TcpStream::connect(serving.address()).await.expect("it is taken");
    let address = serving.address();
    assert!(serving.stop(PATIENCE).await, "all connections end in time");
    let rest = soon(watch.collect::<Vec<_>>()).await.expect("the watch ends");
    assert!(rest.iter().all(Result::is_ok), "it ends without an error: {rest:?}");
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn the_same_server_can_be_on_two_sockets_and_outlives_both() {
    let server = bowline_apiserver::ApiServer::builder().build().expect("a server can be built");
    let first = serving(&server, ServeOptions::default()).await;
    let second = serving(&server, ServeOptions::default()).await;
    assert_ne!(first.kubeconfig().token().expose(), second.kubeconfig().token().expose());
    for serving in [first, second] {
        let namespaces: Api<Namespace> =
            Api::all(client(&serving.kubeconfig().to_yaml(), "bowline-token").await);
        assert_eq!(namespaces.list(&ListParams::default()).await.expect("they are listed").items.len(), 4);
        drop(serving);
        assert!(namespaces.list(&ListParams::default()).await.is_err(), "it is gone when it is dropped");
    }
    let namespaces: Api<Namespace> = Api::all(kube::Client::new(server, "default"));
    assert_eq!(namespaces.list(&ListParams::default()).await.expect("they are listed").items.len(), 4);
}
