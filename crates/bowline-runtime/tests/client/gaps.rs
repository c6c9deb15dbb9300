//! Pages and watches whose state the server has dropped, or whose connection is broken.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bowline_apiserver::Verb;
use bowline_cache::ListQuery;
use bowline_clock::Simulation;
use bowline_machinery::FieldSelector;
use bowline_runtime::{Client, ClientError, WatchEvent};
use futures::TryStreamExt as _;
use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::client::Body;

use crate::world::{World, key, map};

fn names(objects: &[Arc<ConfigMap>]) -> Vec<String> {
    objects.iter().map(|map| map.name_any()).collect()
}

fn pages_of_two() -> ListQuery {
    ListQuery::new().in_namespace("default").page_size(2)
}

/// Refuses the next list with a continue token, because the token is too old.
fn expire_the_second_page(world: &World) {
    world.faults.on(Verb::List).times(1).expire();
}

#[test]
fn a_list_whose_next_page_is_too_old_starts_again_in_one_piece() {
    World::run(|world| async move {
        let client = world.other();
        for name in ["a", "b", "c", "d", "e"] {
            client.create(&map(name, "1")).await.unwrap();
        }
        world.addresses();
        assert_eq!(names(&client.list::<ConfigMap>(&pages_of_two()).await.unwrap()).len(), 5);
        let addresses = world.addresses();
        assert_eq!(addresses.len(), 3, "{addresses:?}");
        assert!(addresses.iter().all(|address| address.contains("limit=2")), "{addresses:?}");
        assert!(addresses[1..].iter().all(|address| address.contains("&continue=")), "{addresses:?}");
        expire_the_second_page(&world);
        let all = client.list::<ConfigMap>(&pages_of_two()).await.unwrap();
        assert_eq!(names(&all), ["a", "b", "c", "d", "e"]);
        let addresses = world.addresses();
        assert_eq!(addresses.len(), 3, "{addresses:?}");
        assert_eq!(addresses[2], "/api/v1/namespaces/default/configmaps");
    });
}

#[test]
fn a_stream_holds_one_page_and_continues_when_the_next_is_too_old() {
    World::run(|world| async move {
        let client = world.other();
        for name in ["a", "b", "c", "d", "e"] {
            client.create(&map(name, "1")).await.unwrap();
        }
        world.addresses();
        let mut stream = client.list_stream::<ConfigMap>(&pages_of_two());
        assert_eq!(world.addresses(), [""; 0], "nothing is listed before it is polled");
        let first = stream.try_next().await.unwrap().unwrap();
        let second = stream.try_next().await.unwrap().unwrap();
        assert_eq!(world.addresses().len(), 1, "the second page is not requested yet");
        client.delete::<ConfigMap>(&key("d")).await.unwrap();
        client.create(&map("f", "1")).await.unwrap();
        world.server.compact();
        let mut all = vec![first, second];
        all.extend(stream.try_collect::<Vec<_>>().await.unwrap());
        assert_eq!(names(&all), ["a", "b", "c", "e", "f"], "the rest is of the present state");
    });
}

#[test]
fn a_watch_from_a_version_that_is_too_old_is_expired() {
    World::run(|world| async move {
        let client = world.other();
        let first = client.create(&map("a", "1")).await.unwrap();
        for value in ["2", "3"] {
            client.update(&map("a", value)).await.unwrap();
        }
        world.server.compact();
        let query = ListQuery::new().in_namespace("default");
        let version = first.resource_version().unwrap();
        let opened = client.watch::<ConfigMap>(&query).resource_version(version).await;
        let error = match opened {
            Ok(mut events) => events.try_next().await.unwrap_err(),
            Err(error) => error,
        };
        assert!(error.is_expired(), "{error}");
    });
}

#[test]
fn a_cut_watch_ends() {
    World::run(|world| async move {
        let client = world.other();
        client.create(&map("a", "1")).await.unwrap();
        let query = ListQuery::new().in_namespace("default");
        let mut events = client.watch::<ConfigMap>(&query).await.unwrap();
        let event = events.try_next().await.unwrap().unwrap();
        assert!(matches!(event, WatchEvent::Added(map) if map.name_any() == "a"));
        world.cut(1);
        client.create(&map("b", "1")).await.unwrap();
        assert!(!matches!(events.try_next().await, Ok(Some(_))), "the event never came");
        assert!(events.try_next().await.unwrap().is_none(), "it has ended");
    });
}

/// A server that answers a watch with these bytes, and then with nothing more.
fn silent(start: &'static str) -> kube::Client {
    let service = tower::service_fn(move |_: Request<Body>| {
        let start =
            futures::stream::iter([Ok::<_, Infallible>(http_body::Frame::data(bytes::Bytes::from(start)))]);
        let chunks = futures::StreamExt::chain(start, futures::stream::pending());
        let body = http_body_util::StreamBody::new(chunks);
        std::future::ready(Ok::<_, Infallible>(Response::new(body)))
    });
    kube::Client::new(service, "default")
}

#[test]
fn a_watch_that_a_server_does_not_end_is_an_error_after_its_deadline() {
    Simulation::new(1).run(|clock| async move {
        let client = Client::builder(silent("")).clock(clock.clone()).build();
        let start = clock.now();
        let watch = client.watch::<ConfigMap>(&ListQuery::new()).timeout(Duration::from_secs(60));
        let error = watch.await.unwrap().try_next().await.unwrap_err();
        assert!(matches!(error, ClientError::Transport { .. }) && error.is_retryable(), "{error}");
        assert_eq!(clock.now().duration_since(start).as_secs(), 90);
        let mut events = client.watch::<ConfigMap>(&ListQuery::new()).await.unwrap();
        let start = clock.now();
        events.try_next().await.unwrap_err();
        let lasted = clock.now().duration_since(start).as_secs();
        assert!((330..=630).contains(&lasted), "{lasted}");
    });
}

#[test]
fn an_object_that_cannot_be_decoded_does_not_end_a_watch() {
    Simulation::new(1).run(|clock| async move {
        let lines = concat!(
            r#"{"type":"ADDED","object":{"metadata":{"name":"a"},"data":"hunter2"}}"#,
            "\n",
            r#"{"type":"ADDED","object":{"metadata":{"name":"b"}}}"#,
            "\n",
            r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}"#,
            "\n",
            r#"{"type":"ADDED","object":{"metadata":{"name":"c"}}}"#,
            "\n",
        );
        let client = Client::builder(silent(lines)).clock(clock).build();
        let mut events = client.watch::<ConfigMap>(&ListQuery::new()).await.unwrap();
        let undecodable = events.try_next().await.unwrap_err();
        assert!(matches!(undecodable, ClientError::Answer { .. }), "{undecodable}");
        assert!(!undecodable.to_string().contains("hunter2"), "{undecodable}");
        let next = events.try_next().await.unwrap().unwrap();
        assert_eq!(next.object().unwrap().name_any(), "b");
        assert!(events.try_next().await.unwrap_err().is_expired());
        assert!(events.try_next().await.unwrap().is_none(), "an error of the server ends it");
    });
}

#[test]
fn a_query_that_only_a_cache_or_only_a_server_answers_says_what_is_missing() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        let fields = ListQuery::new().fields(FieldSelector::parse("metadata.name=a").unwrap());
        let index = ListQuery::new().index("node", "a");
        let error = client.list::<ConfigMap>(&fields).await.unwrap_err().to_string();
        for part in ["configmaps (v1)", "\"metadata.name=a\"", "InformerCache::add_index", "Client::live"] {
            assert!(error.contains(part), "{error}");
        }
        let error = client.list_stream::<ConfigMap>(&fields).try_next().await.unwrap_err();
        assert!(matches!(error, ClientError::Cache { .. }), "{error}");
        let error = client.list::<ConfigMap>(&index).await.unwrap_err().to_string();
        for part in ["configmaps (v1)", "\"node\" does not exist", "use one of namespace"] {
            assert!(error.contains(part), "{error}");
        }
        for (client, remedy) in [
            (client.live(), "leave out `Client::live`"),
            (world.other(), "use a client with a cache"),
            (
                world
                    .cluster(|builder| builder.cached::<ConfigMap>().uncached::<ConfigMap>())
                    .client()
                    .clone(),
                "do not configure the kind as uncached",
            ),
            (world.cluster(|builder| builder).client().clone(), "`ClusterBuilder::cached`"),
        ] {
            let error = client.list::<ConfigMap>(&index).await.unwrap_err().to_string();
            for part in ["configmaps (v1)", "\"node\"", "field selector", remedy] {
                assert!(error.contains(part), "{error}");
            }
        }
        let all = index.in_namespace("default");
        let error = client.delete_all_of::<ConfigMap>(&all).await.unwrap_err().to_string();
        assert!(error.contains("\"node\" exists only in the cache"), "{error}");
        let error = client.watch::<ConfigMap>(&all).await.unwrap_err().to_string();
        assert!(error.contains("\"node\" exists only in the cache"), "{error}");
    });
}

#[test]
fn the_longest_timeout_of_a_watch_is_a_year() {
    Simulation::new(1).run(|clock| async move {
        let client = Client::builder(silent("")).clock(clock.clone()).build();
        let start = clock.now();
        let watch = client.watch::<ConfigMap>(&ListQuery::new()).timeout(Duration::MAX);
        watch.await.unwrap().try_next().await.unwrap_err();
        let year = Duration::from_secs(365 * 24 * 60 * 60);
        assert_eq!(clock.now().duration_since(start).as_secs(), year.as_secs() + 30);
    });
}

#[test]
fn events_that_have_arrived_come_before_the_error_of_the_deadline() {
    Simulation::new(1).run(|clock| async move {
        let event = r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"1"}}}
"#;
        let client = Client::builder(silent(event)).clock(clock.clone()).build();
        let watch = client.watch::<ConfigMap>(&ListQuery::new()).timeout(Duration::from_secs(60));
        let mut events = watch.await.unwrap();
        clock.sleep(Duration::from_secs(100)).await;
        let event = events.try_next().await.unwrap().unwrap();
        assert!(matches!(event, WatchEvent::Added(map) if map.name_any() == "a"));
        assert!(matches!(events.try_next().await, Err(ClientError::Transport { .. })));
    });
}
