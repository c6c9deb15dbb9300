//! The default mutating admission plugins of kube-apiserver that concern one object: priorities, tolerations, runtime
//! classes, taints, default classes.

use bowline_machinery::{GroupResource, Quantity, Status};
use serde_json::{Value, json};

use super::limits;
use crate::admission::Admission;
use crate::object::{child_mut, into_map, meta_str};
use crate::resource::WriteTarget;

/// Default time that a pod stays on a lost node.
const TOLERATION_SECONDS: i64 = 300;

/// Pods: tolerations, priority, runtime class.
pub(super) fn pod(
    admission: &Admission<'_>,
    part: WriteTarget,
    pod: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    if part != WriteTarget::Main {
        return Ok(());
    }
    match old {
        None => {
            limits::set_defaults(admission, pod);
            priority(admission, pod)?;
            tolerate_lost_nodes(pod);
            runtime_class(admission, pod)?;
        }
        Some(old) => {
            tolerate_lost_nodes(pod);
            for field in ["priority", "preemptionPolicy"] {
                if let Some(before) = old.pointer(&format!("/spec/{field}")) {
                    child_mut(pod, "spec").entry(field).or_insert_with(|| before.clone());
                }
            }
        }
    }
    Ok(())
}

/// Sets a pod's priority: that of its class, or of the default class.
fn priority(admission: &Admission<'_>, pod: &mut Value) -> Result<(), Status> {
    let classes = GroupResource::new("scheduling.k8s.io", "priorityclasses");
    let name = pod.pointer("/spec/priorityClassName").and_then(Value::as_str).unwrap_or_default().to_owned();
    let class = if name.is_empty() {
        let all = admission.list_holding(&classes, br#""globalDefault":true"#);
        // Of several defaults, the lowest counts.
        let defaults = all.into_iter().filter(|class| class["globalDefault"] == true);
        defaults.min_by_key(|class| class["value"].as_i64())
    } else {
        let class = admission.get(&classes, &name);
        let why = || admission.forbidden(pod, &format!("no PriorityClass with name {name} was found"));
        Some(class.ok_or_else(why)?)
    };
    let value = class.as_ref().and_then(|class| class["value"].as_i64()).unwrap_or(0);
    let policy = class.as_ref().and_then(|class| class["preemptionPolicy"].as_str());
    let policy = policy.unwrap_or("PreemptLowerPriority").to_owned();
    let sent = pod.pointer("/spec/priority").and_then(Value::as_i64);
    if let Some(sent) = sent.filter(|sent| *sent != value) {
        let why = format!(
            "the integer value of priority ({sent}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        );
        return Err(admission.forbidden(pod, &why));
    }
    let sent = pod.pointer("/spec/preemptionPolicy").and_then(Value::as_str);
    if let Some(sent) = sent.filter(|sent| *sent != policy) {
        let why = format!(
            "the string value of PreemptionPolicy ({sent}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        );
        return Err(admission.forbidden(pod, &why));
    }
    let spec = child_mut(pod, "spec");
    if let Some(class) = class {
        spec.insert("priorityClassName".to_owned(), meta_str(&class, "name").into());
    }
    spec.insert("priority".to_owned(), value.into());
    spec.insert("preemptionPolicy".to_owned(), policy.into());
    Ok(())
}

/// Adds tolerations: a pod stays for five minutes on a node that is not ready or unreachable.
fn tolerate_lost_nodes(pod: &mut Value) {
    let tolerations = child_mut(pod, "spec").entry("tolerations").or_insert_with(|| json!([]));
    let Some(tolerations) = tolerations.as_array_mut() else { return };
    let sent = tolerations.clone();
    for taint in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let text =
            |toleration: &Value, field: &str| toleration[field].as_str().unwrap_or_default().to_owned();
        let tolerated = sent.iter().any(|toleration| {
            let (key, effect) = (text(toleration, "key"), text(toleration, "effect"));
            (key.is_empty() || key == taint) && (effect.is_empty() || effect == "NoExecute")
        });
        if !tolerated {
            tolerations.push(json!({
                "key": taint,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": TOLERATION_SECONDS,
            }));
        }
    }
}

/// Adds overhead and scheduling of a pod's runtime class.
fn runtime_class(admission: &Admission<'_>, pod: &mut Value) -> Result<(), Status> {
    let name = pod.pointer("/spec/runtimeClassName").and_then(Value::as_str).map(str::to_owned);
    let sent = pod.pointer("/spec/overhead").filter(|overhead| !overhead.is_null()).cloned();
    let Some(name) = name else {
        if sent.is_none() {
            return Ok(());
        }
        let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
        return Err(admission.forbidden(pod, why));
    };
    let classes = GroupResource::new("node.k8s.io", "runtimeclasses");
    let Some(class) = admission.get(&classes, &name) else {
        return Err(admission.forbidden(pod, &format!("pod rejected: RuntimeClass {name:?} not found")));
    };
    let overhead = class.pointer("/overhead/podFixed").filter(|overhead| !overhead.is_null()).cloned();
    match (&overhead, &sent) {
        (Some(overhead), None) => {
            child_mut(pod, "spec").insert("overhead".to_owned(), overhead.clone());
        }
        (None, Some(_)) => {
            let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
            return Err(admission.forbidden(pod, why));
        }
        (Some(overhead), Some(sent)) if overhead != sent => {
            let why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
            return Err(admission.forbidden(pod, why));
        }
        _ => {}
    }
    for (key, value) in
        class.pointer("/scheduling/nodeSelector").and_then(Value::as_object).into_iter().flatten()
    {
        let selector = into_map(child_mut(pod, "spec").entry("nodeSelector").or_insert_with(|| json!({})));
        if selector.get(key).is_some_and(|present| present != value) {
            let why = format!("conflict: cannot merge nodeSelector of RuntimeClass {name}");
            return Err(admission.forbidden(pod, &why));
        }
        selector.insert(key.clone(), value.clone());
    }
    if let Some(more) = class.pointer("/scheduling/tolerations").and_then(Value::as_array)
        && let Some(present) = child_mut(pod, "spec").get_mut("tolerations").and_then(Value::as_array_mut)
    {
        let missing: Vec<_> = more.iter().filter(|one| !present.contains(one)).cloned().collect();
        present.extend(missing);
    }
    Ok(())
}

/// Taints a new node until it is ready.
#[expect(clippy::unnecessary_wraps, reason = "it is one of several admissions")]
pub(super) fn node(
    _: &Admission<'_>,
    part: WriteTarget,
    node: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    if part != WriteTarget::Main || old.is_some() {
        return Ok(());
    }
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let taints = child_mut(node, "spec").entry("taints").or_insert_with(|| json!([]));
    if let Some(taints) = taints.as_array_mut()
        && !taints.iter().any(|one| one["key"] == taint["key"] && one["effect"] == taint["effect"])
    {
        taints.push(taint);
    }
    Ok(())
}

/// Sets the default class of a claim without a class, if there is one.
#[expect(clippy::unnecessary_wraps, reason = "it is one of several admissions")]
pub(super) fn claim(
    admission: &Admission<'_>,
    part: WriteTarget,
    claim: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    if part == WriteTarget::Main && old.is_none() && claim.pointer("/spec/storageClassName").is_none() {
        let classes = GroupResource::new("storage.k8s.io", "storageclasses");
        if let Some(name) = default_class(admission, &classes, "storageclass.kubernetes.io/is-default-class")
        {
            child_mut(claim, "spec").insert("storageClassName".to_owned(), name.into());
        }
    }
    Ok(())
}

/// The same for an ingress.
#[expect(clippy::unnecessary_wraps, reason = "it is one of several admissions")]
pub(super) fn ingress(
    admission: &Admission<'_>,
    part: WriteTarget,
    ingress: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let named = ingress.pointer("/spec/ingressClassName").is_some()
        || ingress.pointer("/metadata/annotations/kubernetes.io~1ingress.class").is_some();
    if part == WriteTarget::Main && old.is_none() && !named {
        let classes = GroupResource::new("networking.k8s.io", "ingressclasses");
        if let Some(name) = default_class(admission, &classes, "ingressclass.kubernetes.io/is-default-class")
        {
            child_mut(ingress, "spec").insert("ingressClassName".to_owned(), name.into());
        }
    }
    Ok(())
}

/// The newest default class; of several with the same second, the first by name.
fn default_class(admission: &Admission<'_>, classes: &GroupResource, annotation: &str) -> Option<String> {
    let marked = |class: &Value| class["metadata"]["annotations"][annotation] == "true";
    let mut newest: Option<Value> = None;
    for class in admission.list(classes, "").into_iter().filter(marked) {
        let made = meta_str(&class, "creationTimestamp").to_owned();
        if newest.as_ref().is_none_or(|newest| *meta_str(newest, "creationTimestamp") < *made) {
            newest = Some(class);
        }
    }
    newest.map(|class| meta_str(&class, "name").to_owned())
}

/// Sets the requester of a certificate to the request's user, whatever the body says.
#[expect(clippy::unnecessary_wraps, reason = "it is one of several admissions")]
pub(super) fn signing_request(
    admission: &Admission<'_>,
    part: WriteTarget,
    request: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    if part == WriteTarget::Main && old.is_none() {
        let spec = child_mut(request, "spec");
        spec.remove("uid");
        spec.remove("extra");
        spec.insert("username".to_owned(), admission.user.name().into());
        spec.insert("groups".to_owned(), admission.user.groups().into());
    }
    Ok(())
}

/// Only one priority class may be the default.
pub(super) fn priority_class(
    admission: &Admission<'_>,
    _: WriteTarget,
    class: &Value,
    _: Option<&Value>,
) -> Result<(), Status> {
    if class["globalDefault"] != true {
        return Ok(());
    }
    let classes = GroupResource::new("scheduling.k8s.io", "priorityclasses");
    let all = admission.list(&classes, "");
    let other = all
        .iter()
        .find(|other| other["globalDefault"] == true && meta_str(other, "name") != meta_str(class, "name"));
    let Some(other) = other else { return Ok(()) };
    let name = meta_str(other, "name");
    let why = format!("PriorityClass {name} is already marked as default. Only one default can exist");
    Err(admission.forbidden(class, &why))
}

/// New pods must stay within the limits of their namespace.
pub(super) fn review_pod(
    admission: &Admission<'_>,
    part: WriteTarget,
    pod: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    if part == WriteTarget::Main && old.is_none() { limits::review_pod(admission, pod) } else { Ok(()) }
}

/// Claims must stay within the limits of their namespace, and grow only if their class allows it.
pub(super) fn review_claim(
    admission: &Admission<'_>,
    part: WriteTarget,
    claim: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    if part != WriteTarget::Main {
        return Ok(());
    }
    limits::review_claim(admission, claim)?;
    let size = |claim: &Value| Quantity::from_value(&claim["spec"]["resources"]["requests"]["storage"]).ok();
    let Some(old) = old.filter(|old| size(claim) > size(old)) else { return Ok(()) };
    if old["status"]["phase"] != "Bound" {
        return Err(admission.forbidden(claim, "Only bound persistent volume claims can be expanded"));
    }
    let classes = GroupResource::new("storage.k8s.io", "storageclasses");
    let name = claim["spec"]["storageClassName"].as_str().unwrap_or_default();
    let class = admission.get(&classes, name).filter(|_| !name.is_empty());
    if class.is_some_and(|class| class["allowVolumeExpansion"] == true) {
        return Ok(());
    }
    let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
    Err(admission.forbidden(claim, why))
}
