//! The stop of a manager with all parts: each part works until its stage ends, and the total time is limited.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bowline_apiserver::Verb;
use bowline_apiserver::faults::Faults;
use bowline_cache::ObjectKey;
use bowline_runtime::health::HealthServer;
use bowline_runtime::leader_election::LeaderElectionConfig;
use bowline_runtime::server::MetricsServer;
use bowline_runtime::{ClusterBuilder, EventType, Manager, ManagerError, Runnable, Stage};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;

use crate::servers::{anywhere, get};
use crate::world::{Record, SECOND, World, failure};

#[test]
fn ending_runnables_can_read_and_servers_respond_until_the_lease_is_released() {
    World::run_in_real_time(|world| async move {
        let addresses: Arc<OnceLock<[SocketAddr; 2]>> = Arc::default();
        note_lease_writes(&world, addresses.clone());
        let builder = world.builder().cluster(ClusterBuilder::cached::<ConfigMap>);
        let election = LeaderElectionConfig::new("default", "operator").identity("a");
        let builder = builder.leader_election(election).metrics_server(MetricsServer::new(anywhere()));
        let manager = builder.health_server(HealthServer::new(anywhere())).build().unwrap();
        let (reader, record) = (manager.clone(), world.record.clone());
        let elected = Runnable::new("elected", move |cancelled| async move {
            record.add("elected begins");
            cancelled.cancelled().await;
            read_late(&reader).await?;
            record.add("elected has read what came after the stop");
            Ok::<_, bowline_runtime::Error>(())
        });
        manager.add(elected).unwrap();
        let (asked, record) = (addresses.clone(), world.record.clone());
        // The last stage before the servers.
        let webhook = Runnable::new("webhook", move |cancelled| async move {
            cancelled.cancelled().await;
            let [metrics, health] = *asked.get().expect("they listen");
            let paths = [(metrics, "/metrics"), (health, "/healthz"), (health, "/readyz")];
            for (address, path) in paths {
                let (status, text) = get(address, path).await;
                record.add(format!("{path} answers {status}"));
                assert_eq!(
                    text.contains("leader_election_master_status{name=\"operator\"} 1"),
                    path == "/metrics"
                );
            }
            Ok::<_, std::io::Error>(())
        });
        manager.add(webhook.in_stage(Stage::Webhook)).unwrap();
        let start = world.start(&manager);
        world.until("it leads", || world.record.has("elected begins")).await;
        addresses.set([manager.metrics_address().unwrap(), manager.health_address().unwrap()]).unwrap();
        world.record.take();

        manager.request_stop();
        world.create("late").await;
        start.await.unwrap().unwrap();
        let mut lines = world.record.take();
        // The number of renewals depends on the duration.
        lines.retain(|line| line != "lease written, servers answer");
        let order = [
            "elected has read what came after the stop",
            "/metrics answers 200",
            "/healthz answers 200",
            "/readyz answers 500",
            "lease written, servers are gone",
        ];
        assert_eq!(lines, order);
    });
}

/// Records whether servers respond when the lease is written.
fn note_lease_writes(world: &World, servers: Arc<OnceLock<[SocketAddr; 2]>>) {
    let record = world.record.clone();
    world.faults.on(Verb::Update).resource("leases").run(move |_| {
        let answers = |address| std::net::TcpStream::connect(address).is_ok();
        let answer = servers.get().map(|servers| servers.map(answers));
        record.add(match answer {
            Some([false, false]) => "lease written, servers are gone",
            Some([true, true]) | None => "lease written, servers answer",
            Some(_) => "lease written, one server is gone",
        });
        std::future::ready(())
    });
}

/// Waits for an object that the informer does not have yet.
async fn read_late(manager: &Manager) -> Result<(), bowline_runtime::Error> {
    let key = ObjectKey::new("default", "late");
    let seen = async {
        while manager.client().find::<ConfigMap>(&key).await?.is_none() {
            manager.clock().sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    };
    manager.clock().timeout(20 * SECOND, seen).await?
}

#[test]
fn pending_events_are_written_at_the_end() {
    World::run(1, |world| async move {
        world.create("a").await;
        let map = world.maps().get("a").await.unwrap();
        let manager = world.replica("a");
        // The server takes no events, until all that runs has ended.
        world.faults.all().resource("events").fail(failure(500, "InternalError", "no events today"));
        let recorder = manager.recorder("test");
        let elected = Runnable::new("elected", move |cancelled| async move {
            cancelled.cancelled().await;
            recorder.event(&map, EventType::Normal, "Last", "words");
            Ok::<_, std::io::Error>(())
        });
        manager.add(elected).unwrap();
        let (clock, faults, record) = (world.clock.clone(), world.faults.clone(), world.record.clone());
        let server = Runnable::new("server", move |cancelled| async move {
            cancelled.cancelled().await;
            clock.sleep(SECOND).await;
            record.add(format!("{} tried", event_writes(&faults)));
            faults.remove_all();
            Ok::<_, std::io::Error>(())
        });
        manager.add(server.in_stage(Stage::Server)).unwrap();
        let start = world.start(&manager);
        manager.wait_ready().await.unwrap();
        world.settle().await;
        manager.request_stop();
        start.await.unwrap().unwrap();
        assert_eq!(world.record.lines(), ["1 tried"]);
        let events = Api::<Event>::all(world.client.clone()).list(&ListParams::default()).await.unwrap();
        let notes: Vec<_> = events.items.iter().map(|event| event.note.as_deref().unwrap()).collect();
        assert_eq!(notes, ["words"]);
    });
}

fn event_writes(faults: &Faults) -> usize {
    faults.requests().verb(Verb::Create).resource("events").count()
}

fn deaf(name: &str) -> Runnable {
    Runnable::new(name, |_| std::future::pending::<std::io::Result<()>>())
}

#[test]
fn one_timeout_covers_all_stages() {
    World::run(1, |world| async move {
        let election = LeaderElectionConfig::new("default", "operator").identity("a");
        let builder = world.builder().leader_election(election);
        let manager = builder.shutdown_timeout(30 * SECOND).build().unwrap();
        let stages = [Stage::Server, Stage::Webhook, Stage::Cache, Stage::EveryReplica, Stage::Elected];
        for stage in stages {
            for number in 1..=2 {
                manager.add(deaf(&format!("{stage} {number}")).in_stage(stage)).unwrap();
            }
        }
        manager.add(world.noting("polite")).unwrap();
        let start = world.start(&manager);
        manager.wait_ready().await.unwrap();
        world.settle().await;
        let began = world.clock.now();
        manager.request_stop();
        let error = start.await.unwrap().unwrap_err();
        let took = world.clock.now().duration_since(began);
        // The first ones use up most of the timeout; a late stage gets the minimum, not another timeout.
        assert!(took >= 15 * SECOND && took <= 30 * SECOND, "{took:?}");
        let ManagerError::Ended { failures, left_behind } = error else { panic!("{error}") };
        assert!(failures.is_empty(), "{failures:?}");
        let mut left_behind = left_behind;
        left_behind.sort();
        let mut all: Vec<_> =
            stages.iter().flat_map(|stage| [1, 2].map(|number| format!("{stage} {number}"))).collect();
        all.sort();
        assert_eq!(left_behind, all);
        assert!(world.record.has("polite ends"));
        // The lease was released nevertheless.
        let next = world.replica("b");
        let start = world.start(&next);
        assert!(world.clock.timeout(2 * SECOND, next.wait_elected()).await.is_ok());
        next.request_stop();
        start.await.unwrap().unwrap();
    });
}

#[test]
fn without_a_timeout_the_stop_waits_for_all() {
    World::run(1, |world| async move {
        let manager = world.builder().shutdown_timeout(Duration::MAX).build().unwrap();
        let hour = Duration::from_hours(1);
        manager.add(slow("elected", hour, &world)).unwrap();
        manager.add(slow("server", hour, &world).in_stage(Stage::Server)).unwrap();
        manager.add(slow("cache", hour, &world).in_stage(Stage::Cache)).unwrap();
        let start = world.start(&manager);
        manager.wait_ready().await.unwrap();
        world.settle().await;
        let began = world.clock.now();
        manager.request_stop();
        start.await.unwrap().unwrap();
        let took = world.clock.now().duration_since(began);
        assert!(took >= 3 * hour, "{took:?}");
        assert_eq!(world.record.lines(), ["elected ends", "cache ends", "server ends"]);
    });
}

/// A runnable that ends slowly.
fn slow(name: &'static str, takes: Duration, world: &World) -> Runnable {
    let (clock, record): (_, Record) = (world.clock.clone(), world.record.clone());
    Runnable::new(name, move |cancelled| async move {
        cancelled.cancelled().await;
        clock.sleep(takes).await;
        record.add(format!("{name} ends"));
        Ok::<_, std::io::Error>(())
    })
}

#[test]
fn a_stop_waits_until_everything_has_ended() {
    World::run(1, |world| async move {
        world.manager().stop().await; // Not started: it returns.
        let manager = world.manager();
        let clock = world.clock.clone();
        let slow = Runnable::new("slow", move |cancelled| async move {
            cancelled.cancelled().await;
            clock.sleep(3 * SECOND).await;
            Ok::<_, std::io::Error>(())
        });
        manager.add(slow).unwrap();
        let run = world.start(&manager);
        manager.wait_ready().await.unwrap();
        let before = world.clock.now();
        manager.stop().await;
        assert!(world.clock.now().duration_since(before) >= 3 * SECOND);
        run.await.unwrap().unwrap();
        manager.stop().await; // It has stopped: it returns.

        let manager = world.manager();
        world.clock.timeout(SECOND, manager.run()).await.unwrap_err();
        manager.stop().await; // The future of `run` was dropped.
    });
}
