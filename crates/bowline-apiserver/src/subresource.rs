//! What is below an object: its status, its scale, and what only some kinds have.

mod pod;
mod scale;

use bowline_machinery::Status;

use crate::request::Verb;
use crate::resource::Part;
use crate::rest::Exchange;
use crate::server::{Answer, method_not_allowed};

/// What is answered to a request below an object.
pub(crate) fn answer(exchange: &Exchange<'_>, subresource: &str) -> Result<Answer, Status> {
    let Some(known) = exchange.resource.subresource(subresource) else {
        // What is below custom objects is asked of the object, as kube-apiserver does.
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
        "status" => object_part(exchange, verb, name, Part::Status),
        "scale" => scale::answer(exchange, verb, name),
        "finalize" => object_part(exchange, verb, name, Part::Finalize),
        "ephemeralcontainers" => object_part(exchange, verb, name, Part::EphemeralContainers),
        "binding" => pod::bind(exchange, name),
        "eviction" => pod::evict(exchange, name),
        "approval" => object_part(exchange, verb, name, Part::Approval),
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

/// A subresource that is the object itself, of which only a part may be changed.
fn object_part(exchange: &Exchange<'_>, verb: Verb, name: &str, part: Part) -> Result<Answer, Status> {
    match verb {
        Verb::Get => exchange.get(name),
        Verb::Update => exchange.update(name, part),
        Verb::Patch => exchange.patch(name, part),
        _ => Err(method_not_allowed()),
    }
}
