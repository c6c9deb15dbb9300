//! Services share ranges of addresses and of ports.

use serde_json::{Value, json};

use super::recorded::remove;
use crate::Env;

async fn create(env: &Env, name: &str, mut spec: Value) -> Value {
    if spec.get("ports").is_none() {
        spec["ports"] = json!([{"port": 80}]);
    }
    let service = json!({"metadata": {"name": name}, "spec": spec});
    env.post(&env.core("services"), service).await.expect(201)
}

fn path(env: &Env, name: &str) -> String {
    env.core(&format!("services/{name}"))
}

#[tokio::test]
async fn no_two_services_have_the_same_address() {
    let env = Env::new().await;
    let names: Vec<_> = (0..8).map(|index| format!("s{index}")).collect();
    let made = futures::future::join_all(names.iter().map(|name| create(&env, name, json!({})))).await;
    let mut addresses: Vec<_> = made.iter().map(|service| service["spec"]["clusterIP"].to_string()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    for name in &names {
        remove(&env, &path(&env, name)).await;
    }
    assert_eq!(addresses.len(), names.len(), "{addresses:?}");
    assert!(addresses.iter().all(|address| address.starts_with("\"10.0.0.")), "{addresses:?}");
}

#[tokio::test]
async fn an_address_that_is_taken_is_refused_until_it_is_free() {
    let env = Env::new().await;
    let made = create(&env, "a", json!({})).await;
    let address = made["spec"]["clusterIP"].as_str().expect("it has an address").to_owned();
    let same = json!({
        "metadata": {"name": "b"},
        "spec": {"clusterIP": address, "ports": [{"port": 80}]},
    });
    let refused = env.post(&env.core("services"), same.clone()).await;
    remove(&env, &path(&env, "a")).await;
    let message = format!(
        "Service \"b\" is invalid: spec.clusterIPs: Invalid value: [\"{address}\"]: failed to allocate IP {address}: \
         provided IP is already allocated"
    );
    refused.expect_status(422, "Invalid", &message);
    let made = env.post(&env.core("services"), same).await;
    if made.code == 201 {
        remove(&env, &path(&env, "b")).await;
    }
    assert_eq!(made.expect(201)["spec"]["clusterIP"], address);
}

#[tokio::test]
async fn a_node_port_that_is_taken_is_refused_until_it_is_free() {
    let env = Env::new().await;
    let made = create(&env, "a", json!({"type": "NodePort"})).await;
    let port = made["spec"]["ports"][0]["nodePort"].as_i64().expect("it has a port");
    assert!((30_000..=32_767).contains(&port), "{port}");
    let same = json!({
        "metadata": {"name": "b"},
        "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]},
    });
    let refused = env.post(&env.core("services"), same.clone()).await;
    remove(&env, &path(&env, "a")).await;
    let message = format!(
        "Service \"b\" is invalid: spec.ports[0].nodePort: Invalid value: {port}: provided port is already allocated"
    );
    refused.expect_status(422, "Invalid", &message);
    let made = env.post(&env.core("services"), same).await.expect(201);
    remove(&env, &path(&env, "b")).await;
    assert_eq!(made["spec"]["ports"][0]["nodePort"], port);
}

#[tokio::test]
async fn an_update_without_addresses_and_ports_keeps_them() {
    let env = Env::new().await;
    let made = create(&env, "a", json!({"type": "NodePort"})).await;
    let again = json!({
        "metadata": {"name": "a", "labels": {"x": "y"}},
        "spec": {"type": "NodePort", "ports": [{"port": 81}]},
    });
    let updated = env.put(&path(&env, "a"), again).await.expect(200);
    remove(&env, &path(&env, "a")).await;
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        assert_eq!(updated["spec"][field], made["spec"][field], "{field}");
    }
    assert_eq!(updated["spec"]["ports"][0]["nodePort"], made["spec"]["ports"][0]["nodePort"]);
    assert_eq!(updated["spec"]["ports"][0]["port"], 81);
}

#[tokio::test]
async fn what_another_type_does_not_need_goes() {
    let env = Env::new().await;
    let balancer = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"});
    let made = create(&env, "a", balancer).await;
    assert!(made["spec"]["healthCheckNodePort"].is_i64(), "{made:#}");
    let plain = env.merge(&path(&env, "a"), json!({"spec": {"type": "ClusterIP"}})).await.expect(200);
    let named = json!({"spec": {"type": "ExternalName", "externalName": "example.com"}});
    let named = env.merge(&path(&env, "a"), named).await.expect(200);
    let back = json!({"spec": {"type": "ClusterIP", "externalName": null}});
    let back = env.merge(&path(&env, "a"), back).await.expect(200);
    remove(&env, &path(&env, "a")).await;
    for field in ["healthCheckNodePort", "externalTrafficPolicy", "allocateLoadBalancerNodePorts"] {
        assert!(plain["spec"].get(field).is_none(), "{field}: {plain:#}");
    }
    assert!(plain["spec"]["ports"][0].get("nodePort").is_none(), "{plain:#}");
    assert_eq!(plain["spec"]["clusterIP"], made["spec"]["clusterIP"]);
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        assert!(named["spec"].get(field).is_none(), "{field}: {named:#}");
    }
    assert!(back["spec"]["clusterIP"].as_str().is_some_and(|ip| ip.starts_with("10.0.0.")), "{back:#}");
}

#[tokio::test]
async fn ports_with_one_number_share_a_port_of_the_nodes() {
    let env = Env::new().await;
    let ports = json!([{"port": 53, "name": "a"}, {"port": 53, "name": "b", "protocol": "UDP"}]);
    let made = create(&env, "a", json!({"type": "NodePort", "ports": ports})).await;
    remove(&env, &path(&env, "a")).await;
    let port = |index: usize| made["spec"]["ports"][index]["nodePort"].as_i64();
    assert!(port(0).is_some());
    assert_eq!(port(0), port(1));
}

#[tokio::test]
async fn a_service_that_is_updated_into_being_gets_an_address() {
    let env = Env::new().await;
    let service = json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}});
    let made = env.put(&path(&env, "a"), service).await.expect(201);
    remove(&env, &path(&env, "a")).await;
    assert!(made["spec"]["clusterIP"].as_str().is_some_and(|ip| ip.starts_with("10.0.0.")), "{made:#}");
}

#[tokio::test]
async fn a_dry_run_takes_no_address() {
    let env = Env::new().await;
    let service = json!({"metadata": {"name": "a"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    let path = format!("{}?dryRun=All", env.core("services"));
    let made = env.post(&path, service).await.expect(201);
    assert!(made["spec"]["clusterIP"].is_string(), "{made:#}");
    assert_eq!(env.get(&env.core("services/a")).await.code, 404);
}
