//! Node ports of services.

use std::collections::{BTreeMap, BTreeSet};

use bowline_machinery::{FieldError, FieldPath, Status};
use serde_json::{Map, Value};

use super::{has_health_port, has_node_ports, is_empty, set};
use crate::admission::Admission;

const FIRST: i64 = 30_000;
const LAST: i64 = 32_767;
/// Lower ports are for services that request a certain one, while others are free.
const DYNAMIC: i64 = 30_086;

/// The allocated ports, as this write sees them.
struct Taken<'a> {
    admission: &'a Admission<'a>,
    by_others: Option<BTreeSet<i64>>,
    key: String,
    now: BTreeSet<i64>,
}

/// Allocates the missing ports of a service.
pub(super) fn allocate(
    admission: &Admission<'_>,
    new: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let text = |field: &str| new["metadata"][field].as_str().unwrap_or_default();
    let key = format!("{}/{}", text("namespace"), text("name"));
    let mut taken = Taken { admission, by_others: None, key, now: BTreeSet::new() };
    if has_node_ports(new) {
        match old {
            None => begin(&mut taken, new)?,
            Some(old) => update(&mut taken, new, old)?,
        }
    }
    let needed = old.is_some_and(has_health_port);
    if has_health_port(new) && !needed {
        let asked = new["spec"]["healthCheckNodePort"].as_i64().unwrap_or(0);
        if asked == 0 {
            let port = taken.draw().map_err(|why| {
                Status::internal(format!("failed to allocate a HealthCheck NodePort 0: {why}"))
            })?;
            set(new, "healthCheckNodePort", port.into());
        } else {
            taken.take(asked).map_err(|why| {
                let why = format!("failed to allocate requested HealthCheck NodePort {asked}: {why}");
                Status::internal(why)
            })?;
        }
    }
    Ok(())
}

/// Ports with the same number share a node port, unless they request others.
fn begin(taken: &mut Taken<'_>, service: &mut Value) -> Result<(), Status> {
    let draws = draws(service);
    let mut of_port = BTreeMap::new();
    for index in 0..each_mut(service).count() {
        let port = &service["spec"]["ports"][index];
        let (number, asked) = (integer(port, "port"), integer(port, "nodePort"));
        if asked == 0 && !draws {
            continue;
        }
        match of_port.get(&number) {
            None => {
                let wanted = requested(service, number);
                let node_port = if wanted == 0 {
                    taken.draw().map_err(|why| out_of_ports(&why))?
                } else {
                    taken.take(wanted).map_err(|why| refuse(taken, service, index, wanted, &why))?;
                    wanted
                };
                set_node_port(service, index, node_port);
                of_port.insert(number, node_port);
            }
            Some(shared) if asked == 0 => set_node_port(service, index, *shared),
            Some(shared) if *shared != asked => {
                taken.take(asked).map_err(|why| refuse(taken, service, index, asked, &why))?;
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn update(taken: &mut Taken<'_>, new: &mut Value, old: &Value) -> Result<(), Status> {
    let before = node_ports(old);
    let draws = draws(new);
    for index in 0..each_mut(new).count() {
        let asked = integer(&new["spec"]["ports"][index], "nodePort");
        if asked == 0 {
            if draws {
                let port = taken.draw().map_err(|why| out_of_ports(&why))?;
                set_node_port(new, index, port);
            }
        } else if !before.contains(&asked) && !taken.now.contains(&asked) {
            taken.take(asked).map_err(|why| refuse(taken, new, index, asked, &why))?;
        }
    }
    Ok(())
}

/// Ports that the client omits keep the node ports of ports with the same name.
pub(super) fn remember(new: &mut Value, old: &Value) {
    let name = |port: &Value| port["name"].as_str().unwrap_or_default().to_owned();
    let ports = |service: &Value| service["spec"]["ports"].as_array().cloned().unwrap_or_default();
    let before: BTreeMap<_, _> =
        ports(old).iter().map(|port| (name(port), integer(port, "nodePort"))).collect();
    let sent = node_ports(new);
    let used: BTreeSet<_> = node_ports(old).intersection(&sent).copied().collect();
    for (index, port) in ports(new).iter().enumerate() {
        let known = before.get(&name(port)).copied().unwrap_or(0);
        if integer(port, "nodePort") == 0 && known != 0 && !used.contains(&known) {
            set_node_port(new, index, known);
        }
    }
}

pub(super) fn node_ports(service: &Value) -> BTreeSet<i64> {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    ports.map(|port| integer(port, "nodePort")).filter(|port| *port != 0).collect()
}

pub(super) fn each_mut(service: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
    let ports = service.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
    ports.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Whether the server allocates ports where the client names none.
fn draws(service: &Value) -> bool {
    super::kind(service) == "NodePort" || service["spec"]["allocateLoadBalancerNodePorts"] != false
}

/// The node port that the client requests for a port number.
fn requested(service: &Value, number: i64) -> i64 {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let mut asked =
        ports.filter(|port| integer(port, "port") == number).map(|port| integer(port, "nodePort"));
    asked.find(|port| *port != 0).unwrap_or(0)
}

fn set_node_port(service: &mut Value, index: usize, node_port: i64) {
    if let Some(port) = each_mut(service).nth(index) {
        port.insert("nodePort".to_owned(), node_port.into());
    }
}

fn integer(object: &Value, field: &str) -> i64 {
    object[field].as_i64().unwrap_or(0)
}

fn refuse(taken: &Taken<'_>, service: &Value, index: usize, port: i64, why: &str) -> Status {
    let path = FieldPath::new("spec").child("ports").index(index).child("nodePort");
    taken.admission.invalid(service, &[FieldError::invalid(&path, port, why)])
}

fn out_of_ports(why: &str) -> Status {
    Status::internal(format!("failed to allocate a nodePort: {why}"))
}

impl Taken<'_> {
    fn by_others(&mut self) -> &BTreeSet<i64> {
        let Self { admission, by_others, key, .. } = self;
        by_others.get_or_insert_with(|| {
            let services = admission.list(&admission.resource.group_resource(), "");
            let others = services.iter().filter(|service| {
                let text = |field: &str| service["metadata"][field].as_str().unwrap_or_default();
                format!("{}/{}", text("namespace"), text("name")) != *key
            });
            let mut ports = BTreeSet::new();
            for service in others {
                ports.extend(node_ports(service));
                let health = &service["spec"]["healthCheckNodePort"];
                ports.extend(health.as_i64().filter(|_| !is_empty(health)));
            }
            ports
        })
    }

    fn take(&mut self, port: i64) -> Result<(), String> {
        if !(FIRST..=LAST).contains(&port) {
            return Err(format!(
                "provided port is not in the valid range. The range of valid ports is {FIRST}-{LAST}"
            ));
        }
        if self.by_others().contains(&port) || !self.now.insert(port) {
            return Err("provided port is already allocated".to_owned());
        }
        Ok(())
    }

    /// A free port: the first one after a random position.
    fn draw(&mut self) -> Result<i64, String> {
        let range = DYNAMIC.unsigned_abs()..LAST.unsigned_abs() + 1;
        let start = i64::try_from(self.admission.clock.rng().range(range)).unwrap_or(DYNAMIC);
        let mut candidates = (start..=LAST).chain(DYNAMIC..start).chain(FIRST..DYNAMIC);
        let free = candidates.find(|port| self.take(*port).is_ok());
        free.ok_or_else(|| "range is full".to_owned())
    }
}
