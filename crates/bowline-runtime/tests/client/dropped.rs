//! Writes whose futures are dropped: whether or not the server did them, later reads equal the server's state.

use std::collections::BTreeMap;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bowline_cache::ListQuery;
use bowline_runtime::{Client, ClientError, Patch};
use futures::future::poll_fn;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use proptest::prelude::*;
use serde_json::json;

use crate::world::{World, key, map, value};

const PAUSE: Duration = Duration::from_millis(10);

/// The verbs that write objects and that the embedded server supports.
#[derive(Clone, Copy, Debug)]
enum Write {
    Create,
    CreateNamed,
    Update,
    Patch,
    Delete,
    DeleteAll,
}

const WRITES: [Write; 6] =
    [Write::Create, Write::CreateNamed, Write::Update, Write::Patch, Write::Delete, Write::DeleteAll];

impl Write {
    async fn run(self, client: &Client, name: &str, value: &str) -> Result<(), ClientError> {
        let object = map(name, value);
        match self {
            Self::Create => client.create(&object).await.map(drop),
            Self::CreateNamed => {
                let mut object = object;
                object.metadata.generate_name = object.metadata.name.take().map(|name| format!("{name}-"));
                client.create(&object).await.map(drop)
            }
            Self::Update => client.update(&object).await.map(drop),
            Self::Patch => {
                let patch = Patch::merge(&json!({"data": {"value": value}})).expect("a patch");
                client.patch::<ConfigMap>(&key(name), &patch).await.map(drop)
            }
            Self::Delete => client.delete::<ConfigMap>(&key(name)).await.map(drop),
            Self::DeleteAll => {
                client.delete_all_of::<ConfigMap>(&ListQuery::new().in_namespace("default")).await
            }
        }
    }
}

/// Polls a future at most `polls` times and returns its output. Otherwise it is dropped.
async fn polled<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let (mut future, mut polled) = (pin!(future), 0);
    poll_fn(|context| {
        if polled == polls {
            return Poll::Ready(None);
        }
        polled += 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if polled == polls => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

type State = BTreeMap<String, Option<String>>;

async fn list(client: &Client) -> State {
    let all = client.list::<ConfigMap>(&ListQuery::new().in_namespace("default")).await.expect("a list");
    all.iter().map(|object| (object.name_any(), object.resource_version())).collect()
}

/// Compares the server's state with the client's get and list. Nothing is written meanwhile.
async fn check(world: &World, client: &Client, context: &str) -> State {
    let truth = list(&world.other()).await;
    for name in ["a", "b"] {
        let read = client.find::<ConfigMap>(&key(name)).await.expect("a read");
        let read = read.map(|object| object.resource_version());
        assert_eq!(read.as_ref(), truth.get(name), "get {name} {context}");
    }
    world.addresses();
    let listed = list(client).await;
    let addresses = world.addresses();
    assert_eq!(listed, truth, "list {context}: {addresses:?}");
    truth
}

/// Result of a run.
struct Run {
    /// Whether the last write was done before its drop.
    is_done: bool,
    /// Whether it was dropped, although the server had done it.
    was_stored: bool,
}

/// Some writes, each dropped after a number of polls, and reads while the watch is late.
fn run(seed: u64, writes: &[(Write, &'static str, usize)], is_read_in_between: bool) -> Run {
    let mut run = Run { is_done: false, was_stored: false };
    World::run_with(seed, |world| {
        let run = &mut run;
        async move {
            let cluster = world.cached(|builder| builder).await;
            let client = cluster.client();
            client.create(&map("a", "0")).await.expect("it is not there");
            let mut before = check(&world, client, "at the start").await;
            world.hold();
            world.pause(PAUSE);
            for (number, (write, name, polls)) in writes.iter().enumerate() {
                let value = (number + 1).to_string();
                let done = polled(write.run(client, name, &value), *polls).await;
                run.is_done = done.is_some();
                let after = list(&world.other()).await;
                run.was_stored = done.is_none() && before != after;
                if is_read_in_between || number + 1 == writes.len() {
                    check(&world, client, &format!("after {write:?} {name}")).await;
                }
                before = after;
            }
            // The writes have ended by then, and the watch is still late.
            world.clock.sleep(Duration::from_secs(61)).await;
            check(&world, client, "after a minute").await;
            world.delay(PAUSE);
            world.release();
            for step in 0..20 {
                check(&world, client, &format!("in step {step} of the watch")).await;
                world.clock.sleep(PAUSE / 2).await;
            }
            world.clock.sleep(Duration::from_secs(200)).await;
            check(&world, client, "at the end").await;
            world.asked();
            client.find::<ConfigMap>(&key("a")).await.expect("a read");
            assert_eq!(world.asked(), [""; 0], "nothing is unknown any more");
        }
    });
    run
}

/// Drops the last of some writes after one poll, after two, and so on until it is done. Returns whether the server had
/// done it at least once.
fn drop_last_at_every_poll(
    seed: u64,
    earlier: &[(Write, &'static str, usize)],
    (write, name): (Write, &'static str),
    is_read_in_between: bool,
) -> bool {
    let mut was_stored = false;
    for polls in 0..100 {
        let writes: Vec<_> = earlier.iter().copied().chain([(write, name, polls)]).collect();
        let run = run(seed, &writes, is_read_in_between);
        was_stored |= run.was_stored;
        if run.is_done {
            return was_stored;
        }
    }
    panic!("{write:?} is not done after 100 polls");
}

fn writes() -> impl Strategy<Value = (Write, &'static str)> {
    (prop::sample::select(&WRITES[..]), prop::sample::select(&["a", "b"][..]))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_read_is_never_older_than_a_dropped_write(
        seed in any::<u64>(),
        earlier in prop::collection::vec((writes(), 1_usize..8), 0..3),
        last in writes(),
        is_read_in_between in any::<bool>(),
    ) {
        let earlier: Vec<_> = earlier.into_iter().map(|((write, name), polls)| (write, name, polls)).collect();
        drop_last_at_every_poll(seed, &earlier, last, is_read_in_between);
    }
}

#[test]
fn each_kind_of_write_is_read_wherever_it_is_dropped() {
    for write in WRITES {
        let name = if matches!(write, Write::Create) { "b" } else { "a" };
        assert!(
            drop_last_at_every_poll(1, &[], (write, name), true),
            "{write:?} is stored before it is answered"
        );
    }
}

#[test]
fn a_write_that_try_join_drops_is_read() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        world.hold();
        world.pause(PAUSE);
        let failing = async {
            // The other write is stored by now, and its response has not arrived.
            world.clock.sleep(PAUSE * 3 / 2).await;
            Err::<(), _>("something else fails")
        };
        let object = map("a", "1");
        let writing = async { client.create(&object).await.map_err(|_| "not this one") };
        assert_eq!(futures::try_join!(writing, failing).unwrap_err(), "something else fails");
        assert_eq!(value(&client.get::<ConfigMap>(&key("a")).await.unwrap()), "1");
        assert_eq!(client.list::<ConfigMap>(&ListQuery::new()).await.unwrap().len(), 1);
    });
}

#[test]
fn a_write_that_is_dropped_before_it_is_polled_is_no_write() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        drop(client.create(&map("a", "1")));
        drop(client.delete::<ConfigMap>(&key("a")));
        world.asked();
        client.find::<ConfigMap>(&key("a")).await.unwrap();
        assert_eq!(world.asked(), [""; 0]);
    });
}
