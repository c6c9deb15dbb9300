//! Which objects a client wants to see.

use bowline_machinery::{FieldSelector, LabelSelector, Labels, Status};
use bowline_storage::Record;

use crate::object::{self, Meta};
use crate::query::Query;
use crate::resource::Resource;

/// The selectors of one request.
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    pub(crate) fn parse(resource: &Resource, query: &Query) -> Result<Self, Status> {
        let labels = LabelSelector::parse(&query.label_selector)
            .map_err(|error| Status::bad_request(error.to_string()))?;
        let fields = FieldSelector::parse(&query.field_selector)
            .map_err(|error| Status::bad_request(error.to_string()))?;
        let known = resource.behaviour.field_names();
        for requirement in fields.requirements() {
            let field = requirement.field.as_str();
            if !matches!(field, "metadata.name" | "metadata.namespace")
                && !known.iter().any(|known| known == field)
            {
                return Err(Status::bad_request(resource.behaviour.unknown_field(field)));
            }
        }
        Ok(Self { labels, fields })
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    pub(crate) fn matches(&self, record: &Record<Meta>) -> bool {
        if self.is_everything() {
            return true;
        }
        let (namespace, name) = object::split_key(&record.key);
        self.labels.matches(&record.meta)
            && self.fields.matches(|field| match field {
                "metadata.name" => Some(name),
                "metadata.namespace" => namespace,
                field => {
                    record.meta.fields.iter().find(|(known, _)| **known == *field).map(|(_, value)| &**value)
                }
            })
    }
}

impl Labels for Meta {
    fn label(&self, key: &str) -> Option<&str> {
        let place = self.labels.binary_search_by(|(name, _)| (**name).cmp(key)).ok()?;
        Some(&self.labels[place].1)
    }
}
