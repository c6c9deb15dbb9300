//! What an API server says that it has, kept, and asked for again when something is not there.

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

/// The server is asked again after this long at the earliest.
const INTERVAL: Duration = Duration::from_secs(1);

/// A mapper that asks an API server which kinds it has, and keeps the answer.
///
/// It asks when something is looked for that it does not know: so that a kind that was installed later is found. However
/// many look for what is not there, it asks no more than once in an [interval](Self::interval): who comes in between waits
/// for the next time, together with the others. What was found once is not asked for again; a kind that was removed since
/// stays known.
///
/// One question is two requests to a server that knows aggregated discovery, and one for each version of each group
/// otherwise.
pub struct DiscoveryMapper {
    kube: kube::Client,
    clock: Clock,
    interval: Duration,
    known: RwLock<Arc<[RestMapping]>>,
    /// Held while it is asked.
    asked: tokio::sync::Mutex<Asked>,
}

/// What became of the last question.
#[derive(Default)]
struct Asked {
    /// When one began, whether or not it came to an end.
    began: Option<Instant>,
    /// When the one began that was answered last, or failed, and how it failed.
    ended: Option<(Instant, Option<Arc<dyn StdError + Send + Sync>>)>,
}

impl DiscoveryMapper {
    /// A mapper that has asked nothing yet.
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

    /// The server is asked again after this long at the earliest: 1 s, by default.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// What is looked for, in what is known or in what the server says now.
    async fn find<T>(&self, look: impl Fn(&[RestMapping]) -> Option<T>) -> Result<Option<T>, MapperError> {
        let since = self.clock.now();
        if let Some(found) = look(&self.known()) {
            return Ok(Some(found));
        }
        let mut asked = self.asked.lock().await;
        // Somebody may have asked since, while this one waited.
        if asked.ended.as_ref().is_none_or(|(began, _)| *began < since) {
            if let Some(began) = asked.began {
                self.clock.sleep_until(began + self.interval).await;
            }
            let now = self.clock.now();
            asked.began = Some(now);
            let problem = match self.ask().await {
                Ok(told) => {
                    self.learn(told);
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

    /// Adds what the server said to what is known. What it did not say stays: its server may be away.
    fn learn(&self, mut told: Vec<RestMapping>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let is_told: BTreeSet<_> = told
            .iter()
            .flat_map(|RestMapping { resource, .. }| {
                [&resource.kind, &resource.plural].map(|name| (resource.api_version.clone(), name.clone()))
            })
            .collect();
        let stays = |mapping: &&RestMapping| {
            let resource = &mapping.resource;
            [&resource.kind, &resource.plural]
                .into_iter()
                .all(|name| !is_told.contains(&(resource.api_version.clone(), name.clone())))
        };
        told.extend(known.iter().filter(stays).cloned());
        *known = told.into();
    }

    fn known(&self) -> Arc<[RestMapping]> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn ask(&self) -> Result<Vec<RestMapping>, BoxError> {
        let (core, groups) = (
            self.kube.list_core_api_versions_aggregated().await?,
            self.kube.list_api_groups_aggregated().await?,
        );
        // One that does not know the question answers with something else.
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
            // What the server prefers comes first.
            if let Some(preferred) = &group.preferred_version {
                versions.sort_by_key(|version| version.version != preferred.version);
            }
            for version in versions {
                match self.kube.list_api_group_resources(&version.group_version).await {
                    Ok(list) => read_list(&group.name, &version.version, list.resources, &mut known),
                    // A server behind this one may be away, which is no reason not to know the others.
                    Err(error) => {
                        tracing::warn!(version = version.group_version, %error, "a group cannot be discovered");
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
    // A slash is in the names of subresources.
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
