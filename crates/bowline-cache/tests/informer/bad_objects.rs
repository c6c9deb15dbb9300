//! Undecodable objects: set aside, counted, and without effect on others.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_cache::{Kind, Namespaces, ObjectKey, SharedInformer};
use futures::channel::mpsc::{UnboundedSender, unbounded};
use k8s_openapi::api::core::v1::ConfigMap;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Metadata, Subscriber};

use crate::script::{Answer, Lab, Script, added, error, initial_end, line, list, object, pairs, raw, values};
use crate::world::{Witness, World, value};

/// A source whose first watch is driven by the test. Later watches give the other answers.
fn live(lab: &Lab, mut then: Vec<Answer>) -> (UnboundedSender<String>, Script) {
    let (sender, receiver) = unbounded();
    let mut receiver = Some(receiver);
    then.reverse();
    let script = lab.script(move |_, _| match receiver.take() {
        Some(receiver) => Answer::Live(receiver),
        None => then.pop().unwrap_or_else(|| Answer::Open(Vec::new())),
    });
    (sender, script)
}

/// A config map with a number as data.
fn bad(name: &str, version: u64) -> String {
    raw(name, 1, version, "5")
}

fn aside(informer: &SharedInformer<ConfigMap>) -> Vec<String> {
    informer.undecodable().iter().map(|aside| format!("{}@{}", aside.key, aside.resource_version)).collect()
}

#[test]
fn an_undecodable_object_is_set_aside_and_the_others_are_delivered() {
    Lab::run(1, |lab| async move {
        let (sender, script) = live(&lab, Vec::new());
        let informer = lab.informer(&script);
        let (witness, registration) = Witness::of(&informer);
        informer.start();
        let all =
            [added("a", 1, 1, "1"), line("ADDED", &bad("bad", 2)), added("b", 1, 3, "1"), initial_end(3)];
        sender.unbounded_send(all.concat()).unwrap();
        assert!(registration.wait_synced().await);
        assert_eq!(witness.lines(), ["+a=1*", "+b=1*"]);
        assert_eq!(aside(&informer), ["default/bad@2"]);
        assert!(informer.undecodable()[0].error.contains("expected a map"), "{:?}", informer.undecodable());
        assert_eq!((informer.stats().undecodable, informer.stats().undecodable_total), (1, 1));
        assert_eq!(script.asked(), ["stream"], "it is no reason to ask again");

        // The object becomes decodable.
        sender.unbounded_send(line("MODIFIED", &object("bad", 1, 4, "1"))).unwrap();
        lab.until("the event arrives", || witness.count() == 3).await;
        assert_eq!(witness.lines()[2], "+bad=1");
        assert_eq!((aside(&informer), informer.stats().undecodable_total), (vec![], 1));

        // It becomes undecodable again: the last decodable version stays.
        sender.unbounded_send(line("MODIFIED", &bad("bad", 5)) + &added("c", 1, 6, "1")).unwrap();
        lab.until("the other handler gets the event", || witness.count() == 4).await;
        assert_eq!(values(&informer)["bad"], "1");
        assert_eq!(aside(&informer), ["default/bad@5"]);

        // A deletion is delivered, although its final state is undecodable.
        sender.unbounded_send(line("DELETED", &bad("bad", 7))).unwrap();
        lab.until("the event arrives", || witness.count() == 5).await;
        assert_eq!(witness.lines()[4], "-bad=1?");
        assert_eq!(aside(&informer), [""; 0]);
        assert_eq!(informer.stats().failures, 0);
    });
}

#[test]
fn the_deletion_of_an_undecodable_unknown_object_is_no_event() {
    Lab::run(2, |lab| async move {
        let (sender, script) = live(&lab, Vec::new());
        let informer = lab.informer(&script);
        let (witness, _registration) = Witness::of(&informer);
        informer.start();
        sender.unbounded_send(line("ADDED", &bad("bad", 2)) + &initial_end(3)).unwrap();
        informer.wait_synced().await;
        sender.unbounded_send(line("DELETED", &bad("bad", 4)) + &added("a", 1, 5, "1")).unwrap();
        lab.until("the other handler gets the event", || witness.count() == 1).await;
        assert_eq!((witness.lines(), aside(&informer)), (vec!["+a=1".to_owned()], vec![]));
    });
}

#[test]
fn an_undecodable_object_does_not_hold_back_the_version() {
    Lab::run(21, |lab| async move {
        let (sender, script) = live(&lab, Vec::new());
        let informer = lab.informer(&script);
        informer.start();
        sender.unbounded_send(added("a", 1, 1, "1") + &initial_end(3)).unwrap();
        informer.wait_synced().await;
        let key = ObjectKey::new("default", "bad");
        let frames = [
            line("ADDED", &bad("bad", 4)),
            line("DELETED", &bad("bad", 5)),
            line("ADDED", &bad("bad", 6)),
            // The deletion of an unknown object is no event.
            line("DELETED", &object("bad", 1, 7, "1")),
        ];
        for (frame, version) in frames.into_iter().zip(4..) {
            sender.unbounded_send(frame).unwrap();
            lab.until("it is reached", || informer.has_reached(&key, version)).await;
            assert!(!informer.has_reached(&key, version + 1));
            assert_eq!(informer.last_sync_resource_version(), Some(version.to_string()));
        }
        // A repeated old event does not take the version back.
        sender.unbounded_send(added("a", 1, 1, "1") + &added("b", 1, 8, "1")).unwrap();
        lab.until("it is reached", || informer.has_reached(&key, 8)).await;
        sender.unbounded_send(added("a", 1, 1, "1")).unwrap();
        lab.clock.sleep(Duration::from_secs(1)).await;
        assert!(informer.has_reached(&key, 8));
    });
}

#[test]
fn a_list_does_not_delete_undecodable_objects() {
    Lab::run(3, |lab| async move {
        let again = [line("ADDED", &bad("kept", 5)), initial_end(9)].concat();
        let (sender, script) = live(&lab, vec![Answer::Open(vec![again])]);
        let informer = lab.informer(&script);
        let (witness, registration) = Witness::of(&informer);
        informer.start();
        let all = [added("gone", 1, 1, "1"), added("kept", 1, 2, "1"), initial_end(3)];
        sender.unbounded_send(all.concat()).unwrap();
        assert!(registration.wait_synced().await);
        sender.unbounded_send(error(410, "Expired")).unwrap();
        lab.until("the relist is complete", || informer.stats().lists == 2).await;
        lab.until("the event arrives", || witness.count() == 3).await;
        assert_eq!(witness.lines()[2], "-gone=1?");
        assert_eq!(values(&informer), pairs([("kept", "1")]));
        assert_eq!(aside(&informer), ["default/kept@5"]);
    });
}

#[test]
fn a_list_forgets_undecodable_objects_that_were_deleted() {
    Lab::run(4, |lab| async move {
        let again = [added("a", 1, 5, "1"), initial_end(9)].concat();
        let (sender, script) = live(&lab, vec![Answer::Open(vec![again])]);
        let informer = lab.informer(&script);
        informer.start();
        sender.unbounded_send(line("ADDED", &bad("bad", 2)) + &initial_end(3)).unwrap();
        informer.wait_synced().await;
        assert_eq!(aside(&informer).len(), 1);
        sender.unbounded_send(error(410, "Expired")).unwrap();
        lab.until("the relist is complete", || informer.indexer().len() == 1).await;
        assert_eq!(aside(&informer), [""; 0]);
    });
}

#[test]
fn an_object_that_a_reader_cannot_decode_is_set_aside_until_it_changes() {
    Lab::run(8, |lab| async move {
        let again = Answer::Open(vec![
            [added("a", 1, 1, "1"), added("b", 1, 5, "2"), added("c", 1, 3, "1"), initial_end(9)].concat(),
        ]);
        let (sender, script) = live(&lab, vec![again]);
        let informer = lab.informer(&script);
        informer.start();
        let all =
            ["a", "b", "c", "d"].into_iter().zip(1..).map(|(name, version)| added(name, 1, version, "1"));
        sender.unbounded_send(all.chain([initial_end(4)]).collect::<String>()).unwrap();
        informer.wait_synced().await;
        let found: Vec<_> = ["a", "b", "d", "c"]
            .map(|name| informer.indexer().get_in("default", name).expect("it is there"))
            .into();
        // Repeated reads count once.
        for object in found.iter().take(3).chain(found.iter().take(3)) {
            informer.mark_undecodable(object, "it is not as it should be");
        }
        assert_eq!(aside(&informer), ["default/a@1", "default/b@2", "default/d@4"]);
        assert_eq!(informer.stats().undecodable_total, 3);
        assert_eq!(informer.undecodable()[0].error, "it is not as it should be");
        // A relist with a new version of one of them.
        sender.unbounded_send(error(410, "Expired")).unwrap();
        lab.until("the relist is complete", || values(&informer)["b"] == "2").await;
        assert_eq!(aside(&informer), ["default/a@1"]);
        // A late report about an old version is ignored.
        informer.mark_undecodable(&found[1], "it was not as it should be");
        informer.indexer().delete(&ObjectKey::new("default", "c"));
        informer.mark_undecodable(&found[3], "it was not as it should be");
        assert_eq!(aside(&informer), ["default/a@1"]);
    });
}

#[test]
fn an_undecodable_object_right_after_a_list_stays_set_aside() {
    Lab::run(5, |lab| async move {
        let (sender, script) = live(&lab, Vec::new());
        let informer = lab.informer(&script);
        let (witness, _registration) = Witness::of(&informer);
        informer.start();
        // All in one chunk: it is decoded before the list is applied.
        let all =
            [added("a", 1, 1, "1"), initial_end(1), line("ADDED", &bad("bad", 2)), added("b", 1, 3, "1")];
        sender.unbounded_send(all.concat()).unwrap();
        lab.until("all events arrive", || witness.count() == 2).await;
        assert_eq!(aside(&informer), ["default/bad@2"]);
    });
}

#[test]
fn an_object_without_a_name_is_counted_and_skipped() {
    Lab::run(6, |lab| async move {
        let items =
            [object("a", 1, 1, "1"), r#"{"metadata":{"labels":{}}}"#.to_owned(), object("b", 1, 2, "1")];
        let script = lab.script(move |number, _| match number {
            0 => Answer::Ended(vec![list(5, &items)]),
            _ => Answer::Open(Vec::new()),
        });
        let informer = lab.builder().streaming_lists(false).source(Namespaces::All, script).build().unwrap();
        informer.start();
        informer.wait_for_sync(Duration::from_secs(1)).await.unwrap();
        assert_eq!(values(&informer), pairs([("a", "1"), ("b", "1")]));
        assert_eq!(informer.stats().undecodable_total, 1);
    });
}

#[test]
fn a_transform_that_panics_sets_the_object_aside() {
    World::run(7, |world| async move {
        for (name, value) in [("a", "good"), ("b", "bad"), ("c", "good")] {
            world.create(name, value).await;
        }
        let runs = Arc::new(AtomicUsize::new(0));
        let count = runs.clone();
        let informer = world.informer_with(|builder| {
            builder.transform(move |map: &mut ConfigMap| {
                count.fetch_add(1, Ordering::Relaxed);
                assert!(value(map) != "bad", "this panic is part of the test");
                map.metadata.labels = Some([("transformed".to_owned(), "yes".to_owned())].into());
            })
        });
        let (witness, registration) = Witness::of(&informer);
        informer.start();
        assert!(registration.wait_synced().await);
        assert_eq!(witness.lines(), ["+a=good*", "+c=good*"]);
        assert_eq!(aside(&informer).len(), 1);
        assert!(informer.undecodable()[0].error.contains("this panic is part of the test"));
        let all = informer.indexer().list();
        assert!(all.iter().all(|map| map.metadata.labels.is_some()));
        assert_eq!(runs.load(Ordering::Relaxed), 3);
        world.update("b", "good").await;
        world.until("the event arrives", || witness.count() == 3).await;
        assert_eq!((aside(&informer), runs.load(Ordering::Relaxed)), (vec![], 4));
    });
}

/// Collects warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        struct Text(String);
        impl Visit for Text {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                use std::fmt::Write as _;
                let _ = write!(self.0, "{field}={value:?} ");
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().expect("the lock is not poisoned").push(text.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn an_undecodable_object_is_logged_once() {
    let warnings = Warnings::default();
    // With one dispatcher alone, the thread that reaches a call site first decides whether it is enabled; another test may be first.
    let _second = tracing::Dispatch::new(Warnings::default());
    let _guard = tracing::subscriber::set_default(warnings.clone());
    Lab::run(8, |lab| async move {
        let again =
            || Answer::Open(vec![line("ADDED", &bad("bad", 2)), initial_end(3), error(410, "Expired")]);
        let (sender, script) = live(&lab, vec![again(), again()]);
        let informer = lab.informer(&script);
        informer.start();
        sender
            .unbounded_send(line("ADDED", &bad("bad", 2)) + &initial_end(3) + &error(410, "Expired"))
            .unwrap();
        lab.until("the relist is complete", || informer.stats().undecodable_total == 3).await;
    });
    let warnings = warnings.0.lock().unwrap();
    let about: Vec<_> = warnings.iter().filter(|text| text.contains("default/bad")).collect();
    assert_eq!(about.len(), 1, "{about:?}");
}

#[test]
fn an_undecodable_successor_deletes_its_predecessor() {
    Lab::run(71, |lab| async move {
        let successor = raw("a", 2, 9, "5");
        let again = vec![line("ADDED", &successor), initial_end(9)];
        let first = vec![added("a", 1, 5, "1"), initial_end(5), error(410, "Expired")];
        let (script, mut then) = (vec![Answer::Open(first)], vec![Answer::Open(again)]);
        let mut answers: Vec<_> = script.into_iter().chain(then.drain(..)).rev().collect();
        let script = lab.script(move |_, _| answers.pop().unwrap_or_else(|| Answer::Open(Vec::new())));
        let informer = lab.informer(&script);
        let (witness, _registration) = Witness::of(&informer);
        informer.start();
        lab.until("the relist is complete", || informer.stats().lists == 2 && witness.count() == 2).await;
        assert_eq!(witness.lines(), ["+a=1*", "-a=1?"]);
        assert_eq!(aside(&informer), ["default/a@9"]);
    });
}

/// A type whose decoding can panic.
#[derive(Clone, Debug)]
struct Touchy(ConfigMap);

impl<'de> serde::Deserialize<'de> for Touchy {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let map = ConfigMap::deserialize(deserializer)?;
        assert_ne!(value(&map), "boom", "this panic is part of the test");
        Ok(Self(map))
    }
}

impl kube::Resource for Touchy {
    type DynamicType = ();
    type Scope = kube::core::NamespaceResourceScope;

    fn kind((): &()) -> std::borrow::Cow<'_, str> {
        "ConfigMap".into()
    }

    fn group((): &()) -> std::borrow::Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> std::borrow::Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> std::borrow::Cow<'_, str> {
        "configmaps".into()
    }

    fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
        &self.0.metadata
    }

    fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
        &mut self.0.metadata
    }
}

#[test]
fn an_object_whose_decoding_panics_is_set_aside() {
    World::run(72, |world| async move {
        world.create("a", "1").await;
        world.create("bad", "boom").await;
        let informer = SharedInformer::builder(&world.spawner(), Kind::<Touchy>::typed())
            .client(world.client.clone())
            .build()
            .expect("one source");
        informer.start();
        informer.wait_for_sync(Duration::from_secs(60)).await.expect("in sync");
        assert_eq!(informer.indexer().len(), 1);
        assert!(
            informer.undecodable()[0].error.contains("this panic is part of the test"),
            "{:?}",
            informer.undecodable()
        );
    });
}
