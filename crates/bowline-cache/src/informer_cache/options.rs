//! What a cache is told about kinds, and which of it counts for one. Owns the precedence, which is controller-runtime's.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bowline_machinery::GroupVersionKind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::kind::Kind;
use crate::list_watch::Selectors;
use crate::namespaces::Namespaces;
use crate::reflector::Transform;

/// Every object is told again after this long by default, give or take a tenth.
const RESYNC: Duration = Duration::from_secs(10 * 3600);

/// What is cached of some objects: of a kind, of a namespace, or of all. What is not set is taken from the next wider one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "settings do nothing until they are given to options"]
pub struct Settings {
    labels: Option<String>,
    fields: Option<String>,
    keep_managed_fields: Option<bool>,
}

impl Settings {
    /// Nothing set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only objects with these labels, in the syntax of a query: `app=web,tier!=cache`.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = Some(selector.into());
        self
    }

    /// Only objects with these fields, in the syntax of a query: `spec.nodeName=node-1`.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = Some(selector.into());
        self
    }

    /// Whether `metadata.managedFields` are kept.
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

    fn selectors(&self) -> Selectors {
        Selectors {
            labels: self.labels.clone().unwrap_or_default(),
            fields: self.fields.clone().unwrap_or_default(),
        }
    }
}

/// The namespaces that are cached, each with settings of its own. [`ALL_OTHERS`] stands for those that are not named.
pub type NamespaceSettings = BTreeMap<String, Settings>;

/// In place of a namespace: all that are not named beside it.
pub const ALL_OTHERS: &str = "";

/// What is cached of one kind.
#[must_use = "options do nothing until they are given to a cache"]
pub struct KindOptions<K> {
    kind: Kind<K>,
    untyped: UntypedOptions,
    transform: Option<Transform<K>>,
}

/// What is said about a kind, whatever its form.
#[derive(Clone, Debug, Default)]
struct UntypedOptions {
    namespaces: Option<NamespaceSettings>,
    settings: Settings,
    resync: Option<Resync>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resync {
    Never,
    Every(Duration),
}

impl<K> KindOptions<K> {
    /// As the cache has it for all kinds.
    pub fn new(kind: Kind<K>) -> Self {
        Self { kind, untyped: UntypedOptions::default(), transform: None }
    }

    /// In these namespaces, instead of the cache's.
    pub fn namespaces<N: Into<String>>(
        mut self,
        namespaces: impl IntoIterator<Item = (N, Settings)>,
    ) -> Self {
        let namespaces = namespaces.into_iter().map(|(namespace, settings)| (namespace.into(), settings));
        self.untyped.namespaces = Some(namespaces.collect());
        self
    }

    /// With these settings, where the namespace has none.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.untyped.settings = settings;
        self
    }

    /// Done to each object once, before anybody sees it. Instead of the cache's.
    pub fn transform(mut self, transform: impl Fn(&mut K) + Send + Sync + 'static) -> Self {
        self.transform = Some(Arc::new(transform));
        self
    }

    /// Every object is told again after this long.
    pub fn resync(mut self, period: Duration) -> Self {
        self.untyped.resync = Some(Resync::Every(period));
        self
    }

    /// No object is told again that did not change.
    pub fn no_resync(mut self) -> Self {
        self.untyped.resync = Some(Resync::Never);
        self
    }
}

/// What a cache is told.
#[must_use = "options do nothing until a cache is made with them"]
pub struct CacheOptions {
    namespaces: NamespaceSettings,
    settings: Settings,
    transform: Option<Transform<ObjectMeta>>,
    resync: Resync,
    kinds: BTreeMap<String, UntypedOptions>,
    /// By the text of a kind in its form.
    transforms: BTreeMap<String, Box<dyn Any + Send + Sync>>,
    pub(super) fails_on_missing: bool,
    pub(super) sync_limit: Duration,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            namespaces: NamespaceSettings::new(),
            settings: Settings::default(),
            transform: None,
            resync: Resync::Every(RESYNC),
            kinds: BTreeMap::new(),
            transforms: BTreeMap::new(),
            fails_on_missing: false,
            sync_limit: Duration::from_secs(120),
        }
    }
}

impl CacheOptions {
    /// Everything there is.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only in these namespaces, each with settings of its own. Kinds that are in no namespace are cached whole all the
    /// same. All namespaces, by default.
    pub fn namespaces<N: Into<String>>(
        mut self,
        namespaces: impl IntoIterator<Item = (N, Settings)>,
    ) -> Self {
        let namespaces = namespaces.into_iter().map(|(namespace, settings)| (namespace.into(), settings));
        self.namespaces = namespaces.collect();
        self
    }

    /// Settings of whatever has none of its own.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Done to the metadata of each object of a kind that has no transform of its own.
    pub fn transform(mut self, transform: impl Fn(&mut ObjectMeta) + Send + Sync + 'static) -> Self {
        self.transform = Some(Arc::new(transform));
        self
    }

    /// Every object is told to handlers again after this long, give or take a tenth: 10 hours, by default.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Resync::Every(period);
        self
    }

    /// No object is told again that did not change.
    pub fn no_resync(mut self) -> Self {
        self.resync = Resync::Never;
        self
    }

    /// What is special about one kind. Namespaces, settings and resync are of the kind in all its forms; the transform is
    /// of this form.
    pub fn kind<K: 'static>(mut self, options: KindOptions<K>) -> Self {
        let KindOptions { kind, untyped, transform } = options;
        if let Some(transform) = transform {
            self.transforms.insert(form_of(&kind), Box::new(transform));
        }
        self.kinds.insert(name_of(&kind), untyped);
        self
    }

    /// Reading a kind that nobody asked an informer of is an error, instead of starting one.
    pub fn fail_on_missing_informer(mut self) -> Self {
        self.fails_on_missing = true;
        self
    }

    /// How long a read waits for an informer to be in sync: 2 minutes, by default.
    pub fn sync_limit(mut self, limit: Duration) -> Self {
        self.sync_limit = limit;
        self
    }

    /// What counts for a kind.
    pub(super) fn of<K: 'static>(&self, kind: &Kind<K>) -> Resolved<K> {
        let none = UntypedOptions::default();
        let own = self.kinds.get(&name_of(kind)).unwrap_or(&none);
        let transform = self
            .transforms
            .get(&form_of(kind))
            .and_then(|transform| transform.downcast_ref::<Transform<K>>());
        let parts = if kind.is_namespaced() {
            self.parts(own)
        } else {
            vec![(Namespaces::All, own.settings.or(&self.settings))]
        };
        Resolved {
            keep_managed_fields: parts.iter().any(|(_, settings)| settings.keep_managed_fields == Some(true)),
            parts: parts
                .into_iter()
                .map(|(namespaces, settings)| (namespaces, settings.selectors()))
                .collect(),
            transform: transform.cloned(),
            meta_transform: self.transform.clone().filter(|_| transform.is_none()),
            resync: match own.resync.unwrap_or(self.resync) {
                Resync::Never => None,
                Resync::Every(period) => Some(period),
            },
        }
    }

    /// The settings of a namespace come first (the kind's own, or the cache's if it has no namespaces of its own), then those
    /// of the kind, then those of the namespace in the cache, then those of the cache.
    fn parts(&self, own: &UntypedOptions) -> Vec<(Namespaces, Settings)> {
        let namespaces = own.namespaces.as_ref().unwrap_or(&self.namespaces);
        if namespaces.is_empty() {
            return vec![(Namespaces::All, own.settings.or(&self.settings))];
        }
        let named: BTreeSet<_> = namespaces.keys().filter(|name| *name != ALL_OTHERS).cloned().collect();
        let part = |(namespace, settings): (&String, &Settings)| {
            let of_namespace = self.namespaces.get(namespace).cloned().unwrap_or_default();
            let settings = settings.or(&own.settings).or(&of_namespace).or(&self.settings);
            let namespaces = match namespace.as_str() {
                ALL_OTHERS if named.is_empty() => Namespaces::All,
                ALL_OTHERS => Namespaces::AllBut(named.clone()),
                name => Namespaces::One(name.to_owned()),
            };
            (namespaces, settings)
        };
        namespaces.iter().map(part).collect()
    }
}

/// What counts for one kind.
pub(super) struct Resolved<K> {
    pub(super) parts: Vec<(Namespaces, Selectors)>,
    pub(super) keep_managed_fields: bool,
    pub(super) transform: Option<Transform<K>>,
    pub(super) meta_transform: Option<Transform<ObjectMeta>>,
    pub(super) resync: Option<Duration>,
}

/// A kind, whatever its form.
fn name_of<K>(kind: &Kind<K>) -> String {
    let resource = kind.resource();
    GroupVersionKind::new(&resource.group, &resource.version, &resource.kind).to_string()
}

/// A kind in its form.
fn form_of<K>(kind: &Kind<K>) -> String {
    format!("{} {:?}", name_of(kind), kind.form())
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
