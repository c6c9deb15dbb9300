//! Options of a cache and of its kinds. Owns their precedence, which is controller-runtime's.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bowline_machinery::GroupVersionKind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::id::Part;
use crate::kind::Kind;
use crate::list_watch::{ListWatchError, Selectors};
use crate::namespaces::Namespaces;
use crate::reflector::Transform;

/// Default resync period, varied by up to a tenth.
const RESYNC: Duration = Duration::from_secs(10 * 3600);

/// Selectors and settings for a kind, for a namespace or for all objects. Unset values come from the next wider scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "settings do nothing until they are given to options"]
pub struct SelectionSettings {
    labels: Option<String>,
    fields: Option<String>,
    keep_managed_fields: Option<bool>,
}

impl SelectionSettings {
    /// Settings without any value.
    pub fn new() -> Self {
        Self::default()
    }

    /// Label selector, in query syntax: `app=web,tier!=cache`. Default: all objects.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = Some(selector.into());
        self
    }

    /// Field selector, in query syntax: `spec.nodeName=node-1`. Default: all objects.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = Some(selector.into());
        self
    }

    /// Whether `metadata.managedFields` are kept. Default: no.
    pub fn keep_managed_fields(mut self, keep: bool) -> Self {
        self.keep_managed_fields = Some(keep);
        self
    }

    fn or(&self, wider: &Self) -> Self {
        Self {
            labels: self.labels.clone().or_else(|| wider.labels.clone()),
            fields: self.fields.clone().or_else(|| wider.fields.clone()),
            keep_managed_fields: self.keep_managed_fields.or(wider.keep_managed_fields),
        }
    }

    fn part(self, namespaces: Namespaces) -> Part {
        Part {
            namespaces,
            selectors: Selectors {
                labels: self.labels.unwrap_or_default(),
                fields: self.fields.unwrap_or_default(),
            },
            keep_managed_fields: self.keep_managed_fields.unwrap_or(false),
        }
    }
}

/// Cached namespaces, each with its own settings. [`ALL_OTHER_NAMESPACES`] stands for those without an entry.
pub type NamespaceSettings = BTreeMap<String, SelectionSettings>;

/// In place of a namespace: all namespaces without an entry.
pub const ALL_OTHER_NAMESPACES: &str = "";

/// Options for one kind.
#[must_use = "options do nothing until they are given to a cache"]
pub struct KindOptions<K> {
    kind: Kind<K>,
    untyped: UntypedOptions,
    transform: Option<Transform<K>>,
}

/// Options of a kind that do not depend on its representation.
#[derive(Clone, Debug, Default)]
struct UntypedOptions {
    namespaces: Option<NamespaceSettings>,
    settings: SelectionSettings,
    resync: Option<Resync>,
}

impl UntypedOptions {
    /// Merges two sets of options; the later one takes precedence.
    fn replaced_by(self, later: Self) -> Self {
        Self {
            namespaces: later.namespaces.or(self.namespaces),
            settings: later.settings.or(&self.settings),
            resync: later.resync.or(self.resync),
        }
    }
}

/// Called with the kind and the error of a failed list or watch.
pub(super) type ErrorHook = Arc<dyn Fn(&str, &ListWatchError) + Send + Sync>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resync {
    Never,
    Every(Duration),
}

impl<K> KindOptions<K> {
    /// Options of a kind, initially the cache's own.
    pub fn new(kind: Kind<K>) -> Self {
        Self { kind, untyped: UntypedOptions::default(), transform: None }
    }

    /// Cached namespaces of this kind, instead of the cache's. For a cluster-scoped kind, requesting an informer is
    /// then an error. Default: the cache's.
    pub fn namespaces<N: Into<String>>(
        mut self,
        namespaces: impl IntoIterator<Item = (N, SelectionSettings)>,
    ) -> Self {
        let namespaces = namespaces.into_iter().map(|(namespace, settings)| (namespace.into(), settings));
        self.untyped.namespaces = Some(namespaces.collect());
        self
    }

    /// Settings of this kind, for values that its namespace does not set.
    pub fn settings(mut self, settings: SelectionSettings) -> Self {
        self.untyped.settings = settings;
        self
    }

    /// Changes each object once, before it is cached. Replaces the cache's transform. Default: the cache's.
    pub fn transform(mut self, transform: impl Fn(&mut K) + Send + Sync + 'static) -> Self {
        self.transform = Some(Arc::new(transform));
        self
    }

    /// Resync period. Default: the cache's.
    pub fn resync(mut self, period: Duration) -> Self {
        self.untyped.resync = Some(Resync::Every(period));
        self
    }

    /// Disables resync for this kind.
    pub fn no_resync(mut self) -> Self {
        self.untyped.resync = Some(Resync::Never);
        self
    }
}

/// Options of a cache.
#[must_use = "options do nothing until a cache is made with them"]
pub struct CacheOptions {
    namespaces: NamespaceSettings,
    settings: SelectionSettings,
    transform: Option<Transform<ObjectMeta>>,
    resync: Resync,
    kinds: BTreeMap<String, UntypedOptions>,
    /// By kind and object type.
    transforms: BTreeMap<(String, TypeId), Box<dyn Any + Send + Sync>>,
    pub(super) on_error: Option<ErrorHook>,
    pub(super) fails_on_missing: bool,
    pub(super) sync_limit: Duration,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            namespaces: NamespaceSettings::new(),
            settings: SelectionSettings::default(),
            transform: None,
            resync: Resync::Every(RESYNC),
            kinds: BTreeMap::new(),
            transforms: BTreeMap::new(),
            on_error: None,
            fails_on_missing: false,
            sync_limit: Duration::from_secs(120),
        }
    }
}

impl CacheOptions {
    /// Options that cache all objects of each requested kind.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cached namespaces, each with its own settings. Cluster-scoped kinds are always cached whole. Default: all
    /// namespaces.
    pub fn namespaces<N: Into<String>>(
        mut self,
        namespaces: impl IntoIterator<Item = (N, SelectionSettings)>,
    ) -> Self {
        let namespaces = namespaces.into_iter().map(|(namespace, settings)| (namespace.into(), settings));
        self.namespaces = namespaces.collect();
        self
    }

    /// Settings for kinds and namespaces that do not set their own.
    pub fn settings(mut self, settings: SelectionSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Changes the metadata of each object, for kinds without a transform of their own. Default: none.
    pub fn transform(mut self, transform: impl Fn(&mut ObjectMeta) + Send + Sync + 'static) -> Self {
        self.transform = Some(Arc::new(transform));
        self
    }

    /// Resync period, varied by up to a tenth. Default: 10 hours.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Resync::Every(period);
        self
    }

    /// Disables resync.
    pub fn no_resync(mut self) -> Self {
        self.resync = Resync::Never;
        self
    }

    /// Options for one kind. Namespaces, settings and resync apply to all representations of the kind; the transform
    /// applies to this one. A second call for a kind replaces the values that it sets and keeps the others.
    pub fn kind<K: 'static>(mut self, options: KindOptions<K>) -> Self {
        let KindOptions { kind, untyped, transform } = options;
        let name = name_of(&kind);
        if let Some(transform) = transform {
            self.transforms.insert((name.clone(), TypeId::of::<K>()), Box::new(transform));
        }
        let before = self.kinds.remove(&name).unwrap_or_default();
        self.kinds.insert(name, before.replaced_by(untyped));
        self
    }

    /// Called with the kind and the error of each failed list and watch. The cache retries by itself. Default: none.
    pub fn on_error(mut self, hook: impl Fn(&str, &ListWatchError) + Send + Sync + 'static) -> Self {
        self.on_error = Some(Arc::new(hook));
        self
    }

    /// Makes reads of a kind without an informer fail. By default such a read starts an informer. Reads then also do
    /// not keep an informer: it ends with its last user.
    pub fn fail_on_missing_informer(mut self) -> Self {
        self.fails_on_missing = true;
        self
    }

    /// Maximum wait of a read for the sync of its kind. Default: 2 minutes.
    pub fn sync_timeout(mut self, limit: Duration) -> Self {
        self.sync_limit = limit;
        self
    }

    /// The effective options of a kind.
    pub(super) fn of<K: 'static>(&self, kind: &Kind<K>) -> Resolved<K> {
        let none = UntypedOptions::default();
        let own = self.kinds.get(&name_of(kind)).unwrap_or(&none);
        let parts = if kind.is_namespaced() || own.namespaces.is_some() {
            self.parts(own)
        } else {
            vec![self.part(own)]
        };
        self.resolved(kind, own, parts)
    }

    /// The effective options of a kind with explicit namespaces and selectors.
    pub(super) fn of_parts<K: 'static>(
        &self,
        kind: &Kind<K>,
        parts: impl IntoIterator<Item = (Namespaces, Selectors)>,
    ) -> Resolved<K> {
        let none = UntypedOptions::default();
        let own = self.kinds.get(&name_of(kind)).unwrap_or(&none);
        let keep_managed_fields = self.part(own).keep_managed_fields;
        let parts = parts.into_iter();
        let parts = parts.map(|(namespaces, selectors)| Part { namespaces, selectors, keep_managed_fields });
        self.resolved(kind, own, parts.collect())
    }

    fn resolved<K: 'static>(&self, kind: &Kind<K>, own: &UntypedOptions, parts: Vec<Part>) -> Resolved<K> {
        let transform = self
            .transforms
            .get(&(name_of(kind), TypeId::of::<K>()))
            .and_then(|transform| transform.downcast_ref::<Transform<K>>());
        Resolved {
            parts,
            transform: transform.cloned(),
            meta_transform: self.transform.clone().filter(|_| transform.is_none()),
            resync: match own.resync.unwrap_or(self.resync) {
                Resync::Never => None,
                Resync::Every(period) => Some(period),
            },
        }
    }

    /// A part with all namespaces.
    fn part(&self, own: &UntypedOptions) -> Part {
        own.settings.or(&self.settings).part(Namespaces::All)
    }

    /// Precedence: settings of the namespace (the kind's, or the cache's if the kind has no namespaces), of the kind,
    /// of the namespace in the cache, of the cache.
    fn parts(&self, own: &UntypedOptions) -> Vec<Part> {
        let namespaces = own.namespaces.as_ref().unwrap_or(&self.namespaces);
        if namespaces.is_empty() {
            return vec![self.part(own)];
        }
        let named: BTreeSet<_> =
            namespaces.keys().filter(|name| *name != ALL_OTHER_NAMESPACES).cloned().collect();
        let part = |(namespace, settings): (&String, &SelectionSettings)| {
            let of_namespace = self.namespaces.get(namespace).cloned().unwrap_or_default();
            let settings = settings.or(&own.settings).or(&of_namespace).or(&self.settings);
            settings.part(match namespace.as_str() {
                ALL_OTHER_NAMESPACES if named.is_empty() => Namespaces::All,
                ALL_OTHER_NAMESPACES => Namespaces::AllBut(named.clone()),
                name => Namespaces::One(name.to_owned()),
            })
        };
        namespaces.iter().map(part).collect()
    }
}

/// Effective options of one kind.
pub(super) struct Resolved<K> {
    pub(super) parts: Vec<Part>,
    pub(super) transform: Option<Transform<K>>,
    pub(super) meta_transform: Option<Transform<ObjectMeta>>,
    pub(super) resync: Option<Duration>,
}

/// Name of a kind, independent of its representation.
fn name_of<K>(kind: &Kind<K>) -> String {
    let resource = kind.resource();
    GroupVersionKind::new(&resource.group, &resource.version, &resource.kind).to_string()
}

impl fmt::Debug for CacheOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheOptions")
            .field("namespaces", &self.namespaces)
            .field("settings", &self.settings)
            .field("kinds", &self.kinds.keys())
            .finish_non_exhaustive()
    }
}

impl<K> fmt::Debug for KindOptions<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KindOptions")
            .field("kind", &format_args!("{}", self.kind))
            .field("options", &self.untyped)
            .field("transform", &self.transform.is_some())
            .finish()
    }
}
