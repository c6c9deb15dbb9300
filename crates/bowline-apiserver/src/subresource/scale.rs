//! `scale`: the one number that autoscalers know, wherever a kind keeps it.

use bowline_machinery::{FieldError, FieldPath, GroupKind, LabelSelector, Status};
use serde_json::{Value, json};

use crate::decode::Decoded;
use crate::negotiate;
use crate::object::{self, meta_str};
use crate::read;
use crate::request::Verb;
use crate::resource::{Part, Scale};
use crate::rest::{Exchange, PatchBody};
use crate::server::{Answer, method_not_allowed};
use crate::write::Change;

pub(super) fn answer(exchange: &Exchange<'_>, verb: Verb, name: &str) -> Result<(Answer, bool), Status> {
    let scale = exchange.resource.behaviour.scale().ok_or_else(Status::no_such_path)?;
    match verb {
        Verb::Get => {
            let key = object::key(exchange.namespace, name);
            let record = read::get(&exchange.inner.store, &exchange.resource, &key, exchange.query)?;
            let object = exchange.resource.decode(&record.body)?;
            Ok((Answer::json(200, &scale.of(&object)), false))
        }
        Verb::Update => {
            negotiate::check_json(exchange.headers)?;
            let sent = parse(exchange.body)?;
            change(exchange, name, &scale, &|_| Ok(sent.clone()))
        }
        Verb::Patch => {
            let patch = PatchBody::parse(negotiate::patch(exchange.headers)?, exchange.body)?;
            change(exchange, name, &scale, &|present| patch.apply(present))
        }
        _ => Err(method_not_allowed()),
    }
}

fn parse(body: &[u8]) -> Result<Value, Status> {
    let parsed = bowline_machinery::parse_json(body)
        .map_err(|error| Status::bad_request(format!("the Scale cannot be read: {error}")))?;
    let kind = parsed.value.get("kind").and_then(Value::as_str).unwrap_or("Scale");
    if !parsed.value.is_object() || kind != "Scale" {
        return Err(Status::bad_request(format!("{kind} in version \"v1\" cannot be handled as a Scale")));
    }
    Ok(parsed.value)
}

/// Changes the number of replicas to what `desired` makes of the present scale.
fn change(
    exchange: &Exchange<'_>,
    name: &str,
    scale: &Scale,
    desired: &dyn Fn(Value) -> Result<Value, Status>,
) -> Result<(Answer, bool), Status> {
    let mut write = exchange.write("UpdateOptions")?;
    let modify = |object: Value| {
        let wanted = desired(scale.of(&object))?;
        let replicas = check(&wanted, name)?;
        let mut object = object;
        if let Some(fields) = object.as_object_mut() {
            fields.remove("apiVersion");
            fields.remove("kind");
        }
        set(&mut object, &scale.spec_replicas, replicas.into());
        let metadata = object::metadata_mut(&mut object);
        match meta_str(&wanted, "resourceVersion") {
            "" => metadata.remove("resourceVersion"),
            version => metadata.insert("resourceVersion".to_owned(), version.into()),
        };
        if !meta_str(&wanted, "uid").is_empty() {
            metadata.insert("uid".to_owned(), meta_str(&wanted, "uid").into());
        }
        Ok(Decoded { object, complaints: Vec::new() })
    };
    let outcome = write.update(name, Part::Main, Change::Modify(&modify))?;
    crate::custom::committed(exchange.inner, &exchange.resource, &outcome);
    let committed = outcome.is_commit();
    let object = outcome.into_object(&exchange.resource)?;
    Ok((Answer::json(200, &scale.of(&object)), committed))
}

fn check(wanted: &Value, name: &str) -> Result<i64, Status> {
    let kind = GroupKind::new("autoscaling", "Scale");
    let replicas = match wanted.pointer("/spec/replicas") {
        None | Some(Value::Null) => 0,
        Some(replicas) => replicas
            .as_i64()
            .filter(|replicas| i32::try_from(*replicas).is_ok())
            .ok_or_else(|| Status::bad_request("Scale in version \"v1\" cannot be handled as a Scale: json: cannot unmarshal spec.replicas into Go struct field ScaleSpec.spec.replicas of type int32"))?,
    };
    if replicas < 0 {
        let path = FieldPath::new("spec").child("replicas");
        let error = FieldError::invalid(&path, replicas, "must be greater than or equal to 0");
        return Err(Status::invalid(&kind, name, &[error]));
    }
    match meta_str(wanted, "name") {
        "" => Ok(replicas),
        sent if sent == name => Ok(replicas),
        sent => Err(Status::bad_request(format!(
            "the name of the object ({sent}) does not match the name on the URL ({name})"
        ))),
    }
}

/// Sets a field, making what is missing on the way to it.
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
