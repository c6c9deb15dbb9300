//! Tests of single properties of the indexer, and of its readers during writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use bowline_machinery::{LabelSelector, ObjectKey};
use k8s_openapi::api::core::v1::ConfigMap;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::{Change, IndexError, Indexer, NAMESPACE_INDEX};

fn object(namespace: &str, name: &str, app: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
    object.metadata.name = Some(name.to_owned());
    object.metadata.labels = Some([("app".to_owned(), app.to_owned())].into());
    object
}

fn app(object: &ConfigMap) -> Vec<String> {
    object.metadata.labels.iter().filter_map(|labels| labels.get("app").cloned()).collect()
}

fn names(objects: &[Arc<ConfigMap>]) -> Vec<String> {
    objects.iter().map(|object| object.metadata.name.clone().unwrap_or_default()).collect()
}

#[test]
fn a_late_index_has_the_existing_objects() {
    let indexer = Indexer::new();
    indexer.add(object("a", "x", "web"));
    indexer.add_index("app", app).unwrap();
    indexer.add(object("a", "w", "web"));
    assert_eq!(names(&indexer.by_index("app", "web").unwrap()), ["w", "x"]);
    assert_eq!(indexer.indexes(), ["app", "namespace"]);
}

#[test]
fn prefetching_leaves_everything_as_it_is() {
    let indexer = Indexer::new();
    indexer.prefetch([&ObjectKey::new("a", "x")]);
    indexer.add(object("a", "x", "web"));
    indexer.add(object("", "x", "web"));
    let before = indexer.get(&ObjectKey::new("a", "x")).unwrap();
    let keys = [("a", "x"), ("", "x"), ("a", "x"), ("b", "x")]
        .map(|(namespace, name)| ObjectKey::new(namespace, name));
    indexer.prefetch(&keys);
    indexer.prefetch([]);
    let after = indexer.get(&keys[0]).unwrap();
    assert!(Arc::ptr_eq(&before, &after));
    assert_eq!(Arc::strong_count(&after), 3, "the indexer, and the two here");
    assert!(indexer.get(&keys[3]).is_none());
}

#[test]
fn changes_make_another_indexer_and_leave_the_first_as_it_is() {
    let indexer = Indexer::new();
    indexer.add_index("app", app).unwrap();
    for name in ["x", "y"] {
        indexer.add(object("a", name, "web"));
    }
    let key = |name| ObjectKey::new("a", name);
    let changes = [
        (key("w"), Some(Arc::new(object("a", "w", "web")))),
        (key("x"), Some(Arc::new(object("a", "x", "db")))),
        (key("y"), None),
        (key("z"), None),
    ];
    let changed = indexer.with_changes(changes);
    assert_eq!(names(&changed.list()), ["w", "x"]);
    assert_eq!(names(&changed.by_index("app", "web").unwrap()), ["w"]);
    assert_eq!(names(&changed.by_index("app", "db").unwrap()), ["x"]);
    assert_eq!(names(&indexer.by_index("app", "web").unwrap()), ["x", "y"]);
}

#[test]
fn a_taken_name_is_an_error_and_the_index_stays() {
    let indexer = Indexer::new();
    indexer.add(object("a", "x", "web"));
    indexer.add_index("app", app).unwrap();
    let error = indexer.add_index("app", |_| Vec::new()).unwrap_err();
    assert_eq!(error, IndexError::Taken { name: "app".to_owned() });
    assert_eq!(error.to_string(), "index \"app\" exists already: choose another name");
    assert_eq!(indexer.index_values("app").unwrap(), ["web"]);
    assert!(indexer.add_index(NAMESPACE_INDEX, app).is_err());
}

#[test]
fn an_unknown_index_is_an_error_that_lists_the_known_ones() {
    let indexer = Indexer::<ConfigMap>::new();
    indexer.add_index("app", app).unwrap();
    let error = indexer.by_index("node", "x").unwrap_err();
    assert_eq!(
        error.to_string(),
        "index \"node\" does not exist: add it with `InformerCache::add_index`, or use one of app, namespace"
    );
    assert_eq!(indexer.index_keys("node", "x").unwrap_err(), error);
    assert_eq!(indexer.index_values("node").unwrap_err(), error);
}

#[test]
fn a_value_without_objects_is_gone() {
    let indexer = Indexer::new();
    indexer.add_index("app", app).unwrap();
    indexer.add(object("a", "x", "web"));
    indexer.update(object("a", "x", "db"));
    assert_eq!(indexer.index_values("app").unwrap(), ["db"]);
    indexer.delete(&ObjectKey::new("a", "x"));
    assert_eq!(indexer.index_values("app").unwrap(), [""; 0]);
    assert_eq!(indexer.index_values(NAMESPACE_INDEX).unwrap(), [""; 0]);
}

#[test]
fn cluster_scoped_objects_have_no_value_in_the_index_by_namespace() {
    let indexer = Indexer::new();
    indexer.add(object("", "x", "web"));
    indexer.add(object("a", "y", "web"));
    assert_eq!(indexer.index_values(NAMESPACE_INDEX).unwrap(), ["a"]);
    assert_eq!(indexer.by_index(NAMESPACE_INDEX, "").unwrap().len(), 0);
    assert_eq!(names(&indexer.list_in("")), ["x"]);
    assert_eq!(names(&indexer.list_matching(Some(""), &LabelSelector::everything())), ["x"]);
    assert!(indexer.list_matching(None, &LabelSelector::nothing()).is_empty());
}

#[test]
fn an_index_function_that_panics_costs_only_its_value() {
    let indexer = Indexer::new();
    let is_broken = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&is_broken);
    let function = move |object: &ConfigMap| {
        assert!(!seen.load(Ordering::Relaxed), "an index function that panics, on purpose");
        app(object)
    };
    indexer.add_index("app", function).unwrap();
    indexer.add(object("a", "x", "web"));
    is_broken.store(true, Ordering::Relaxed);
    indexer.add(object("a", "y", "web"));
    assert_eq!(names(&indexer.list_in("a")), ["x", "y"]);
    is_broken.store(false, Ordering::Relaxed);
    assert_eq!(names(&indexer.by_index("app", "web").unwrap()), ["x"]);
    indexer.add(object("a", "z", "web"));
    assert_eq!(names(&indexer.by_index("app", "web").unwrap()), ["x", "z"]);
    indexer.add_index("other", app).unwrap();
    assert_eq!(names(&indexer.by_index("other", "web").unwrap()), ["x", "y", "z"]);
}

#[test]
fn a_batch_whose_iterator_panics_changes_nothing_and_blocks_no_writer() {
    let indexer = Arc::new(Indexer::new());
    let writer = Arc::clone(&indexer);
    let batch = (0..3).map(|number| {
        assert!(number < 2, "an iterator that panics, on purpose");
        Change::Put(ObjectKey::cluster_scoped("x"), Arc::new(object("", "x", "web")))
    });
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| writer.apply(batch)));
    assert!(result.is_err());
    assert!(indexer.is_empty());
    indexer.add(object("", "y", "web"));
    assert_eq!(indexer.len(), 1);
}

#[test]
fn an_object_is_dropped_when_the_last_snapshot_with_it_is() {
    let indexer = Indexer::new();
    indexer.add_index("app", app).unwrap();
    indexer.add(object("a", "x", "web"));
    let snapshot = indexer.snapshot();
    let old = Arc::downgrade(&indexer.update(object("a", "x", "web")).unwrap());
    assert!(old.upgrade().is_some());
    drop(snapshot);
    assert!(old.upgrade().is_none());
}

#[test]
fn an_object_that_keeps_its_values_is_found_in_its_new_state() {
    let indexer = Indexer::new();
    indexer.add_index("app", app).unwrap();
    indexer.add(object("a", "x", "web"));
    let mut next = object("a", "x", "web");
    next.metadata.resource_version = Some("2".to_owned());
    indexer.update(next);
    let found = indexer.by_index("app", "web").unwrap();
    assert_eq!(found[0].metadata.resource_version.as_deref(), Some("2"));
}

/// Each batch moves all objects to the next value, so a reader with two values has seen half a batch.
#[test]
#[expect(clippy::disallowed_methods, reason = "readers and writers meet on threads")]
fn readers_see_only_what_was_published() {
    const OBJECTS: usize = 50;
    let indexer = Arc::new(Indexer::<ConfigMap>::new());
    indexer.add_index("app", app).unwrap();
    let batch = |round: usize| {
        (0..OBJECTS).map(move |number| {
            let object = object("a", &format!("n{number}"), &round.to_string());
            Change::Put(ObjectKey::new("a", &format!("n{number}")), Arc::new(object))
        })
    };
    indexer.apply(batch(0));
    let is_over = Arc::new(AtomicBool::new(false));
    let reads = Arc::new(AtomicUsize::new(0));
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (indexer, is_over, reads) = (Arc::clone(&indexer), Arc::clone(&is_over), Arc::clone(&reads));
            thread::spawn(move || {
                let mut latest = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let apps: Vec<_> = indexer.list().iter().flat_map(|object| app(object)).collect();
                    assert_eq!(apps.len(), OBJECTS);
                    assert!(apps.iter().all(|app| *app == apps[0]), "a list of several moments: {apps:?}");
                    let snapshot = indexer.snapshot();
                    let values = snapshot.index_values("app").unwrap();
                    assert_eq!(values.len(), 1, "an index of several moments: {values:?}");
                    assert_eq!(snapshot.by_index("app", &values[0]).unwrap().len(), OBJECTS);
                    let round: usize = values[0].parse().unwrap();
                    assert!(round >= latest, "a state from before the last that was read");
                    latest = round;
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let mut round = 0;
    while round < 200 || reads.load(Ordering::Relaxed) < 200 {
        round += 1;
        indexer.apply(batch(round));
        if readers.iter().any(thread::JoinHandle::is_finished) {
            break;
        }
    }
    is_over.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.join().unwrap();
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "writers meet on threads")]
fn a_writer_waits_for_the_one_before_it_and_nothing_is_lost() {
    let indexer = Arc::new(Indexer::<ConfigMap>::new());
    let has_begun = Arc::new(AtomicBool::new(false));
    let mut second = None;
    let batch = ["w", "x"].into_iter().map(|name| {
        if name == "x" {
            let (indexer, begins) = (Arc::clone(&indexer), Arc::clone(&has_begun));
            let writer = thread::spawn(move || {
                begins.store(true, Ordering::Relaxed);
                indexer.add(object("", "y", "web"));
            });
            // The other writer gets every chance to interfere in the middle of the batch.
            let mut chances = 0;
            while chances < 1000 && !writer.is_finished() {
                chances += usize::from(has_begun.load(Ordering::Relaxed));
                thread::yield_now();
            }
            second = Some(writer);
        }
        Change::Put(ObjectKey::cluster_scoped(name), Arc::new(object("", name, "web")))
    });
    indexer.apply(batch);
    second.unwrap().join().unwrap();
    assert_eq!(names(&indexer.list()), ["w", "x", "y"]);
}

/// Counts the errors in the log.
struct Errors(Arc<AtomicUsize>);

impl Subscriber for Errors {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        if *event.metadata().level() == Level::ERROR {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn panics_of_index_functions_are_logged_once_for_each_index() {
    let errors = Arc::new(AtomicUsize::new(0));
    tracing::subscriber::with_default(Errors(Arc::clone(&errors)), || {
        let indexer = Indexer::new();
        for name in ["one", "two"] {
            indexer.add_index(name, |_| panic!("an index function that panics, on purpose")).unwrap();
        }
        for name in ["x", "y"] {
            indexer.add(object("a", name, "web"));
        }
    });
    assert_eq!(errors.load(Ordering::Relaxed), 2);
}

#[test]
fn another_indexer_with_other_objects_has_the_same_indexes() {
    let indexer = Indexer::new();
    indexer.add_index("key", |object| vec![crate::object_key(object).to_string()]).unwrap();
    indexer.add(object("a", "x", "web"));
    let other = indexer.with_objects(vec![Arc::new(object("b", "y", "web"))]);
    assert_eq!(other.by_index("key", "b/y").unwrap().len(), 1);
    assert!(other.by_index("key", "a/x").unwrap().is_empty());
    assert_eq!(indexer.by_index("key", "a/x").unwrap().len(), 1);
}
