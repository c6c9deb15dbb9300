//! Non-resource URLs: health, versions, groups, resources and paths. The accepted methods and media types differ by path, because
//! different servers answer them in kube-apiserver.

use std::sync::atomic::Ordering;

use bowline_machinery::Status;
use http::header::{CACHE_CONTROL, ETAG, HOST, HeaderValue, IF_NONE_MATCH, VARY};
use http::{HeaderMap, Method};
use serde_json::{Value, json};

use crate::discovery;
use crate::health;
use crate::negotiate;
use crate::query::Query;
use crate::registry::Resources;
use crate::request::Target;
use crate::server::{ApiResponse, Inner, method_not_allowed};

/// The answer to a request that is not about a resource.
pub(crate) fn answer(
    inner: &Inner,
    target: &Target,
    method: &Method,
    headers: &HeaderMap,
    query: &Query,
) -> Result<ApiResponse, Status> {
    let resources = inner.registry.resources();
    let reads_only = matches!(target, Target::Version | Target::CoreVersions)
        || matches!(target, Target::GroupVersion { group, .. } if resources.is_built_in(group));
    if reads_only {
        if method != Method::GET {
            return Err(method_not_allowed());
        }
        negotiate::check_media_type(headers)?;
    }
    let document = match target {
        Target::Health { endpoint, check } => {
            let ready = inner.ready.load(Ordering::Acquire);
            let (code, text) = health::answer(*endpoint, check.as_deref(), query, ready);
            return Ok(ApiResponse::text(code, text));
        }
        Target::Root => return Ok(ApiResponse::json(200, &json!({"paths": paths(&resources)}))),
        Target::Version => return Ok(ApiResponse::json(200, &discovery::version())),
        Target::CoreVersions | Target::Groups => {
            let is_core = *target == Target::CoreVersions;
            if let Some(version) = negotiate::discovery_version(headers) {
                return Ok(aggregated(
                    &discovery::aggregated(&resources, is_core, version),
                    version,
                    headers,
                ));
            }
            let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
            Some(if is_core { discovery::core(&resources, host) } else { discovery::groups(&resources) })
        }
        Target::Group(group) => discovery::group(&resources, group),
        Target::GroupVersion { group, version } => {
            let list = discovery::resource_list(&resources, group, version);
            if list.is_none() && resources.is_built_in(group) {
                return Err(Status::no_such_path());
            }
            list
        }
        Target::Nowhere | Target::Resource(_) => None,
    };
    match document {
        Some(document) => {
            negotiate::check_plain(headers)?;
            Ok(ApiResponse::json(200, &document))
        }
        None => Ok(ApiResponse::no_page()),
    }
}

/// A document that a client may keep, and ask for only if it has changed.
fn aggregated(document: &Value, version: &str, headers: &HeaderMap) -> ApiResponse {
    let text = document.to_string();
    let hash = ring::digest::digest(&ring::digest::SHA512, text.as_bytes());
    let digits: String = hash.as_ref().iter().flat_map(|byte| [byte >> 4, byte & 15]).map(digit).collect();
    let etag = format!("\"{digits}\"");
    let is_known = headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == etag.as_bytes());
    let mut answer = if is_known {
        ApiResponse::without_content(304)
    } else {
        let form = format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
        ApiResponse::bytes(200, text.into()).of_type(&form)
    };
    answer.headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    answer.headers.insert(VARY, HeaderValue::from_static("Accept"));
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        answer.headers.insert(ETAG, etag);
    }
    answer
}

/// In hexadecimal.
fn digit(value: u8) -> char {
    char::from_digit(u32::from(value), 16).unwrap_or_default().to_ascii_uppercase()
}

fn paths(resources: &Resources) -> Vec<String> {
    let mut paths: Vec<String> = ["/api", "/apis", "/apis/", "/version"].map(str::to_owned).into();
    for endpoint in health::ENDPOINTS {
        paths.push(format!("/{endpoint}"));
        paths.extend(health::CHECKS.iter().map(|check| format!("/{endpoint}/{check}")));
    }
    for (name, group) in resources.groups() {
        let root = if name.is_empty() { "/api".to_owned() } else { format!("/apis/{name}") };
        paths.extend(group.versions.iter().map(|version| format!("{root}/{}", version.version)));
        if !name.is_empty() {
            paths.push(root);
        }
    }
    paths.sort_unstable();
    paths
}
