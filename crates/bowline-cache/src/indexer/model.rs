//! A simple model of an indexer: an ordered map, with the index functions applied to all of it for each read. proptest
//! compares the indexer with it, with good and with bad hashes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bowline_machinery::{LabelSelector, ObjectKey};
use k8s_openapi::api::core::v1::ConfigMap;
use proptest::collection::vec;
use proptest::prelude::*;

use super::entry::Hashing;
use super::{Change, Indexer, Snapshot};
use crate::object_key;

const NAMESPACES: [&str; 3] = ["", "a", "b"];
const NAMES: usize = 24;
const VALUES: [&str; 4] = ["v0", "v1", "v2", "v3"];
const INDEXES: [&str; 2] = ["first", "second"];

/// A step for the indexer and its model.
#[derive(Clone, Debug)]
enum Step {
    Put(Given),
    Delete(ObjectKey),
    Batch(Vec<(Given, bool)>),
    Replace(Vec<Given>),
    /// Deletes all objects except those at these positions.
    DeleteAllBut(Vec<usize>),
    AddIndex(usize),
    Version(u8),
    Snapshot,
}

/// An object. Its values in each index are given by the set bits.
#[derive(Clone, Debug)]
struct Given {
    key: ObjectKey,
    values: [u8; 2],
    stamp: u16,
}

#[derive(Clone, Default)]
struct Model {
    objects: BTreeMap<ObjectKey, Given>,
    indexes: BTreeSet<usize>,
    version: Option<String>,
}

impl Given {
    fn object(&self) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(self.key.name().to_owned());
        object.metadata.namespace = self.key.namespace().map(str::to_owned);
        object.metadata.resource_version = Some(self.stamp.to_string());
        // Sometimes without labels: no map is not an empty map.
        if self.values[0] != 0 {
            object.metadata.labels = Some(BTreeMap::from([("first".to_owned(), self.values[0].to_string())]));
        }
        let bits = |index: usize| (INDEXES[index].to_owned(), self.values[index].to_string());
        object.data = Some(BTreeMap::from([bits(0), bits(1)]));
        object
    }

    fn has(&self, index: usize, value: usize) -> bool {
        self.values[index] >> value & 1 == 1
    }
}

/// The index function; returns values twice and out of order.
fn values(index: usize, object: &ConfigMap) -> Vec<String> {
    let bits: u8 = object.data.as_ref().map_or(0, |data| data[INDEXES[index]].parse().unwrap_or_default());
    let once =
        (0..VALUES.len()).rev().filter(|value| bits >> value & 1 == 1).map(|value| VALUES[value].to_owned());
    once.clone().chain(once).collect()
}

fn key() -> impl Strategy<Value = ObjectKey> {
    let parts = (0..NAMESPACES.len(), 0..NAMES);
    parts.prop_map(|(namespace, name)| ObjectKey::new(NAMESPACES[namespace], &format!("n{name}")))
}

fn given() -> impl Strategy<Value = Given> {
    let values = prop_oneof![Just([0, 0]), Just([1, 1]), [0..16_u8, 0..16_u8]];
    (key(), values, any::<u16>()).prop_map(|(key, values, stamp)| Given { key, values, stamp })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => given().prop_map(Step::Put),
        4 => key().prop_map(Step::Delete),
        2 => vec((given(), any::<bool>()), 0..100).prop_map(Step::Batch),
        2 => vec((given(), Just(true)), 0..100).prop_map(Step::Batch),
        1 => vec(given(), 0..60).prop_map(Step::Replace),
        2 => vec(0..20_usize, 0..4).prop_map(Step::DeleteAllBut),
        1 => (0..INDEXES.len()).prop_map(Step::AddIndex),
        1 => any::<u8>().prop_map(Step::Version),
        2 => Just(Step::Snapshot),
    ]
}

impl Model {
    fn put(&mut self, given: Given) -> Option<Given> {
        self.objects.insert(given.key.clone(), given)
    }

    /// Compares all reads.
    fn check(&self, snapshot: &Snapshot<ConfigMap>) {
        let all: Vec<_> = self.objects.values().collect();
        check_list(&all, &snapshot.list());
        assert_eq!(snapshot.keys(), self.objects.keys().cloned().collect::<Vec<_>>());
        assert_eq!((snapshot.len(), snapshot.is_empty()), (all.len(), all.is_empty()));
        assert_eq!(snapshot.resource_version(), self.version);
        for namespace in NAMESPACES {
            for name in 0..NAMES {
                let key = ObjectKey::new(namespace, &format!("n{name}"));
                let expected = self.objects.get(&key).map(Given::object);
                assert_eq!(snapshot.get(&key).as_deref(), expected.as_ref());
                assert_eq!(snapshot.get_in(namespace, key.name()).as_deref(), expected.as_ref());
                let all = snapshot.get_all_in(&[(namespace, key.name()), ("nobody", "here")]);
                assert_eq!(
                    all.iter().map(|found| found.map(|object| &**object)).collect::<Vec<_>>(),
                    [expected.as_ref(), None]
                );
            }
            let inside = |given: &&&Given| given.key.namespace().unwrap_or_default() == namespace;
            let expected: Vec<_> = all.iter().filter(inside).copied().collect();
            check_list(&expected, &snapshot.list_in(namespace));
            let indexed = snapshot.by_index("namespace", namespace).unwrap();
            check_list(if namespace.is_empty() { &[] } else { &expected }, &indexed);
            let selector = LabelSelector::parse("first notin (1,2)").unwrap();
            let expected: Vec<_> =
                expected.into_iter().filter(|given| !matches!(given.values[0], 1 | 2)).collect();
            check_list(&expected, &snapshot.list_matching(Some(namespace), &selector));
        }
        let selector = LabelSelector::parse("first in (1,2)").unwrap();
        let expected: Vec<_> = all.iter().filter(|given| matches!(given.values[0], 1 | 2)).copied().collect();
        check_list(&expected, &snapshot.list_matching(None, &selector));
        let namespaces: BTreeSet<_> = self.objects.keys().filter_map(ObjectKey::namespace).collect();
        assert_eq!(snapshot.index_values("namespace").unwrap(), namespaces.into_iter().collect::<Vec<_>>());
        for (index, name) in INDEXES.iter().enumerate() {
            if !self.indexes.contains(&index) {
                assert!(snapshot.index_values(name).is_err());
                continue;
            }
            let mut known = Vec::new();
            for (value, text) in VALUES.iter().enumerate() {
                let expected: Vec<_> = all.iter().filter(|given| given.has(index, value)).copied().collect();
                check_list(&expected, &snapshot.by_index(name, text).unwrap());
                let keys: Vec<_> = expected.iter().map(|given| given.key.clone()).collect();
                assert_eq!(snapshot.index_keys(name, text).unwrap(), keys);
                known.extend((!expected.is_empty()).then_some(*text));
            }
            assert_eq!(snapshot.index_values(name).unwrap(), known);
        }
    }
}

fn check_list(expected: &[&Given], found: &[Arc<ConfigMap>]) {
    assert_eq!(
        found.iter().map(|object| (**object).clone()).collect::<Vec<_>>(),
        expected.iter().map(|given| given.object()).collect::<Vec<_>>()
    );
}

fn check_previous(expected: Option<Given>, found: Option<&Arc<ConfigMap>>) {
    assert_eq!(found.map(|found| &**found), expected.map(|given| given.object()).as_ref());
}

fn run(steps: Vec<Step>, kept: u64) {
    let indexer = Indexer::<ConfigMap>::with_hashing(Hashing::keeping(kept));
    let mut model = Model::default();
    let mut earlier = Vec::new();
    for step in steps {
        match step {
            Step::Put(given) => {
                let previous = indexer.add(given.object());
                check_previous(model.put(given), previous.as_ref());
            }
            Step::Delete(key) => check_previous(model.objects.remove(&key), indexer.delete(&key).as_ref()),
            Step::Batch(changes) => {
                let change = |(given, is_put): &(Given, bool)| {
                    if *is_put {
                        Change::Put(given.key.clone(), Arc::new(given.object()))
                    } else {
                        Change::Remove(given.key.clone())
                    }
                };
                let previous = indexer.apply(changes.iter().map(change));
                assert_eq!(previous.len(), changes.len());
                for ((given, is_put), previous) in changes.into_iter().zip(previous) {
                    let key = given.key.clone();
                    let expected = if is_put { model.put(given) } else { model.objects.remove(&key) };
                    check_previous(expected, previous.as_ref());
                }
            }
            Step::Replace(all) => {
                indexer.replace(all.iter().map(Given::object).collect());
                model.objects = all.into_iter().map(|given| (given.key.clone(), given)).collect();
            }
            Step::DeleteAllBut(spared) => {
                let all = model.objects.keys().cloned().enumerate();
                let keys: Vec<_> =
                    all.filter(|(number, _)| !spared.contains(number)).map(|(_, key)| key).collect();
                let previous = indexer.apply(keys.iter().cloned().map(Change::Remove));
                for (key, previous) in keys.iter().zip(previous) {
                    check_previous(model.objects.remove(key), previous.as_ref());
                }
            }
            Step::AddIndex(index) => {
                let added = indexer.add_index(INDEXES[index], move |object| values(index, object));
                assert_eq!(added.is_ok(), model.indexes.insert(index));
            }
            Step::Version(version) => {
                model.version = (version > 0).then(|| version.to_string());
                indexer.set_resource_version(model.version.clone());
            }
            Step::Snapshot => earlier.push((indexer.snapshot(), model.clone())),
        }
        model.check(&indexer.snapshot());
        assert!(indexer.list().iter().all(|object| indexer.get(&object_key(&**object)).is_some()));
    }
    for (snapshot, model) in earlier {
        model.check(&snapshot);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_indexer_is_a_map_with_functions_applied_to_it(steps in vec(step(), 1..30)) {
        run(steps, u64::MAX);
    }

    #[test]
    fn keys_and_values_that_share_their_hashes_are_told_apart(
        steps in vec(step(), 1..25),
        kept in prop_oneof![Just(0), Just(0b111), Just(0b11 << 62), Just(0b1 << 63 | 0b1111)],
    ) {
        run(steps, kept);
    }
}
