//! `scale`: the number of replicas for autoscalers, wherever a kind stores it.

use bowline_machinery::facts::{self, UnknownFields};
use bowline_machinery::{FieldError, FieldPath, GroupKind, LabelSelector, Status};
use serde_json::{Value, json};

use crate::decode::Decoded;
use crate::negotiate;
use crate::object::{self, meta_str};
use crate::patch::{self, Patch};
use crate::read;
use crate::request::Verb;
use crate::resource::{Scale, WriteTarget};
use crate::rest::ResourceRequest;
use crate::server::{ApiResponse, method_not_allowed};
use crate::write::{self, Change, Write};

pub(super) fn answer(exchange: &ResourceRequest<'_>, verb: Verb, name: &str) -> Result<ApiResponse, Status> {
    let scale = exchange.resource.behaviour.scale().ok_or_else(Status::no_such_path)?;
    match verb {
        Verb::Get => {
            let key = object::key(exchange.namespace, name);
            let record = read::get(&exchange.inner.store, &exchange.resource, &key, exchange.query)?;
            let object = exchange.resource.decode(&record.body)?;
            Ok(ApiResponse::json(200, &scale.of(&object)))
        }
        Verb::Update => {
            negotiate::check_json(exchange.headers)?;
            let parsed = bowline_machinery::parse_json(exchange.body)
                .map_err(|error| Status::bad_request(format!("the Scale cannot be read: {error}")))?;
            let sent = read_scale(parsed.value).map_err(|(kind, why)| {
                Status::bad_request(format!("{kind} in version \"v1\" cannot be handled as a Scale: {why}"))
            })?;
            write::check_name(&sent, name)?;
            let mut write = exchange.write("UpdateOptions")?;
            let checked = exchange.write("UpdateOptions")?;
            change(exchange, &mut write, name, &scale, &|present| {
                checked.check_uid(&sent, meta_str(present, "uid"), name)?;
                Ok(sent.clone())
            })
        }
        Verb::Patch => {
            let patch = Patch::parse(exchange)?;
            let mut write = exchange.write("PatchOptions")?;
            change(exchange, &mut write, name, &scale, &|present| {
                let patched = patch.apply(present)?;
                let wanted =
                    read_scale(patched.clone()).map_err(|(_, why)| patch::refused(&patched, &why))?;
                write::check_name(&wanted, name)?;
                Ok(wanted)
            })
        }
        _ => Err(method_not_allowed()),
    }
}

/// Decodes a `Scale`; otherwise returns the stated kind and the error.
fn read_scale(value: Value) -> Result<Value, (String, String)> {
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or("Scale").to_owned();
    if kind != "Scale" {
        let why = format!("converting (v1.{kind}) to (autoscaling.Scale): unknown conversion");
        return Err((kind, why));
    }
    match facts::type_of("autoscaling", "v1", "Scale") {
        Some(scale) => match scale.normalise(value, UnknownFields::Ignore) {
            Ok(normalised) => Ok(normalised.value),
            Err(error) => Err((kind, error.to_string())),
        },
        None => Ok(value),
    }
}

/// Sets the number of replicas that `desired` returns for the present scale.
fn change(
    exchange: &ResourceRequest<'_>,
    write: &mut Write<'_>,
    name: &str,
    scale: &Scale,
    desired: &dyn Fn(&Value) -> Result<Value, Status>,
) -> Result<ApiResponse, Status> {
    let modify = |mut object: Value| {
        let wanted = desired(&scale.of(&object))?;
        let replicas = check(&wanted, name)?;
        crate::object::strip_kind(&mut object);
        set(&mut object, &scale.spec_replicas, replicas.into());
        for field in ["namespace", "resourceVersion", "uid"] {
            object::set_meta_str(&mut object, field, meta_str(&wanted, field));
        }
        Ok(Decoded { object, complaints: Vec::new() })
    };
    let outcome = write.update(name, WriteTarget::Main, Change::Modify(&modify))?;
    crate::custom::committed(exchange.inner, &exchange.resource, &outcome);
    exchange.note(&outcome);
    let object = outcome.into_object(&exchange.resource)?;
    Ok(ApiResponse::json(200, &scale.of(&object)))
}

fn check(wanted: &Value, name: &str) -> Result<i64, Status> {
    let replicas = wanted.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
    if replicas < 0 {
        let path = FieldPath::new("spec").child("replicas");
        let error = FieldError::invalid(&path, replicas, "must be greater than or equal to 0");
        return Err(Status::invalid(&GroupKind::new("autoscaling", "Scale"), name, &[error]));
    }
    Ok(replicas)
}

/// Sets a field and creates its missing parents.
fn set(object: &mut Value, pointer: &str, value: Value) {
    let mut place = object;
    for part in pointer.trim_start_matches('/').split('/') {
        place = object::into_map(place).entry(part).or_insert(Value::Null);
    }
    *place = value;
}

impl Scale {
    /// The scale of an object.
    fn of(&self, object: &Value) -> Value {
        let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
        let mut metadata = json!({"name": meta_str(object, "name")});
        for field in ["namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if !meta_str(object, field).is_empty() {
                metadata[field] = meta_str(object, field).into();
            }
        }
        let mut spec = json!({});
        if number(&self.spec_replicas) != 0 {
            spec["replicas"] = number(&self.spec_replicas).into();
        }
        let mut status = json!({"replicas": number(&self.status_replicas)});
        let selector = self.selector.as_ref().and_then(|pointer| object.pointer(pointer));
        let selector = match selector {
            Some(Value::String(text)) => text.clone(),
            Some(selector) => {
                LabelSelector::from_object(selector).map(|selector| selector.to_string()).unwrap_or_default()
            }
            None => String::new(),
        };
        if !selector.is_empty() {
            status["selector"] = selector.into();
        }
        json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
    }
}
