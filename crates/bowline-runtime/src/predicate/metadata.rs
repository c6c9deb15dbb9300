//! Predicates of metadata, which are predicates of every kind.

use std::collections::BTreeMap;

use bowline_machinery::{LabelSelector, LabelSelectorError};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Predicate;
use crate::{Change, HasMetadata};

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

/// Drops updates that do not change `metadata.generation`. The server increases it when the spec changes and when a deletion is
/// requested, but not for the status, labels or annotations (of a Deployment, for annotations as well).
///
/// Objects of a kind without a generation, such as config maps and secrets, are accepted when anything changed.
#[must_use]
pub fn generation_changed() -> Generation {
    Generation
}

/// Drops resyncs: updates that do not change the object.
#[must_use]
pub fn resource_version_changed() -> ResourceVersion {
    ResourceVersion
}

/// Drops updates that do not change the labels.
#[must_use]
pub fn labels_changed() -> Labels {
    Labels
}

/// Drops updates that do not change the annotations.
#[must_use]
pub fn annotations_changed() -> Annotations {
    Annotations
}

/// Drops changes of objects that a label selector does not match, as in `kubectl -l`. The update after which an object
/// no longer matches is accepted.
///
/// # Errors
/// When the text is not a valid label selector.
pub fn selected(selector: &str) -> Result<Selector, LabelSelectorError> {
    Ok(Selector(LabelSelector::parse(selector)?))
}

/// Whether two values differ; a change that is not an update counts as such. Missing and empty values are equal.
fn differ<K: HasMetadata + ?Sized>(
    change: &Change<'_, K>,
    texts: fn(&ObjectMeta) -> Option<&BTreeMap<String, String>>,
) -> bool {
    let texts = |meta| texts(meta).filter(|texts| !texts.is_empty());
    match (change.old_meta(), change.new_meta()) {
        (Some(old), Some(new)) => texts(old) != texts(new),
        _ => true,
    }
}

impl<K: HasMetadata + ?Sized> Predicate<K> for Generation {
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

impl<K: HasMetadata + ?Sized> Predicate<K> for ResourceVersion {
    fn accepts(&self, change: &Change<'_, K>) -> bool {
        !change.is_resync()
    }
}

impl<K: HasMetadata + ?Sized> Predicate<K> for Labels {
    fn accepts(&self, change: &Change<'_, K>) -> bool {
        differ(change, |meta| meta.labels.as_ref())
    }
}

impl<K: HasMetadata + ?Sized> Predicate<K> for Annotations {
    fn accepts(&self, change: &Change<'_, K>) -> bool {
        differ(change, |meta| meta.annotations.as_ref())
    }
}

impl<K: HasMetadata + ?Sized> Predicate<K> for Selector {
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
