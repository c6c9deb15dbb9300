//! The quality of service class of a pod, computed from its spec.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::Quantity;

/// Requests or limits by name, for the two resources that count.
type Amounts = BTreeMap<String, Quantity>;

/// `Guaranteed`, `Burstable` or `BestEffort`: the order in which a node evicts pods when it runs short of a resource.
#[must_use]
pub fn pod_qos_class(pod: &Value) -> &'static str {
    let spec = &pod["spec"];
    let whole = spec["resources"].as_object().filter(|resources| {
        ["requests", "limits"]
            .iter()
            .any(|part| resources.get(*part).and_then(Value::as_object).is_some_and(|list| !list.is_empty()))
    });
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    let mut guaranteed = true;
    let mut count = |resources: &Map<String, Value>| {
        add(&mut requests, resources.get("requests"));
        guaranteed &= add(&mut limits, resources.get("limits")) == 2;
    };
    if let Some(resources) = whole {
        count(resources);
    } else {
        let empty = Map::new();
        for list in ["containers", "initContainers"] {
            for container in spec[list].as_array().into_iter().flatten() {
                count(container["resources"].as_object().unwrap_or(&empty));
            }
        }
    }
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if guaranteed && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Adds a list's cpu and memory to the sums, and returns how many of the two it names.
fn add(sums: &mut Amounts, list: Option<&Value>) -> usize {
    let mut found = 0;
    for name in ["cpu", "memory"] {
        let amount = list.and_then(|list| Quantity::from_value(list.get(name)?).ok());
        let Some(amount) = amount.filter(|amount| !amount.is_zero() && !amount.is_negative()) else {
            continue;
        };
        found += 1;
        let sum = sums.get(name).and_then(|sum| sum.plus(&amount)).unwrap_or(amount);
        sums.insert(name.to_owned(), sum);
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_and_limits_determine_the_quality_of_service() {
        let both = json!({"cpu": "1", "memory": "1Gi"});
        let rows = [
            (json!({}), "BestEffort"),
            (json!({"requests": {"example.com/gpu": "1"}}), "BestEffort"),
            (json!({"limits": {"cpu": "0"}}), "BestEffort"),
            (json!({"requests": both, "limits": {"cpu": "1000m", "memory": "1024Mi"}}), "Guaranteed"),
            (json!({"requests": {"cpu": "1"}, "limits": both}), "Burstable"),
            (json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}), "Burstable"),
        ];
        for (resources, class) in rows {
            let pod = json!({"spec": {"containers": [{"resources": resources}]}});
            assert_eq!(pod_qos_class(&pod), class, "{resources}");
            let pod = json!({"spec": {"resources": resources, "containers": [{}]}});
            let whole = if class == "BestEffort" { "BestEffort" } else { class };
            assert_eq!(pod_qos_class(&pod), whole, "of the whole pod: {resources}");
        }
    }
}
