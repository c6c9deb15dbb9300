//! A delete that loses against another one between the mark and the end, which no client can bring about at will.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bowline_machinery::{FieldError, GroupVersionKind, NameValidator, Status};
use bowline_storage::{NewRecord, TableId};
use bytes::Bytes;
use serde_json::{Value, json};

use super::DeleteOptions;
use crate::ApiServer;
use crate::object::Meta;
use crate::query::Query;
use crate::resource::{Generation, Names, Resource, ResourceStrategy, WriteTarget};
use crate::write::Write;

/// A kind with a grace period that is over at once, and another client that deletes an object at its second read.
struct Contested {
    server: ApiServer,
    table: TableId,
    looks: AtomicUsize,
}

impl ResourceStrategy for Contested {
    fn grace_period(&self, _object: &Value, _asked: Option<i64>) -> Option<i64> {
        Some(0)
    }

    fn fields(&self, _object: &Value) -> Vec<(String, String)> {
        let store = &self.server.inner.store;
        if self.looks.fetch_add(1, Ordering::Relaxed) == 1
            && let Some(record) = store.get(self.table, "a")
        {
            let last = |_| NewRecord::new(record.body.clone(), empty());
            store.delete(self.table, "a", record.revision, last).expect("it is there");
        }
        Vec::new()
    }

    fn normalise(&self, object: Value, _unknown: &mut Vec<String>) -> Result<Value, Status> {
        Ok(object)
    }

    fn default(&self, _object: &mut Value) {}

    fn name_validator(&self) -> NameValidator {
        bowline_machinery::name_is_path_segment
    }

    fn validate(&self, _object: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    fn validate_update(&self, _part: WriteTarget, _new: &Value, _old: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    fn generation(&self) -> Generation {
        Generation::None
    }

    fn field_names(&self) -> Vec<String> {
        Vec::new()
    }
}

fn empty() -> Meta {
    Meta { uid: "".into(), labels: Box::default(), fields: Box::default() }
}

#[test]
fn an_object_that_was_marked_and_then_deleted_by_another_client_was_written() {
    let server = ApiServer::builder().build().expect("a server can be built");
    let inner = &server.inner;
    let table = inner.store.create_table("contested");
    let contested = Contested { server: server.clone(), table, looks: AtomicUsize::new(0) };
    let resource = Arc::new(Resource {
        gvk: GroupVersionKind::new("", "v1", "Contested"),
        names: Names { plural: "contested".to_owned(), ..Names::default() },
        namespaced: false,
        table,
        verbs: Vec::new(),
        subresources: Vec::new(),
        behaviour: Box::new(contested),
        schema_text: None,
        head: Bytes::new(),
    });
    let object = json!({"metadata": {"resourceVersion": "1", "name": "a"}}).to_string();
    let stored = inner.store.put(table, "a", None, |_| NewRecord::new(object, empty()));
    let before = stored.expect("it is new").revision.get();
    let query = Query::default();
    let mut write = Write::by_server(inner, &resource, &query);
    let committed = Cell::new(false);
    let outcome = write.delete_noting("a", &DeleteOptions::default(), &committed);
    assert_eq!(outcome.map_err(|status| status.code).err(), Some(404));
    // The deletion mark, and the deletion by the other client.
    assert_eq!((committed.get(), server.revision() - before), (true, 2));
}
