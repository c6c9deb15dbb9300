//! Dispatch of a resource request: the handler of each verb.

use std::cell::Cell;
use std::sync::Arc;

use bowline_machinery::{GroupResource, Status};
use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;

use crate::authentication::User;
use crate::decode;
use crate::delete::{self, DeleteOptions};
use crate::hooks::{Hook, RequestInfo};
use crate::negotiate;
use crate::object::{self, meta_str};
use crate::patch::Patch;
use crate::query::Query;
use crate::read::{self, ResponseEncoder};
use crate::request::{ResourcePath, Verb};
use crate::resource::{Resource, WriteTarget};
use crate::server::{ApiResponse, Inner, method_not_allowed};
use crate::write::{self, Change, Outcome, Write};
use crate::{custom, subresource, watch};

/// One request to a resource.
pub(crate) struct ResourceRequest<'a> {
    pub(crate) inner: &'a Inner,
    pub(crate) call: &'a Arc<RequestInfo>,
    pub(crate) user: &'a User,
    pub(crate) resource: Arc<Resource>,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) query: &'a Query,
    pub(crate) body: &'a Bytes,
    /// Whether it has written anything, whatever its response.
    committed: Cell<bool>,
}

/// The response, and whether anything was written. A request that fails halfway may have written.
pub(crate) fn answer(
    inner: &Inner,
    call: &Arc<RequestInfo>,
    user: &User,
    path: &ResourcePath,
    headers: &HeaderMap,
    query: &Query,
    body: &Bytes,
) -> (Result<ApiResponse, Status>, bool) {
    match find(inner, call, path) {
        Ok(Some(resource)) => {
            let exchange = ResourceRequest {
                inner,
                call,
                user,
                resource,
                namespace: path.namespace.as_deref(),
                name: path.name.as_deref(),
                headers,
                query,
                body,
                committed: Cell::new(false),
            };
            let answer = match &path.subresource {
                Some(name) => subresource::answer(&exchange, name),
                None => exchange.main(),
            };
            (answer, exchange.committed.get())
        }
        Ok(None) => (Ok(ApiResponse::no_page()), false),
        Err(status) => (Err(status), false),
    }
}

/// The resource of a path, or `None` if no resource serves it.
fn find(inner: &Inner, call: &RequestInfo, path: &ResourcePath) -> Result<Option<Arc<Resource>>, Status> {
    let Some(resource) = inner.registry.find(&path.group, &path.version, &path.resource) else {
        // Only built-in groups are known to have no other resource.
        let is_built_in = inner.registry.resources().is_built_in(&path.group);
        return if is_built_in { Err(Status::no_such_path()) } else { Ok(None) };
    };
    if path.overlong {
        return Err(Status::no_such_path());
    }
    if path.watch && path.subresource.is_some() {
        return Err(Status::no_such_path());
    }
    // Namespaced objects exist only below their namespaces; cluster-scoped ones never do.
    let fits = match (resource.namespaced, &path.namespace, &path.name) {
        (true, None, None) => matches!(call.verb, Verb::List | Verb::Watch),
        (namespaced, namespace, _) => namespaced == namespace.is_some(),
    };
    if !fits {
        let listable = resource.namespaced && path.namespace.is_none() && path.name.is_none();
        return Err(if listable { method_not_allowed() } else { Status::no_such_path() });
    }
    Ok(Some(resource))
}

/// Built-in kinds do not support `HEAD`; for custom ones it is a `GET`.
pub(crate) fn check_head(inner: &Inner, path: &ResourcePath) -> Result<(), Status> {
    let resource = inner.registry.find(&path.group, &path.version, &path.resource);
    if resource.is_some_and(|resource| !resource.behaviour.items_have_kind()) {
        return Err(method_not_allowed());
    }
    Ok(())
}

impl ResourceRequest<'_> {
    fn main(&self) -> Result<ApiResponse, Status> {
        let verb = self.call.verb;
        if !self.resource.verbs.contains(&verb) {
            return Err(method_not_allowed());
        }
        match (verb, self.name) {
            (Verb::Get, Some(name)) => self.get(name),
            (Verb::List, None) => self.list(),
            (Verb::Watch, _) => self.watch(),
            (Verb::Create, None) => self.create(),
            (Verb::Update, Some(name)) => self.update(name, WriteTarget::Main),
            (Verb::Patch, Some(name)) => self.patch(name, WriteTarget::Main),
            (Verb::Delete, Some(name)) => self.delete(name),
            (Verb::DeleteCollection, None) => self.delete_collection(),
            _ => Err(method_not_allowed()),
        }
    }

    pub(crate) fn rendering(&self) -> Result<ResponseEncoder, Status> {
        let is_custom = self.resource.behaviour.items_have_kind();
        Ok(ResponseEncoder {
            resource: self.resource.clone(),
            form: negotiate::form(self.headers, is_custom)?,
        })
    }

    pub(crate) fn get(&self, name: &str) -> Result<ApiResponse, Status> {
        let rendering = self.rendering()?;
        let key = object::key(self.namespace, name);
        let record = read::get(&self.inner.store, &self.resource, &key, self.query)?;
        rendering.check_form(false)?;
        Ok(ApiResponse::bytes(200, rendering.object(&record.body)))
    }

    fn list(&self) -> Result<ApiResponse, Status> {
        let rendering = self.rendering()?;
        read::list(&self.inner.store, &rendering, self.namespace, self.query).map(ApiResponse::stream)
    }

    fn watch(&self) -> Result<ApiResponse, Status> {
        let rendering = self.rendering()?;
        let (call, hook) = (self.call.clone(), self.frame_hook());
        watch::watch(&self.inner.store, rendering, self.namespace, self.query, &self.inner.clock, call, hook)
            .map(ApiResponse::stream)
    }

    /// The hook for the frames of a watch.
    fn frame_hook(&self) -> Option<Arc<dyn Hook>> {
        let hook = self.inner.hook.clone();
        #[cfg(feature = "faults")]
        if let Some(faults) = &self.inner.faults {
            return Some(crate::faults::frame_hook(faults, hook, self.query, &self.resource.gvk.kind));
        }
        hook
    }

    pub(crate) fn write(&self, options: &str) -> Result<Write<'_>, Status> {
        write::check_options(self.query, &self.query.dry_run, options)?;
        Ok(self.write_with(!self.query.dry_run.is_empty()))
    }

    pub(crate) fn write_with(&self, dry_run: bool) -> Write<'_> {
        Write {
            user: self.user,
            namespace: self.namespace,
            dry_run,
            ..Write::by_server(self.inner, &self.resource, self.query)
        }
    }

    fn create(&self) -> Result<ApiResponse, Status> {
        let rendering = self.rendering()?;
        let mut write = self.write("CreateOptions")?;
        negotiate::check_json(self.headers)?;
        let mut decoded = decode::object(&self.resource, self.body)?;
        write.check_namespace(&mut decoded.object)?;
        let name = match meta_str(&decoded.object, "name") {
            "" => meta_str(&decoded.object, "generateName"),
            name => name,
        };
        self.check_namespace(name)?;
        self.resource.behaviour.check_create(name)?;
        let outcome = write.create(decoded)?;
        Ok(self.finish(&rendering, outcome, write.warnings))
    }

    pub(crate) fn update(&self, name: &str, part: WriteTarget) -> Result<ApiResponse, Status> {
        let rendering = self.rendering()?;
        let mut write = self.write("UpdateOptions")?;
        negotiate::check_json(self.headers)?;
        let decoded = decode::object(&self.resource, self.body)?;
        let creates = part == WriteTarget::Main && self.resource.behaviour.allows_create_on_update();
        let key = object::key(self.namespace, name);
        if creates && self.inner.store.get(self.resource.table, &key).is_none() {
            write::check_name(&decoded.object, name)?;
            self.check_namespace(name)?;
        }
        let outcome = write.update(name, part, Change::Replace(decoded))?;
        Ok(self.finish(&rendering, outcome, write.warnings))
    }

    pub(crate) fn patch(&self, name: &str, part: WriteTarget) -> Result<ApiResponse, Status> {
        let rendering = self.rendering()?;
        let mut write = self.write("PatchOptions")?;
        let patch = Patch::parse(self)?;
        let modify = |object: Value| patch.apply_to(&self.resource, &object, self.query);
        let outcome = write.update(name, part, Change::Modify(&modify))?;
        Ok(self.finish(&rendering, outcome, write.warnings))
    }

    fn delete(&self, name: &str) -> Result<ApiResponse, Status> {
        let rendering = self.rendering()?;
        let options = DeleteOptions::of(self.body, self.query)?;
        let mut write = self.write_with(options.dry_run());
        self.resource.behaviour.check_delete(name)?;
        let outcome = self.delete_by(&mut write, name, &options)?;
        Ok(self.finish(&rendering, outcome, write.warnings))
    }

    fn delete_collection(&self) -> Result<ApiResponse, Status> {
        let rendering = self.rendering()?;
        if let Some(error) = &self.query.list_error {
            return Err(error.clone());
        }
        let options = DeleteOptions::of(self.body, self.query)?;
        let selected = read::select(&self.inner.store, &rendering, self.namespace, self.query)?;
        for record in &selected.items {
            let (namespace, name) = object::split_key(&record.key);
            let mut write = self.write_with(options.dry_run());
            write.namespace = namespace;
            match self.delete_by(&mut write, name, &options) {
                Ok(outcome) => custom::committed(self.inner, &self.resource, &outcome),
                // Another client deleted it first: the result is the same.
                Err(status) if status.code == 404 => {}
                Err(status) => return Err(status),
            }
        }
        // The response has the objects in their state before.
        Ok(ApiResponse::stream(selected.into_body(rendering)))
    }

    /// Deletes an object, and records a write even if the object could not be deleted.
    pub(crate) fn delete_by(
        &self,
        write: &mut Write<'_>,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Outcome, Status> {
        write.delete_noting(name, options, &self.committed)
    }

    /// Records whether there was a write.
    pub(crate) fn note(&self, outcome: &Outcome) {
        outcome.note(&self.committed);
    }

    /// The response to a write.
    pub(crate) fn finish(
        &self,
        rendering: &ResponseEncoder,
        outcome: Outcome,
        warnings: Vec<String>,
    ) -> ApiResponse {
        self.note(&outcome);
        custom::committed(self.inner, &self.resource, &outcome);
        let mut answer = match outcome {
            Outcome::Stored { record, created, .. } => {
                ApiResponse::bytes(if created { 201 } else { 200 }, rendering.object(&record.body))
            }
            Outcome::Deleted { object } | Outcome::DryDeleted { object }
                if self.call.verb == Verb::Delete && !self.resource.behaviour.returns_deleted() =>
            {
                ApiResponse::status(&delete::deleted_status(&self.resource, &object))
            }
            Outcome::Deleted { object } | Outcome::DryDeleted { object } => {
                ApiResponse::bytes(200, self.render(rendering, object))
            }
            Outcome::DryRun { object, created } => {
                ApiResponse::bytes(if created { 201 } else { 200 }, self.render(rendering, object))
            }
        };
        answer.warnings = warnings;
        answer
    }

    fn render(&self, rendering: &ResponseEncoder, mut object: Value) -> Bytes {
        if rendering.form.is_metadata() {
            return rendering.object(&Bytes::from(object.to_string()));
        }
        decode::put_kind(&mut object, &self.resource);
        Bytes::from(object.to_string())
    }

    /// New objects need an existing namespace that is not being deleted.
    fn check_namespace(&self, name: &str) -> Result<(), Status> {
        let Some(namespace) = self.namespace else { return Ok(()) };
        let namespaces = GroupResource::new("", "namespaces");
        let missing = || Status::not_found(&namespaces, namespace);
        let resource = self.inner.registry.find("", "v1", "namespaces").ok_or_else(missing)?;
        let record = self.inner.store.get(resource.table, namespace).ok_or_else(missing)?;
        let terminating = record
            .meta
            .fields
            .iter()
            .any(|(field, value)| &**field == "status.phase" && &**value == "Terminating");
        if !terminating {
            return Ok(());
        }
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut status = Status::forbidden(&self.resource.group_resource(), name, &why);
        if let Some(details) = &mut status.details {
            details.causes.push(bowline_machinery::StatusCause {
                reason: Some("NamespaceTerminating".to_owned()),
                message: Some(format!("namespace {namespace} is being terminated")),
                field: Some("metadata.namespace".to_owned()),
            });
        }
        Err(status)
    }
}

impl Outcome {
    /// Whether something was written.
    pub(crate) fn is_commit(&self) -> bool {
        match self {
            Self::Stored { changed, .. } => *changed,
            Self::DryRun { .. } | Self::DryDeleted { .. } => false,
            Self::Deleted { .. } => true,
        }
    }

    /// Sets a mark that stays if something was written.
    pub(crate) fn note(&self, committed: &Cell<bool>) {
        if self.is_commit() {
            committed.set(true);
        }
    }

    /// The name of the object.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Stored { record, .. } => object::split_key(&record.key).1,
            Self::DryRun { object, .. } | Self::Deleted { object } | Self::DryDeleted { object } => {
                meta_str(object, "name")
            }
        }
    }

    pub(crate) fn into_object(self, resource: &Resource) -> Result<Value, Status> {
        match self {
            Self::Stored { record, .. } => resource.decode(&record.body),
            Self::DryRun { object, .. } | Self::Deleted { object } | Self::DryDeleted { object } => {
                Ok(object)
            }
        }
    }
}
