//! The inputs of admission: the user and the stored objects.

use bowline_clock::Clock;
use bowline_machinery::{FieldError, GroupResource, Status};
use bowline_storage::ListRequest;
use serde_json::Value;

use crate::authentication::User;
use crate::object::meta_str;
use crate::registry::Registry;
use crate::resource::Resource;
use crate::server::Store;

/// The admission of one object, and its environment.
pub(crate) struct Admission<'a> {
    pub(crate) store: &'a Store,
    pub(crate) registry: &'a Registry,
    pub(crate) clock: &'a Clock,
    pub(crate) user: &'a User,
    /// Key of the object.
    pub(crate) resource: &'a Resource,
}

impl Admission<'_> {
    /// Another stored object.
    pub(crate) fn get(&self, resource: &GroupResource, key: &str) -> Option<Value> {
        let resources = self.registry.resources();
        let resource = resources.any(&resource.group, &resource.resource)?;
        let record = self.store.get(resource.table, key)?;
        resource.decode(&record.body).ok()
    }

    /// All objects of a resource whose keys start with a prefix.
    pub(crate) fn list(&self, resource: &GroupResource, prefix: &str) -> Vec<Value> {
        let resources = self.registry.resources();
        let Some(resource) = resources.any(&resource.group, &resource.resource) else { return Vec::new() };
        let list = ListRequest { prefix, ..ListRequest::default() };
        let Ok(listing) = self.store.list(resource.table, list) else { return Vec::new() };
        listing.items.iter().filter_map(|record| resource.decode(&record.body).ok()).collect()
    }

    /// All objects of a resource whose bytes contain a text: only these are parsed.
    pub(crate) fn list_holding(&self, resource: &GroupResource, text: &[u8]) -> Vec<Value> {
        let resources = self.registry.resources();
        let Some(resource) = resources.any(&resource.group, &resource.resource) else { return Vec::new() };
        let Ok(listing) = self.store.list(resource.table, ListRequest::default()) else { return Vec::new() };
        let holding = listing.items.iter().filter(|record| {
            record.body.windows(text.len()).any(|window| window.first() == text.first() && window == text)
        });
        holding.filter_map(|record| resource.decode(&record.body).ok()).collect()
    }

    /// 403, for this object.
    pub(crate) fn forbidden(&self, object: &Value, why: &str) -> Status {
        let name = match meta_str(object, "name") {
            "" => meta_str(object, "generateName"),
            name => name,
        };
        Status::forbidden(&self.resource.group_resource(), name, why)
    }

    /// 422, for this object.
    pub(crate) fn invalid(&self, object: &Value, errors: &[FieldError]) -> Status {
        Status::invalid(&self.resource.group_kind(), meta_str(object, "name"), errors)
    }
}
