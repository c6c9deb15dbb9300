//! Predicates that look at nothing but metadata, and so are predicates of every kind.

use std::collections::BTreeMap;

use bowline_machinery::{LabelSelector, LabelSelectorError};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Predicate;
use crate::Change;

/// From [`generation_changed`].
#[derive(Clone, Copy, Debug)]
pub struct Generation;

/// From [`resource_version_changed`].
#[derive(Clone, Copy, Debug)]
pub struct ResourceVersion;

/// From [`labels_changed`].
#[derive(Clone, Copy, Debug)]
pub struct Labels;

/// From [`annotations_changed`].
#[derive(Clone, Copy, Debug)]
pub struct Annotations;

/// From [`selected`].
#[derive(Clone, Debug)]
pub struct Selector(LabelSelector);

/// Of updates, only those after which `metadata.generation` is another: the server counts it up when the spec changes, and
/// when a deletion is asked for, but not for the status, labels or annotations (of a Deployment, for annotations as well).
///
/// Objects of a kind that has no generation, as config maps and secrets, are accepted whenever they changed at all.
#[must_use]
pub fn generation_changed() -> Generation {
    Generation
}

/// Of updates, only those after which the object is another version: not a resync.
#[must_use]
pub fn resource_version_changed() -> ResourceVersion {
    ResourceVersion
}

/// Of updates, only those that changed labels.
#[must_use]
pub fn labels_changed() -> Labels {
    Labels
}

/// Of updates, only those that changed annotations.
#[must_use]
pub fn annotations_changed() -> Annotations {
    Annotations
}

/// Only objects whose labels a selector picks, as in `kubectl -l`. An object that was picked and is no more is shown once
/// more, when it leaves.
///
/// # Errors
/// If the text is no label selector.
pub fn selected(selector: &str) -> Result<Selector, LabelSelectorError> {
    Ok(Selector(LabelSelector::parse(selector)?))
}

/// Whether texts are others than they were; what is not an update counts as such. None are as good as empty ones.
fn differ<K: ?Sized>(
    change: &Change<'_, K>,
    texts: fn(&ObjectMeta) -> Option<&BTreeMap<String, String>>,
) -> bool {
    let texts = |meta| texts(meta).filter(|texts| !texts.is_empty());
    match (change.old_meta(), change.new_meta()) {
        (Some(old), Some(new)) => texts(old) != texts(new),
        _ => true,
    }
}

impl<K: ?Sized> Predicate<K> for Generation {
    fn accepts(&self, change: &Change<'_, K>) -> bool {
        match (change.old_meta(), change.new_meta()) {
            (Some(old), Some(new)) if old.generation.is_none() && new.generation.is_none() => {
                ResourceVersion.accepts(change)
            }
            (Some(old), Some(new)) => old.generation != new.generation,
            _ => true,
        }
    }
}

impl<K: ?Sized> Predicate<K> for ResourceVersion {
    fn accepts(&self, change: &Change<'_, K>) -> bool {
        !change.is_resync()
    }
}

impl<K: ?Sized> Predicate<K> for Labels {
    fn accepts(&self, change: &Change<'_, K>) -> bool {
        differ(change, |meta| meta.labels.as_ref())
    }
}

impl<K: ?Sized> Predicate<K> for Annotations {
    fn accepts(&self, change: &Change<'_, K>) -> bool {
        differ(change, |meta| meta.annotations.as_ref())
    }
}

impl<K: ?Sized> Predicate<K> for Selector {
    fn accepts(&self, change: &Change<'_, K>) -> bool {
        let picks = |meta: Option<&ObjectMeta>| {
            meta.is_some_and(|meta| match &meta.labels {
                Some(labels) => self.0.matches(labels),
                None => self.0.matches(&BTreeMap::new()),
            })
        };
        picks(change.new_meta()) || picks(change.old_meta())
    }
}
