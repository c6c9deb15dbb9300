//! A mapper with a cache of the API server's discovery documents.

use std::collections::BTreeSet;
use std::error::Error as StdError;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bowline_clock::{Clock, Instant};
use bowline_machinery::{GroupKind, GroupVersionKind, GroupVersionResource};
use kube::core::ApiResource;
use kube::core::discovery::v2::APIGroupDiscoveryList;

use super::{MapperError, MapperFuture, RestMapper, RestMapping};
use crate::BoxError;
use crate::error::describe;

/// Minimum interval between two discoveries.
const INTERVAL: Duration = Duration::from_secs(1);

/// A mapper that reads the kinds of an API server by discovery, and caches them.
///
/// It runs discovery when a kind is not in the cache, so it finds kinds that are installed later. It does so at most
/// once per [interval](Self::interval), for any number of unknown kinds: calls in between wait for the next discovery
/// and share it. A known kind is not requested again, and stays known after its removal.
///
/// A discovery takes two requests to a server with aggregated discovery, otherwise one per version of each group.
pub struct DiscoveryMapper {
    kube: kube::Client,
    clock: Clock,
    interval: Duration,
    known: RwLock<Arc<[RestMapping]>>,
    /// Locked during a discovery.
    asked: tokio::sync::Mutex<Asked>,
}

/// The last discovery.
#[derive(Default)]
struct Asked {
    /// Start of the last discovery, complete or not.
    began: Option<Instant>,
    /// Start of the last completed discovery, and its error if it failed.
    ended: Option<(Instant, Option<Arc<dyn StdError + Send + Sync>>)>,
}

impl DiscoveryMapper {
    /// A mapper with an empty cache.
    #[must_use]
    pub fn new(kube: kube::Client, clock: Clock) -> Self {
        Self {
            kube,
            clock,
            interval: INTERVAL,
            known: RwLock::new(Arc::new([])),
            asked: tokio::sync::Mutex::default(),
        }
    }

    /// Minimum interval between two discoveries. Default: 1 s.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Searches the cache, and if necessary a new discovery.
    async fn find<T>(&self, look: impl Fn(&[RestMapping]) -> Option<T>) -> Result<Option<T>, MapperError> {
        let since = self.clock.now();
        if let Some(found) = look(&self.known()) {
            return Ok(Some(found));
        }
        let mut asked = self.asked.lock().await;
        // Another call may have completed a discovery while this one waited.
        if asked.ended.as_ref().is_none_or(|(began, _)| *began < since) {
            if let Some(began) = asked.began {
                self.clock.sleep_until(began + self.interval).await;
            }
            let now = self.clock.now();
            asked.began = Some(now);
            let problem = match self.ask().await {
                Ok(discovered) => {
                    self.learn(discovered);
                    None
                }
                Err(error) => Some(Arc::from(error)),
            };
            asked.ended = Some((now, problem));
        }
        let problem = asked.ended.as_ref().and_then(|(_, problem)| problem.clone());
        drop(asked);
        match (look(&self.known()), problem) {
            (None, Some(problem)) => Err(MapperError::Discovery(Box::new(problem))),
            (found, _) => Ok(found),
        }
    }

    /// Adds discovered mappings to the cache. Others stay: the server of their group may be unavailable.
    fn learn(&self, mut discovered: Vec<RestMapping>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let replaced: BTreeSet<_> = discovered
            .iter()
            .flat_map(|RestMapping { resource, .. }| {
                [&resource.kind, &resource.plural].map(|name| (resource.api_version.clone(), name.clone()))
            })
            .collect();
        let stays = |mapping: &&RestMapping| {
            let resource = &mapping.resource;
            [&resource.kind, &resource.plural]
                .into_iter()
                .all(|name| !replaced.contains(&(resource.api_version.clone(), name.clone())))
        };
        discovered.extend(known.iter().filter(stays).cloned());
        *known = discovered.into();
    }

    fn known(&self) -> Arc<[RestMapping]> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn ask(&self) -> Result<Vec<RestMapping>, BoxError> {
        let (core, groups) = (
            self.kube.list_core_api_versions_aggregated().await?,
            self.kube.list_api_groups_aggregated().await?,
        );
        // A server without aggregated discovery responds with another document.
        if core.items.is_empty() && groups.items.is_empty() {
            return self.ask_one_by_one().await;
        }
        let mut known = Vec::new();
        read(core, &mut known);
        read(groups, &mut known);
        Ok(known)
    }

    async fn ask_one_by_one(&self) -> Result<Vec<RestMapping>, BoxError> {
        let mut known = Vec::new();
        for version in self.kube.list_core_api_versions().await?.versions {
            let list = self.kube.list_core_api_resources(&version).await?;
            read_list("", &version, list.resources, &mut known);
        }
        for group in self.kube.list_api_groups().await?.groups {
            let mut versions = group.versions;
            // The preferred version comes first.
            if let Some(preferred) = &group.preferred_version {
                versions.sort_by_key(|version| version.version != preferred.version);
            }
            for version in versions {
                match self.kube.list_api_group_resources(&version.group_version).await {
                    Ok(list) => read_list(&group.name, &version.version, list.resources, &mut known),
                    // An aggregated API server may be unavailable; the other groups are still valid.
                    Err(error) => {
                        let (version, error) = (version.group_version, describe(&error));
                        tracing::warn!(version, error, "cannot discover an API group");
                    }
                }
            }
        }
        Ok(known)
    }
}

fn read(list: APIGroupDiscoveryList, known: &mut Vec<RestMapping>) {
    for group in list.items {
        let name = group.metadata.and_then(|meta| meta.name).unwrap_or_default();
        for version in group.versions {
            let number = version.version.unwrap_or_default();
            for resource in version.resources {
                let kind = resource.response_kind.and_then(|kind| kind.kind);
                if let (Some(kind), Some(plural)) = (kind, resource.resource) {
                    let namespaced = resource.scope.as_deref() == Some("Namespaced");
                    known.push(mapping(&name, &number, kind, plural, namespaced));
                }
            }
        }
    }
}

fn read_list(
    group: &str,
    version: &str,
    resources: Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource>,
    known: &mut Vec<RestMapping>,
) {
    // Names of subresources contain a slash.
    let resources = resources.into_iter().filter(|resource| !resource.name.contains('/'));
    known.extend(
        resources.map(|resource| mapping(group, version, resource.kind, resource.name, resource.namespaced)),
    );
}

fn mapping(group: &str, version: &str, kind: String, plural: String, namespaced: bool) -> RestMapping {
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let (group, version) = (group.to_owned(), version.to_owned());
    RestMapping { resource: ApiResource { group, version, api_version, kind, plural }, namespaced }
}

impl RestMapper for DiscoveryMapper {
    fn mapping<'a>(&'a self, kind: &'a GroupVersionKind) -> MapperFuture<'a, RestMapping> {
        let is_it = |mapping: &&RestMapping| {
            let resource = &mapping.resource;
            resource.kind == kind.kind && resource.group == kind.group && resource.version == kind.version
        };
        Box::pin(async move {
            let found = self.find(|known| known.iter().find(is_it).cloned()).await?;
            found.ok_or_else(|| MapperError::NoKind(kind.to_string()))
        })
    }

    fn mappings<'a>(&'a self, kind: &'a GroupKind) -> MapperFuture<'a, Vec<RestMapping>> {
        let is_it = |mapping: &&RestMapping| {
            mapping.resource.kind == kind.kind && mapping.resource.group == kind.group
        };
        let all = move |known: &[RestMapping]| {
            let found: Vec<_> = known.iter().filter(is_it).cloned().collect();
            (!found.is_empty()).then_some(found)
        };
        Box::pin(async move { self.find(all).await?.ok_or_else(|| MapperError::NoKind(kind.to_string())) })
    }

    fn mapping_of<'a>(&'a self, resource: &'a GroupVersionResource) -> MapperFuture<'a, RestMapping> {
        let is_it = |mapping: &&RestMapping| {
            let found = &mapping.resource;
            found.plural == resource.resource
                && found.group == resource.group
                && found.version == resource.version
        };
        Box::pin(async move {
            let found = self.find(|known| known.iter().find(is_it).cloned()).await?;
            found.ok_or_else(|| {
                MapperError::NoResource(format!("{} in {}", resource.group_resource(), resource.version))
            })
        })
    }
}

impl fmt::Debug for DiscoveryMapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiscoveryMapper").field("known", &self.known().len()).finish_non_exhaustive()
    }
}
