//! Selectors of requests.

use std::sync::Arc;

use bowline_machinery::{FieldOperator, FieldRequirement, FieldSelector, LabelSelector, Labels, Status};
use bowline_storage::Record;

use crate::object::{self, Meta};
use crate::query::Query;
use crate::resource::Resource;

/// The selectors of one request, parsed without knowledge of the kind.
pub(crate) struct Selectors {
    labels: LabelSelector,
    fields: FieldSelector,
}

/// The selectors of one request.
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
    /// Names of the selector's fields, as requested and as stored beside the objects.
    names: Vec<(String, String)>,
    /// Strategy whose fields are computed from the objects, because the stored ones may be outdated.
    read_from: Option<Arc<Resource>>,
}

impl Selectors {
    pub(crate) fn parse(query: &Query) -> Result<Self, Status> {
        let labels = LabelSelector::parse(&query.label_selector)
            .map_err(|error| Status::bad_request(error.to_string()))?;
        let fields = FieldSelector::parse(&query.field_selector)
            .map_err(|error| Status::bad_request(error.to_string()))?;
        Ok(Self { labels, fields })
    }

    /// Selects one object by its name; other selectors must match as well.
    pub(crate) fn only(&mut self, name: &str) -> Result<(), Status> {
        if self.fields.is_everything() {
            let field = "metadata.name".to_owned();
            let only = FieldRequirement { field, operator: FieldOperator::Equals, value: name.to_owned() };
            self.fields = FieldSelector::parse(&only.to_string())
                .map_err(|error| Status::bad_request(error.to_string()))?;
        }
        if self.fields.exact("metadata.name") == Some(name) {
            return Ok(());
        }
        Err(Status::bad_request("fieldSelector metadata.name doesn't match requested name"))
    }

    /// The selection of objects of a kind.
    pub(crate) fn of(self, resource: &Arc<Resource>) -> Result<Selection, Status> {
        let Self { labels, fields } = self;
        let mut names = Vec::new();
        for requirement in fields.requirements() {
            let field = &requirement.field;
            let meant = resource.behaviour.field_named(field).map_err(Status::bad_request)?;
            names.push((field.clone(), meant));
        }
        let is_kept = |meant: &str| matches!(meant, "metadata.name" | "metadata.namespace");
        let reads = !resource.behaviour.fields_are_kept() && !names.iter().all(|(_, meant)| is_kept(meant));
        Ok(Selection { labels, fields, names, read_from: reads.then(|| resource.clone()) })
    }
}

impl Selection {
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    pub(crate) fn matches(&self, record: &Record<Meta>) -> bool {
        if self.is_everything() {
            return true;
        }
        if !self.labels.matches(&record.meta) {
            return false;
        }
        let (namespace, name) = object::split_key(&record.key);
        let read = self.read_from.as_ref().map(|resource| {
            let object = resource.decode(&record.body).unwrap_or_default();
            resource.behaviour.fields(&object)
        });
        let value = |asked: &str| {
            let meant = self.names.iter().find(|(name, _)| name == asked).map(|(_, meant)| meant.as_str())?;
            match meant {
                "metadata.name" => Some(name),
                "metadata.namespace" => namespace,
                field => match &read {
                    Some(read) => {
                        read.iter().find(|(known, _)| known == field).map(|(_, value)| value.as_str())
                    }
                    None => record
                        .meta
                        .fields
                        .iter()
                        .find(|(known, _)| **known == *field)
                        .map(|(_, value)| &**value),
                },
            }
        };
        self.fields.matches(value)
    }
}

impl Labels for Meta {
    fn label(&self, key: &str) -> Option<&str> {
        let place = self.labels.binary_search_by(|(name, _)| (**name).cmp(key)).ok()?;
        Some(&self.labels[place].1)
    }
}
