//! Serves and removes custom resources to match the stored definitions. Everything is a function of the stored state,
//! under one lock, so that the order of concurrent writers does not matter.

use std::num::NonZeroUsize;
use std::sync::{Arc, PoisonError};

use bowline_machinery::{FieldPath, GroupResource, GroupVersionKind, Schema};
use bowline_storage::{ListRequest, TableId};
use serde_json::{Value, json};

use super::behaviour::Custom;
use super::definition::{CLEANUP_FINALIZER, Definition, condition, set_condition};
use crate::decode::Decoded;
use crate::delete::DeleteOptions;
use crate::object::{self, child_mut, finalizers, set_finalizers};
use crate::query::Query;
use crate::request::Verb;
use crate::resource::{Names, Resource, Scale, Subresource, WriteTarget};
use crate::server::Inner;
use crate::write::{Change, Write};

const VERBS: [Verb; 8] = [
    Verb::Delete,
    Verb::DeleteCollection,
    Verb::Get,
    Verb::List,
    Verb::Patch,
    Verb::Create,
    Verb::Update,
    Verb::Watch,
];

/// Serves the definition that is stored under a name.
pub(crate) fn definition_changed(inner: &Inner, name: &str) {
    let guard = inner.custom.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(definitions) = definitions(inner) else { return };
    let Some(crd) = stored(inner, &definitions, name) else {
        withdraw(inner, name);
        drop(guard);
        return reconsider(inner, &definitions, name);
    };
    let definition = Definition::new(&crd);
    let before = definition.names("/status/acceptedNames");
    let accepted = accept_names(inner, &definitions, &crd);
    let established = definition.is_established() || accepted.is_ok();
    if established {
        publish(inner, &crd, accepted.as_ref().unwrap_or(&before));
    }
    // Its conditions change only after it is served.
    write_conditions(inner, &definitions, name, &accepted);
    let frees_names =
        !before.plural.is_empty() && accepted.as_ref().is_ok_and(|accepted| *accepted != before);
    let terminating = definition.is_terminating();
    drop(guard);
    if frees_names {
        reconsider(inner, &definitions, name);
    }
    if terminating {
        clean_up(inner, &definitions, &crd);
    }
}

/// Names became free: other definitions of the group may have waited for them.
fn reconsider(inner: &Inner, definitions: &Resource, name: &str) {
    let Some((_, group)) = name.split_once('.') else { return };
    let Ok(listing) = inner.store.list(definitions.table, ListRequest::default()) else { return };
    for record in listing.items.iter().filter(|record| &*record.key != name) {
        let Ok(crd) = definitions.decode(&record.body) else { continue };
        let refused =
            condition(&crd, "NamesAccepted").is_some_and(|condition| condition["status"] == "False");
        if refused && Definition::new(&crd).group() == group {
            definition_changed(inner, &record.key);
        }
    }
}

/// A definition that is being deleted may have waited for this object.
pub(crate) fn object_deleted(inner: &Inner, resource: &Resource) {
    let Some((definitions, crd)) = terminating(inner, resource) else { return };
    finish(inner, &definitions, &crd);
}

/// A definition may have been marked for deletion while this object was being created.
pub(crate) fn object_created(inner: &Inner, resource: &Resource) {
    let Some((definitions, crd)) = terminating(inner, resource) else { return };
    clean_up(inner, &definitions, &crd);
}

/// The definition of a resource, if it is being deleted.
fn terminating(inner: &Inner, resource: &Resource) -> Option<(Arc<Resource>, Value)> {
    let resources = inner.registry.resources();
    let current = resources.custom(&resource.gvk.group, &resource.names.plural)?;
    if !current.behaviour.is_terminating() {
        return None;
    }
    let definitions = definitions(inner)?;
    let crd = stored(inner, &definitions, &resource.group_resource().to_string())?;
    Definition::new(&crd).is_terminating().then_some((definitions, crd))
}

fn definitions(inner: &Inner) -> Option<Arc<Resource>> {
    inner.registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
}

fn stored(inner: &Inner, definitions: &Resource, name: &str) -> Option<Value> {
    let record = inner.store.get(definitions.table, name)?;
    definitions.decode(&record.body).ok()
}

/// Storage table of a definition: two definitions of one name share nothing.
fn table(inner: &Inner, definition: &Definition<'_>) -> TableId {
    inner.store.create_table(&format!("custom:{}", definition.text("/metadata/uid")))
}

/// Removes a deleted definition: its resource is no longer served, and its stored objects are dropped.
fn withdraw(inner: &Inner, name: &str) {
    let Some((plural, group)) = name.split_once('.') else { return };
    let Some(table) = inner.registry.resources().custom(group, plural).map(|resource| resource.table) else {
        return;
    };
    inner.registry.update(|resources| resources.remove_custom(group, plural));
    inner.store.drop_table(table);
}

/// The names of a definition, unless another one of its group has them.
fn accept_names(inner: &Inner, definitions: &Resource, crd: &Value) -> Result<Names, (&'static str, String)> {
    let definition = Definition::new(crd);
    let wanted = definition.names("/spec/names");
    let kind = definition.text("/spec/names/kind");
    let Ok(listing) = inner.store.list(definitions.table, ListRequest::default()) else { return Ok(wanted) };
    let (mut resources, mut kinds) = (Vec::new(), Vec::new());
    for record in &listing.items {
        let Ok(other) = definitions.decode(&record.body) else { continue };
        let other_definition = Definition::new(&other);
        if &*record.key == definition.name() || other_definition.group() != definition.group() {
            continue;
        }
        let names = other_definition.names("/status/acceptedNames");
        resources.extend([names.plural, names.singular]);
        resources.extend(names.short_names);
        kinds.extend([names.list_kind, other_definition.text("/status/acceptedNames/kind").to_owned()]);
    }
    let taken = |name: &str, by: &[String]| !name.is_empty() && by.iter().any(|other| other == name);
    let in_use = |name: &str| format!("{name:?} is already in use");
    let mut conflicts = Vec::new();
    if taken(&wanted.plural, &resources) {
        conflicts.push(("PluralConflict", in_use(&wanted.plural)));
    }
    if taken(&wanted.singular, &resources) {
        conflicts.push(("SingularConflict", in_use(&wanted.singular)));
    }
    if let Some(short) = wanted.short_names.iter().find(|short| taken(short, &resources)) {
        conflicts.push(("ShortNamesConflict", in_use(short)));
    }
    if taken(kind, &kinds) {
        conflicts.push(("KindConflict", in_use(kind)));
    }
    if taken(&wanted.list_kind, &kinds) {
        conflicts.push(("ListKindConflict", in_use(&wanted.list_kind)));
    }
    // Of several conflicts, the last one is reported.
    if let Some(conflict) = conflicts.pop() {
        return Err(conflict);
    }
    Ok(wanted)
}

/// Serves every version with `served: true`.
fn publish(inner: &Inner, crd: &Value, names: &Names) {
    let definition = Definition::new(crd);
    let table = table(inner, &definition);
    let empty = is_empty(inner, table);
    let schemas: Vec<_> = definition.versions().map(schema_text).collect();
    let one_schema = schemas.windows(2).all(|pair| pair[0] == pair[1]);
    let before = inner.registry.resources();
    let replaced = before.custom(definition.group(), &names.plural).map(|resource| resource.table);
    let resources: Vec<_> = definition
        .versions()
        .enumerate()
        .filter(|(_, version)| version["served"] == true)
        // A built-in version is not replaced.
        .filter(|(_, version)| {
            !before.is_built_in_version(definition.group(), version["name"].as_str().unwrap_or_default())
        })
        .filter_map(|(index, version)| {
            let path = FieldPath::new("spec.versions").index(index).child("schema.openAPIV3Schema");
            let schema = Schema::compile(&version["schema"]["openAPIV3Schema"], &path).ok()?;
            let known = before.find(definition.group(), version["name"].as_str()?, &names.plural);
            // Objects stored under another schema may differ from this schema's form.
            let same = known.is_some_and(|known| known.schema_text.as_deref() == Some(&schema_text(version)));
            let unchanged =
                known.is_some_and(|known| known.table == table && known.behaviour.reads_as_stored());
            let reads_as_stored = one_schema && (empty || same && unchanged);
            Some(resource(&definition, version, names, schema, table, reads_as_stored))
        })
        .collect();
    inner.registry.update(|registered| {
        registered.remove_custom(definition.group(), &names.plural);
        for resource in resources {
            registered.insert(resource);
        }
    });
    if let Some(replaced) = replaced.filter(|replaced| *replaced != table) {
        inner.store.drop_table(replaced);
    }
}

/// The parts of a version that determine how its objects are stored and indexed.
fn schema_text(version: &Value) -> String {
    format!("{} {}", version["schema"], version["selectableFields"])
}

fn is_empty(inner: &Inner, table: TableId) -> bool {
    let one = ListRequest { limit: NonZeroUsize::new(1), ..ListRequest::default() };
    inner.store.list(table, one).is_ok_and(|listing| listing.items.is_empty())
}

fn resource(
    definition: &Definition<'_>,
    version: &Value,
    names: &Names,
    schema: Schema,
    table: TableId,
    reads_as_stored: bool,
) -> Resource {
    let version_name = version["name"].as_str().unwrap_or_default();
    let kind = definition.text("/spec/names/kind");
    let gvk = GroupVersionKind::new(definition.group(), version_name, kind);
    let below = &version["subresources"];
    let mut subresources = Vec::new();
    if below.get("status").is_some_and(|status| !status.is_null()) {
        let verbs = vec![Verb::Get, Verb::Patch, Verb::Update];
        subresources.push(Subresource { name: "status".to_owned(), gvk: gvk.clone(), verbs });
    }
    let scale = below.get("scale").filter(|scale| !scale.is_null()).map(|scale| Scale {
        spec_replicas: pointer(scale["specReplicasPath"].as_str().unwrap_or_default()),
        status_replicas: pointer(scale["statusReplicasPath"].as_str().unwrap_or_default()),
        selector: scale["labelSelectorPath"].as_str().filter(|path| !path.is_empty()).map(pointer),
    });
    if scale.is_some() {
        let gvk = GroupVersionKind::new("autoscaling", "v1", "Scale");
        let verbs = vec![Verb::Get, Verb::Patch, Verb::Update];
        subresources.push(Subresource { name: "scale".to_owned(), gvk, verbs });
    }
    let selectable = version["selectableFields"].as_array().into_iter().flatten();
    let selectable = selectable.filter_map(|field| field["jsonPath"].as_str());
    let selectable =
        selectable.map(|path| (path.trim_start_matches('.').to_owned(), pointer(path))).collect();
    let deprecation = (version["deprecated"] == true).then(|| {
        let default = format!("{}/{version_name} {kind} is deprecated", definition.group());
        version["deprecationWarning"].as_str().map_or(default, str::to_owned)
    });
    Resource {
        names: names.clone(),
        namespaced: definition.namespaced(),
        table,
        verbs: VERBS.to_vec(),
        head: Resource::head(kind, &gvk.group_version().to_string()),
        schema_text: Some(schema_text(version)),
        behaviour: Box::new(Custom {
            gvk: gvk.clone(),
            group_resource: GroupResource::new(definition.group(), &names.plural),
            schema: Arc::new(schema),
            has_status: subresources.iter().any(|below| below.name == "status"),
            scale,
            selectable,
            reads_as_stored,
            is_terminating: definition.is_terminating(),
            deprecation,
        }),
        subresources,
        gvk,
    }
}

/// A simple JSON path, `.spec.replicas`, as a JSON pointer.
fn pointer(path: &str) -> String {
    let unescaped = path.replace("['", ".").replace("']", "");
    unescaped.replace('.', "/")
}

fn write_conditions(
    inner: &Inner,
    definitions: &Arc<Resource>,
    name: &str,
    accepted: &Result<Names, (&'static str, String)>,
) {
    let now = object::timestamp(inner.clock.system_time());
    let modify = |mut crd: Value| {
        let was_established = Definition::new(&crd).is_established();
        match accepted {
            Ok(_) => {
                let names = crd.pointer("/spec/names").cloned().unwrap_or_else(|| json!({}));
                child_mut(&mut crd, "status").insert("acceptedNames".to_owned(), names);
                set_condition(&mut crd, "NamesAccepted", true, "NoConflicts", "no conflicts found", &now);
                if !was_established {
                    let message = "the initial names have been accepted";
                    set_condition(&mut crd, "Established", true, "InitialNamesAccepted", message, &now);
                }
            }
            Err((reason, message)) => {
                set_condition(&mut crd, "NamesAccepted", false, reason, message, &now);
                if !was_established {
                    let message = "not all names are accepted";
                    set_condition(&mut crd, "Established", false, "NotAccepted", message, &now);
                }
            }
        }
        Ok(stripped(crd))
    };
    let query = Query::default();
    // A definition that was deleted meanwhile needs no conditions.
    let _ = Write::by_server(inner, definitions, &query).update(
        name,
        WriteTarget::Status,
        Change::Modify(&modify),
    );
}

fn stripped(mut object: Value) -> Decoded {
    crate::object::strip_kind(&mut object);
    Decoded { object, complaints: Vec::new() }
}

/// Deletes all objects of a definition that is being deleted, and then the definition.
fn clean_up(inner: &Inner, definitions: &Arc<Resource>, crd: &Value) {
    let definition = Definition::new(crd);
    let plural = definition.text("/spec/names/plural");
    if let Some(resource) = inner.registry.resources().custom(definition.group(), plural).cloned()
        && let Ok(listing) = inner.store.list(resource.table, ListRequest::default())
    {
        let query = Query::default();
        for record in &listing.items {
            let (namespace, name) = object::split_key(&record.key);
            let mut write = Write::by_server(inner, &resource, &query);
            write.namespace = namespace;
            // Objects with finalizers are waited for; missing objects are no error.
            let _ = write.delete(name, &DeleteOptions::default());
        }
    }
    finish(inner, definitions, crd);
}

/// Removes a definition that is being deleted, if it has no objects left.
fn finish(inner: &Inner, definitions: &Arc<Resource>, crd: &Value) {
    let definition = Definition::new(crd);
    let waits = finalizers(crd).iter().any(|finalizer| finalizer == CLEANUP_FINALIZER);
    if !waits || !is_empty(inner, table(inner, &definition)) {
        return;
    }
    let modify = |mut crd: Value| {
        let kept = finalizers(&crd).into_iter().filter(|finalizer| finalizer != CLEANUP_FINALIZER).collect();
        set_finalizers(&mut crd, kept);
        Ok(stripped(crd))
    };
    let query = Query::default();
    let gone = Write::by_server(inner, definitions, &query).update(
        definition.name(),
        WriteTarget::Status,
        Change::Modify(&modify),
    );
    if gone.is_ok_and(|outcome| matches!(outcome, crate::write::Outcome::Deleted { .. })) {
        // A definition that is stored under its name by now is served.
        definition_changed(inner, definition.name());
    }
}
