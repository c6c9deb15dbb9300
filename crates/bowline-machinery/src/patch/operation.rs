//! One operation of a JSON patch on a document. The error texts are those of `evanphx/json-patch` v4.

use std::num::IntErrorKind;

use serde_json::{Map, Value};

use super::{MAX_JSON_PATCH_WORK, mistyped};
use crate::MAX_JSON_DEPTH;
use crate::quote::quoted;

const MISSING: &str = "missing value";
const TEST_FAILED: &str = "test failed";

pub(super) struct Document {
    root: Value,
    budget: Budget,
    /// Bytes of JSON that `copy` has added.
    copied: usize,
    copy_limit: usize,
}

type Operation = Map<String, Value>;
type Done<T = (), E = String> = Result<T, E>;

/// Reasons why an operation fails.
pub(super) enum Refusal {
    DoesNotApply(String),
    /// The new value would be nested deeper than [`MAX_JSON_DEPTH`].
    TooDeep,
    /// The operations so far have cost more than [`MAX_JSON_PATCH_WORK`].
    TooMuchWork,
}

/// The remaining work of a patch.
struct Budget(usize);

impl Budget {
    fn spend(&mut self, work: usize) -> Done<(), Refusal> {
        self.0 = self.0.checked_sub(work).ok_or(Refusal::TooMuchWork)?;
        Ok(())
    }
}

impl From<String> for Refusal {
    fn from(message: String) -> Self {
        Self::DoesNotApply(message)
    }
}

impl Document {
    pub(super) fn new(root: Value, copy_limit: usize) -> Self {
        Self { root, budget: Budget(MAX_JSON_PATCH_WORK), copied: 0, copy_limit }
    }

    pub(super) fn into_value(self) -> Value {
        self.root
    }

    /// Keeps the document within [`MAX_JSON_DEPTH`], if it was within that before.
    pub(super) fn run(&mut self, operation: &Operation) -> Done<(), Refusal> {
        match operation.get("op").and_then(Value::as_str) {
            Some("add") => self.add(operation),
            Some("remove") => self.remove(operation),
            Some("replace") => self.replace(operation),
            Some("move") => self.r#move(operation),
            Some("copy") => self.copy(operation),
            Some("test") => Ok(self.test(operation)?),
            other => Err(format!("Unexpected kind: {}", other.unwrap_or("unknown")).into()),
        }
    }

    fn add(&mut self, operation: &Operation) -> Done<(), Refusal> {
        let path = path(operation).map_err(|_| format!("add operation failed to decode path: {MISSING}"))?;
        let missing = || format!("add operation does not apply: doc is missing path: \"{path}\": {MISSING}");
        let (container, key) = find(&mut self.root, path).ok_or_else(missing)?;
        let value = value(operation);
        fits(path, &value, &mut self.budget)?;
        self.budget.spend(container.shift_work(&key))?;
        container.add(&key, value).map_err(|error| format!("error in add for path: '{path}': {error}"))?;
        Ok(())
    }

    fn remove(&mut self, operation: &Operation) -> Done<(), Refusal> {
        let path =
            path(operation).map_err(|_| format!("remove operation failed to decode path: {MISSING}"))?;
        let missing =
            || format!("remove operation does not apply: doc is missing path: \"{path}\": {MISSING}");
        let (container, key) = find(&mut self.root, path).ok_or_else(missing)?;
        self.budget.spend(container.shift_work(&key))?;
        container.remove(&key).map_err(|error| format!("error in remove for path: '{path}': {error}"))?;
        Ok(())
    }

    fn replace(&mut self, operation: &Operation) -> Done<(), Refusal> {
        let path =
            path(operation).map_err(|error| format!("replace operation failed to decode path: {error}"))?;
        let value = value(operation);
        fits(path, &value, &mut self.budget)?;
        if path.is_empty() {
            if !(value.is_object() || value.is_array()) {
                return Err("replace operation value must be object or array: %!w(<nil>)".to_owned().into());
            }
            self.root = value;
            return Ok(());
        }
        let missing = |what: &str| {
            format!("replace operation does not apply: doc is missing {what}: {path}: {MISSING}")
        };
        let (container, key) = find(&mut self.root, path).ok_or_else(|| missing("path"))?;
        container.get(&key).map_err(|_| missing("key"))?;
        container.set(&key, value).map_err(|error| format!("error in remove for path: '{path}': {error}"))?;
        Ok(())
    }

    fn r#move(&mut self, operation: &Operation) -> Done<(), Refusal> {
        let from =
            from(operation).map_err(|error| format!("move operation failed to decode from: {error}"))?;
        let missing = |what: &str, place: &str| {
            format!("move operation does not apply: doc is missing {what} path: {place}: {MISSING}")
        };
        let (container, key) = find(&mut self.root, from).ok_or_else(|| missing("from", from))?;
        self.budget.spend(container.shift_work(&key))?;
        let value =
            container.remove(&key).map_err(|error| format!("error in move for path: '{key}': {error}"))?;
        let path =
            path(operation).map_err(|error| format!("move operation failed to decode path: {error}"))?;
        let (container, key) = find(&mut self.root, path).ok_or_else(|| missing("destination", path))?;
        // A value that moves no further down fits, since it fitted before; it is not measured.
        if steps(path) > steps(from) {
            fits(path, &value, &mut self.budget)?;
        }
        self.budget.spend(container.shift_work(&key))?;
        container.add(&key, value).map_err(|error| format!("error in move for path: '{path}': {error}"))?;
        Ok(())
    }

    fn copy(&mut self, operation: &Operation) -> Done<(), Refusal> {
        let from =
            from(operation).map_err(|error| format!("copy operation failed to decode from: {error}"))?;
        let missing = |what: &str, place: &str| {
            format!("copy operation does not apply: doc is missing {what} path: {place}: {MISSING}")
        };
        let (container, key) = find(&mut self.root, from).ok_or_else(|| missing("from", from))?;
        let found =
            container.get(&key).map_err(|error| format!("error in copy for from: '{from}': {error}"))?;
        let copy = found.cloned().unwrap_or_default();
        let path = path(operation).map_err(|_| format!("copy operation failed to decode path: {MISSING}"))?;
        if find(&mut self.root, path).is_none() {
            return Err(missing("destination", path).into());
        }
        if !copy.is_null() {
            self.copied += copy.to_string().len();
        }
        if self.copied > self.copy_limit {
            return Err(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {}, exceeding the limit {}",
                self.copied, self.copy_limit
            )
            .into());
        }
        let (container, key) = find(&mut self.root, path).ok_or_else(|| missing("destination", path))?;
        fits(path, &copy, &mut self.budget)?;
        self.budget.spend(container.shift_work(&key))?;
        container
            .add(&key, copy)
            .map_err(|error| format!("error while adding value during copy: {error}"))?;
        Ok(())
    }

    fn test(&mut self, operation: &Operation) -> Done {
        let path =
            path(operation).map_err(|error| format!("test operation failed to decode path: {error}"))?;
        let expected = value(operation);
        let missing = || format!("test operation does not apply: is missing path: {path}: {MISSING}");
        let is_equal = if path.is_empty() {
            self.root == expected
        } else {
            let (container, key) = find(&mut self.root, path).ok_or_else(missing)?;
            let found =
                container.get(&key).map_err(|error| format!("error in test for path: '{path}': {error}"))?;
            *found.unwrap_or(&Value::Null) == expected
        };
        if is_equal { Ok(()) } else { Err(format!("testing value {path} failed: {TEST_FAILED}")) }
    }
}

/// The container that holds a path's target, and the target's key in it.
fn find<'a>(root: &'a mut Value, path: &str) -> Option<(Container<'a>, String)> {
    let (_, below) = path.split_once('/')?;
    let (way, key) = below.rsplit_once('/').map_or((None, below), |(way, key)| (Some(way), key));
    let mut container = Container::of(root)?;
    for part in way.into_iter().flat_map(|way| way.split('/')) {
        container = Container::of(container.into_child(&decoded(part))?)?;
    }
    Some((container, decoded(key)))
}

/// The number of levels above a path's target.
fn steps(path: &str) -> usize {
    path.matches('/').count()
}

/// Whether a value at a path stays within the maximum depth.
fn fits(path: &str, value: &Value, budget: &mut Budget) -> Done<(), Refusal> {
    let left = MAX_JSON_DEPTH.checked_sub(steps(path)).ok_or(Refusal::TooDeep)?;
    measure(value, left, budget)
}

/// Measures the depth; each visited value costs one unit of the budget. The recursion stops at the maximum depth.
fn measure(value: &Value, left: usize, budget: &mut Budget) -> Done<(), Refusal> {
    let below = || left.checked_sub(1).ok_or(Refusal::TooDeep);
    match value {
        Value::Object(object) => {
            let left = below()?;
            budget.spend(object.len())?;
            object.values().try_for_each(|child| measure(child, left, budget))
        }
        Value::Array(list) => {
            let left = below()?;
            budget.spend(list.len())?;
            list.iter().try_for_each(|child| measure(child, left, budget))
        }
        _ => Ok(()),
    }
}

/// An object or a list.
enum Container<'a> {
    Object(&'a mut Map<String, Value>),
    List(&'a mut Vec<Value>),
}

impl<'a> Container<'a> {
    fn of(value: &'a mut Value) -> Option<Self> {
        match value {
            Value::Object(object) => Some(Self::Object(object)),
            Value::Array(list) => Some(Self::List(list)),
            _ => None,
        }
    }

    fn into_child(self, key: &str) -> Option<&'a mut Value> {
        match self {
            Self::Object(object) => object.get_mut(key),
            Self::List(list) => {
                let place = place(key, list.len()).ok()?;
                list.get_mut(place)
            }
        }
    }

    /// The work of inserting or removing at `key`: a list shifts all later values, which is cheap per value.
    fn shift_work(&self, key: &str) -> usize {
        match self {
            Self::Object(_) => 0,
            Self::List(list) => list.len().saturating_sub(place(key, list.len()).unwrap_or(list.len())) / 8,
        }
    }

    /// The value at a key; `None` for a missing key of an object.
    fn get(&self, key: &str) -> Done<Option<&Value>> {
        match self {
            Self::Object(object) => Ok(object.get(key)),
            Self::List(list) => Ok(list.get(place(key, list.len())?)),
        }
    }

    fn set(self, key: &str, value: Value) -> Done {
        match self {
            Self::Object(object) => {
                object.insert(key.to_owned(), value);
            }
            Self::List(list) => {
                let place = place(key, list.len())?;
                list[place] = value;
            }
        }
        Ok(())
    }

    fn add(self, key: &str, value: Value) -> Done {
        match self {
            Self::Object(object) => {
                object.insert(key.to_owned(), value);
            }
            Self::List(list) if key == "-" => list.push(value),
            Self::List(list) => {
                let index = index(key)
                    .map_err(|error| format!("value was not a proper array index: '{key}': {error}"))?;
                list.insert(within(index, list.len() + 1)?, value);
            }
        }
        Ok(())
    }

    fn remove(self, key: &str) -> Done<Value> {
        match self {
            Self::Object(object) => object
                .remove(key)
                .ok_or_else(|| format!("Unable to remove nonexistent key: {key}: {MISSING}")),
            Self::List(list) => {
                let place = place(key, list.len())?;
                Ok(list.remove(place))
            }
        }
    }
}

/// The index in a list of this length that a key denotes.
fn place(key: &str, length: usize) -> Done<usize> {
    within(index(key)?, length)
}

/// An index; a negative one counts from the end.
fn within(index: i64, length: usize) -> Done<usize> {
    let place = if index < 0 {
        usize::try_from(index.unsigned_abs()).ok().and_then(|back| length.checked_sub(back))
    } else {
        usize::try_from(index).ok().filter(|place| *place < length)
    };
    place.ok_or_else(|| format!("Unable to access invalid index: {index}: invalid index referenced"))
}

fn index(key: &str) -> Done<i64> {
    key.parse().map_err(|error: std::num::ParseIntError| {
        let why = match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        format!("strconv.Atoi: parsing {}: {why}", quoted(key))
    })
}

fn path(operation: &Operation) -> Done<&str> {
    text(operation, "path", "operation missing path field")
}

fn from(operation: &Operation) -> Done<&str> {
    text(operation, "from", "operation, missing from field")
}

fn text<'a>(operation: &'a Operation, field: &str, missing: &str) -> Done<&'a str> {
    match operation.get(field) {
        None | Some(Value::Null) => Err(format!("{missing}: {MISSING}")),
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(mistyped(other, "value of type string")),
    }
}

/// The operation's value; an absent one is null.
fn value(operation: &Operation) -> Value {
    operation.get("value").cloned().unwrap_or_default()
}

fn decoded(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}
