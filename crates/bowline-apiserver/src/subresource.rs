//! Subresources: status, scale, and those of single kinds.

mod pod;
mod scale;

use bowline_machinery::Status;

use crate::request::Verb;
use crate::resource::WriteTarget;
use crate::rest::ResourceRequest;
use crate::server::{ApiResponse, method_not_allowed};

/// The answer to a request for a subresource.
pub(crate) fn answer(exchange: &ResourceRequest<'_>, subresource: &str) -> Result<ApiResponse, Status> {
    let Some(known) = exchange.resource.subresource(subresource) else {
        // For custom kinds, kube-apiserver answers as for an object that is not found.
        let custom = exchange.resource.behaviour.items_have_kind();
        return Err(match exchange.name.filter(|_| custom) {
            Some(name) => Status::not_found(&exchange.resource.group_resource(), name),
            None => Status::no_such_path(),
        });
    };
    let verb = exchange.call.verb;
    let Some(name) = exchange.name else { return Err(Status::no_such_path()) };
    if !known.verbs.contains(&verb) {
        return Err(method_not_allowed());
    }
    match subresource {
        "status" => object_part(exchange, verb, name, WriteTarget::Status),
        "scale" => scale::answer(exchange, verb, name),
        "finalize" => object_part(exchange, verb, name, WriteTarget::Finalize),
        "ephemeralcontainers" => object_part(exchange, verb, name, WriteTarget::EphemeralContainers),
        "binding" => pod::bind(exchange, name),
        "eviction" => pod::evict(exchange, name),
        "approval" => object_part(exchange, verb, name, WriteTarget::Approval),
        // Discovery lists only what is here.
        _ => Err(Status::no_such_path()),
    }
}

/// Whether a subresource is served: discovery shows no others.
pub(crate) fn is_served(name: &str) -> bool {
    matches!(
        name,
        "status" | "scale" | "finalize" | "ephemeralcontainers" | "binding" | "eviction" | "approval"
    )
}

/// A subresource that is the object itself, with only a part that may change.
fn object_part(
    exchange: &ResourceRequest<'_>,
    verb: Verb,
    name: &str,
    part: WriteTarget,
) -> Result<ApiResponse, Status> {
    match verb {
        Verb::Get => exchange.get(name),
        Verb::Update => exchange.update(name, part),
        Verb::Patch => exchange.patch(name, part),
        _ => Err(method_not_allowed()),
    }
}
