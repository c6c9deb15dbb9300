//! Pods: nodes, grace periods, and their subresources.

use serde_json::{Value, json};

use crate::Env;

/// Makes a pod, on a node if there is one.
async fn pod(env: &Env, name: &str, node: Option<&str>) -> (String, Value) {
    let path = env.core("pods");
    let mut spec = json!({"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 30});
    if let Some(node) = node {
        spec["nodeName"] = node.into();
    }
    let sent = json!({"metadata": {"name": name, "labels": {"app": "x"}}, "spec": spec});
    let made = env.post(&path, sent).await.expect(201);
    (format!("{path}/{name}"), made)
}

async fn done_with(env: &Env, path: &str) {
    env.delete(&format!("{path}?gracePeriodSeconds=0")).await.expect(200);
    env.get(path).await.expect(404);
}

fn seconds_between(from: &Value, to: &Value) -> i64 {
    let second = |time: &Value| {
        let text = time.as_str().unwrap_or_else(|| panic!("{time} is a time"));
        let numbers: Vec<i64> = text[11..19].split(':').map(|part| part.parse().expect("a number")).collect();
        numbers[0] * 3600 + numbers[1] * 60 + numbers[2]
    };
    (second(to) - second(from)).rem_euclid(86_400)
}

#[tokio::test]
async fn a_pod_on_a_node_has_time_to_stop() {
    let env = Env::new().await;
    let (path, made) = pod(&env, "a", Some("n")).await;
    let marked = env.delete(&path).await.expect(200);
    let metadata = &marked["metadata"];
    assert_eq!((&metadata["deletionGracePeriodSeconds"], &metadata["generation"]), (&json!(30), &json!(2)));
    let ahead = seconds_between(&made["metadata"]["creationTimestamp"], &metadata["deletionTimestamp"]);
    assert!((30..45).contains(&ahead), "{ahead}");
    assert_eq!(env.get(&path).await.expect(200)["metadata"]["deletionGracePeriodSeconds"], 30);
    done_with(&env, &path).await;
}

#[tokio::test]
async fn the_grace_of_a_pod_can_only_become_shorter() {
    let env = Env::new().await;
    let (path, _) = pod(&env, "a", Some("n")).await;
    let marked = env.delete(&path).await.expect(200);
    for query in ["", "?gracePeriodSeconds=30", "?gracePeriodSeconds=60&propagationPolicy=Foreground"] {
        let same = env.delete(&format!("{path}{query}")).await.expect(200);
        assert_eq!(same["metadata"]["resourceVersion"], marked["metadata"]["resourceVersion"], "{query}");
    }
    let shorter = env.delete(&format!("{path}?gracePeriodSeconds=20")).await.expect(200);
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 20);
    assert_eq!(shorter["metadata"]["generation"], 2);
    let by =
        seconds_between(&shorter["metadata"]["deletionTimestamp"], &marked["metadata"]["deletionTimestamp"]);
    assert_eq!(by, 10);
    // Less than nothing is one second.
    let shorter = env.delete(&format!("{path}?gracePeriodSeconds=-3")).await.expect(200);
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 1);
    done_with(&env, &path).await;
}

#[tokio::test]
async fn more_grace_than_can_be_counted_wraps_around() {
    let env = Env::new().await;
    for (seconds, years) in [
        (i64::MAX, None),
        (9_223_372_036, Some(2300..3000)),
        (9_223_372_037, Some(1700..1800)),
        (10_000_000_000, Some(1700..1800)),
    ] {
        let (path, made) = pod(&env, "a", Some("n")).await;
        let marked = env.delete(&format!("{path}?gracePeriodSeconds={seconds}")).await.expect(200);
        let metadata = &marked["metadata"];
        assert_eq!(metadata["deletionGracePeriodSeconds"], seconds);
        let year =
            |time: &Value| time.as_str().and_then(|time| time[..4].parse::<i32>().ok()).expect("a time");
        let end = year(&metadata["deletionTimestamp"]);
        match years {
            Some(years) => assert!(years.contains(&end), "{seconds}: {metadata:#}"),
            // One second ago.
            None => assert!(
                (0..=1).contains(&(year(&made["metadata"]["creationTimestamp"]) - end)),
                "{metadata:#}"
            ),
        }
        let shorter = env.delete(&format!("{path}?gracePeriodSeconds=100")).await.expect(200);
        assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 100, "{seconds}");
        let (from, to) = (&made["metadata"]["creationTimestamp"], &shorter["metadata"]["deletionTimestamp"]);
        let ahead = seconds_between(from, to);
        assert!((99..115).contains(&ahead), "{seconds}: {shorter:#}");
        done_with(&env, &path).await;
    }
    // The same for what the pod itself asks for.
    let spec = json!({
        "containers": [{"name": "c", "image": "i"}], "nodeName": "n", "terminationGracePeriodSeconds": i64::MAX,
    });
    env.post(&env.core("pods"), json!({"metadata": {"name": "a"}, "spec": spec})).await.expect(201);
    let path = env.core("pods/a");
    let marked = env.delete(&path).await.expect(200);
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], i64::MAX);
    done_with(&env, &path).await;
}

#[tokio::test]
async fn a_pod_that_runs_nowhere_goes_at_once() {
    let env = Env::new().await;
    let (waiting, made) = pod(&env, "a", None).await;
    let gone = env.delete(&format!("{waiting}?gracePeriodSeconds=10")).await.expect(200);
    assert_eq!((&gone["kind"], &gone["metadata"]["deletionGracePeriodSeconds"]), (&json!("Pod"), &json!(0)));
    env.get(&waiting).await.expect(404);
    // Everybody saw that it was to go.
    let revision = made["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let events = env.watch(&format!("{}?resourceVersion={revision}", env.core("pods")), 2).await;
    let seen = |event: &Value| {
        (event["type"].clone(), event["object"]["metadata"]["deletionGracePeriodSeconds"].clone())
    };
    assert_eq!(
        events.iter().map(seen).collect::<Vec<_>>(),
        [(json!("MODIFIED"), json!(0)), (json!("DELETED"), json!(0)),]
    );
    assert_eq!(events[1]["object"]["metadata"]["resourceVersion"], gone["metadata"]["resourceVersion"]);
    let (ended, _) = pod(&env, "b", Some("n")).await;
    env.merge(&format!("{ended}/status"), json!({"status": {"phase": "Succeeded"}})).await.expect(200);
    env.delete(&ended).await.expect(200);
    env.get(&ended).await.expect(404);
}

#[tokio::test]
async fn a_pod_goes_when_neither_grace_nor_finalizers_are_left() {
    let env = Env::new().await;
    let (path, _) = pod(&env, "a", Some("n")).await;
    env.merge(&path, json!({"metadata": {"finalizers": ["example.com/f"]}})).await.expect(200);
    env.delete(&path).await.expect(200);
    let now = env.delete(&format!("{path}?gracePeriodSeconds=0")).await.expect(200);
    assert_eq!(now["metadata"]["deletionGracePeriodSeconds"], 0);
    env.get(&path).await.expect(200);
    env.merge(&path, json!({"metadata": {"finalizers": null}})).await.expect(200);
    env.get(&path).await.expect(404);
    let (path, _) = pod(&env, "b", Some("n")).await;
    env.merge(&path, json!({"metadata": {"finalizers": ["example.com/f"]}})).await.expect(200);
    env.delete(&path).await.expect(200);
    env.merge(&path, json!({"metadata": {"finalizers": null}})).await.expect(200);
    // The finalizer is gone, but the grace is not over.
    env.get(&path).await.expect(200);
    done_with(&env, &path).await;
}

#[tokio::test]
async fn a_dry_run_takes_no_pod_away() {
    let env = Env::new().await;
    let (path, _) = pod(&env, "a", None).await;
    let before = env.get(&path).await.expect(200);
    let dry = env.delete(&format!("{path}?dryRun=All")).await.expect(200);
    assert_eq!(dry["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(dry["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    assert_eq!(env.get(&path).await.expect(200), before);
    done_with(&env, &path).await;
}

#[tokio::test]
async fn a_new_pod_is_pending() {
    let env = Env::new().await;
    let sent = json!({
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Running", "message": "mine"},
    });
    let made = env.post(&env.core("pods"), sent).await.expect(201);
    assert_eq!((&made["status"]["phase"], &made["status"]["message"]), (&json!("Pending"), &Value::Null));
    assert_eq!(made["metadata"]["generation"], 1);
}

#[tokio::test]
async fn a_binding_puts_a_pod_on_a_node() {
    let env = Env::new().await;
    let (path, _) = pod(&env, "a", None).await;
    let binding = json!({
        "metadata": {"name": "a", "labels": {"l": "m"}, "annotations": {"x": "y"}},
        "target": {"kind": "Node", "name": "n"},
    });
    let done =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    let dry = env.post(&format!("{path}/binding?dryRun=All"), binding.clone()).await.expect(201);
    assert_eq!(dry, done);
    assert_eq!(env.get(&path).await.expect(200)["spec"]["nodeName"], Value::Null);
    assert_eq!(env.post(&format!("{path}/binding"), binding).await.expect(201), done);
    let bound = env.get(&path).await.expect(200);
    assert_eq!((&bound["spec"]["nodeName"], &bound["metadata"]["generation"]), (&json!("n"), &json!(1)));
    assert_eq!(bound["metadata"]["labels"], json!({"app": "x", "l": "m"}));
    assert_eq!(bound["metadata"]["annotations"], json!({"x": "y"}));
    let condition = &bound["status"]["conditions"][0];
    assert_eq!((&condition["type"], &condition["status"]), (&json!("PodScheduled"), &json!("True")));
    done_with(&env, &path).await;
}

#[tokio::test]
async fn a_pod_is_bound_once() {
    let env = Env::new().await;
    let (path, _) = pod(&env, "a", Some("n")).await;
    let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "m"}});
    let begin = "Operation cannot be fulfilled on pods/binding \"a\": ";
    let message = format!("{begin}pod a is already assigned to node \"n\"");
    let answer = env.post(&format!("{path}/binding"), binding.clone()).await;
    let status = answer.expect_status(409, "Conflict", &message);
    assert_eq!(status["details"], json!({"name": "a", "kind": "pods/binding"}));
    env.delete(&path).await.expect(200);
    let message = format!("{begin}pod a is being deleted, cannot be assigned to a host");
    env.post(&format!("{path}/binding"), binding).await.expect_status(409, "Conflict", &message);
    done_with(&env, &path).await;
}

#[tokio::test]
async fn a_binding_is_for_the_very_pod_that_it_names() {
    let env = Env::new().await;
    let (path, made) = pod(&env, "a", None).await;
    let (uid, revision) = (&made["metadata"]["uid"], &made["metadata"]["resourceVersion"]);
    let text = |value: &Value| value.as_str().expect("it is text").to_owned();
    let wrong_uid = format!("UID in precondition: b, UID in object meta: {}", text(uid));
    let wrong_revision = |sent| {
        format!("ResourceVersion in precondition: {sent}, ResourceVersion in object meta: {}", text(revision))
    };
    for (field, sent, why) in [
        ("uid", "b", &wrong_uid),
        ("resourceVersion", "1", &wrong_revision("1")),
        ("resourceVersion", "0", &wrong_revision("0")),
        ("resourceVersion", "x", &wrong_revision("x")),
    ] {
        for (query, registry) in [("", "/registry"), ("?dryRun=All", "")] {
            let mut binding = json!({"metadata": {"name": "a"}, "target": {"name": "n"}});
            binding["metadata"][field] = sent.into();
            let message = format!(
                "Operation cannot be fulfilled on pods \"a\": StorageError: invalid object, Code: 4, Key: \
                 {registry}/pods/{}/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {why}",
                env.namespace
            );
            let answer = env.post(&format!("{path}/binding{query}"), binding).await;
            let status = answer.expect_status(409, "Conflict", &message);
            assert_eq!(status["details"], json!({"name": "a", "kind": "pods"}));
        }
    }
    let metadata = json!({"name": "a", "uid": uid, "resourceVersion": revision});
    let binding = json!({"metadata": metadata, "target": {"name": "n"}});
    env.post(&format!("{path}/binding"), binding.clone()).await.expect(201);
    // That it is another one now comes before that it is on a node already.
    let status = env.post(&format!("{path}/binding"), binding).await.expect(409);
    assert_eq!(status["details"]["kind"], "pods");
    done_with(&env, &path).await;
}

#[tokio::test]
async fn a_pod_behind_gates_is_not_bound() {
    let env = Env::new().await;
    let path = env.core("pods");
    let spec = json!({"containers": [{"name": "c", "image": "i"}], "schedulingGates": [{"name": "a.b/c"}]});
    env.post(&path, json!({"metadata": {"name": "a"}, "spec": spec})).await.expect(201);
    let path = format!("{path}/a");
    let binding = json!({"metadata": {"name": "a"}, "target": {"name": "n"}});
    let message =
        "Operation cannot be fulfilled on pods/binding \"a\": pod a has non-empty .spec.schedulingGates";
    let answer = env.post(&format!("{path}/binding"), binding.clone()).await;
    let status = answer.expect_status(409, "Conflict", message);
    assert_eq!(status["details"], json!({"name": "a", "kind": "pods/binding"}));
    env.merge(&path, json!({"spec": {"schedulingGates": null}})).await.expect(200);
    env.post(&format!("{path}/binding"), binding).await.expect(201);
    done_with(&env, &path).await;
}

#[tokio::test]
async fn a_binding_is_checked() {
    let env = Env::new().await;
    let (path, _) = pod(&env, "a", None).await;
    let path = format!("{path}/binding");
    let message = "name in URL does not match name in Binding object";
    let sent = json!({"metadata": {"name": "b"}, "target": {"kind": "Node", "name": "n"}});
    env.post(&path, sent).await.expect_status(400, "BadRequest", message);
    let sent = |target: Value| json!({"metadata": {"name": "a"}, "target": target});
    let message = "target.name: Required value";
    env.post(&path, sent(json!({"kind": "Node"}))).await.expect_status(500, "", message);
    let message = "target.kind: Unsupported value: \"Pod\": supported values: \"Node\", \"<empty>\"";
    env.post(&path, sent(json!({"kind": "Pod", "name": "n"}))).await.expect_status(500, "", message);
    env.put(&path, sent(json!({}))).await.expect(405);
}

#[tokio::test]
async fn an_eviction_deletes_a_pod() {
    let env = Env::new().await;
    let (path, _) = pod(&env, "a", None).await;
    let eviction =
        |name: &str| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    let message = "name in URL does not match name in Eviction object";
    env.post(&format!("{path}/eviction"), eviction("b")).await.expect_status(400, "BadRequest", message);
    let none = env.core("pods/none/eviction");
    env.post(&none, eviction("none")).await.expect_status(404, "NotFound", "pods \"none\" not found");
    let done =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    let mut dry = eviction("a");
    dry["deleteOptions"] = json!({"dryRun": ["All"]});
    assert_eq!(env.post(&format!("{path}/eviction"), dry).await.expect(201), done);
    assert_eq!(env.post(&format!("{path}/eviction?dryRun=All"), eviction("a")).await.expect(201), done);
    let mut other = eviction("a");
    other["deleteOptions"] = json!({"preconditions": {"uid": "u"}});
    env.post(&format!("{path}/eviction"), other).await.expect(409);
    env.get(&path).await.expect(200);
    assert_eq!(env.post(&format!("{path}/eviction"), eviction("a")).await.expect(201), done);
    env.get(&path).await.expect(404);
}

#[tokio::test]
async fn an_eviction_asks_the_disruption_budget() {
    let env = Env::new().await;
    let (path, _) = pod(&env, "a", Some("n")).await;
    let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    env.merge(&format!("{path}/status"), json!({"status": ready})).await.expect(200);
    let budget = env.group("policy/v1", "poddisruptionbudgets");
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}});
    env.post(&budget, json!({"metadata": {"name": "b"}, "spec": spec})).await.expect(201);
    let budget = format!("{budget}/b");
    let eviction = format!("{path}/eviction");
    let sent = json!({"metadata": {"name": "a"}});
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let answer = env.post(&eviction, sent.clone()).await;
    let status = answer.expect_status(429, "TooManyRequests", message);
    let cause = |message: &str| json!([{"reason": "DisruptionBudget", "message": message}]);
    let causes = cause("The disruption budget b is still being processed by the server.");
    assert_eq!(status["details"], json!({"causes": causes, "retryAfterSeconds": 10}));
    let counted = |allowed: i64| {
        json!({"status": {
            "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1,
        }})
    };
    env.merge(&format!("{budget}/status"), counted(0)).await.expect(200);
    let answer = env.post(&eviction, sent.clone()).await;
    let status = answer.expect_status(429, "TooManyRequests", message);
    let causes = cause("The disruption budget b needs 1 healthy pods and has 1 currently");
    assert_eq!(status["details"], json!({"causes": causes}));
    env.merge(&format!("{budget}/status"), counted(1)).await.expect(200);
    env.post(&eviction, sent).await.expect(201);
    let spent = env.get(&budget).await.expect(200)["status"].clone();
    assert_eq!(spent["disruptionsAllowed"], 0);
    assert!(spent["disruptedPods"]["a"].is_string(), "{spent:#}");
    let evicted = env.get(&path).await.expect(200);
    assert_eq!(evicted["metadata"]["deletionGracePeriodSeconds"], 30);
    let conditions = evicted["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let target = conditions.iter().find(|condition| condition["type"] == "DisruptionTarget");
    assert_eq!(target.map(|condition| &condition["reason"]), Some(&json!("EvictionByEvictionAPI")));
    done_with(&env, &path).await;
}

#[tokio::test]
async fn ephemeral_containers_are_added_apart_and_stay() {
    let env = Env::new().await;
    let (path, _) = pod(&env, "a", Some("n")).await;
    let below = format!("{path}/ephemeralcontainers");
    let patch = json!({
        "metadata": {"labels": {"app": "y"}},
        "spec": {"nodeName": "m", "ephemeralContainers": [{"name": "e", "image": "i"}]},
        "status": {"message": "mine"},
    });
    let patched = env.merge(&below, patch).await.expect(200);
    assert_eq!(patched["spec"]["ephemeralContainers"][0]["name"], "e");
    assert_eq!((&patched["spec"]["nodeName"], &patched["metadata"]["generation"]), (&json!("n"), &json!(2)));
    assert_eq!(
        (&patched["metadata"]["labels"]["app"], &patched["status"]["message"]),
        (&json!("x"), &Value::Null)
    );
    let message = "Pod \"a\" is invalid: spec.ephemeralContainers: Forbidden: existing ephemeral containers \"e\" may not be \
                   removed\n";
    let patch = json!({"spec": {"ephemeralContainers": []}});
    env.merge(&below, patch).await.expect_status(422, "Invalid", message);
    assert_eq!(env.get(&below).await.expect(200)["metadata"]["name"], "a");
    env.post(&below, json!({})).await.expect(405);
    done_with(&env, &path).await;
}

#[tokio::test]
async fn the_status_of_a_pod_leaves_its_owners_alone() {
    let env = Env::new().await;
    let (path, _) = pod(&env, "a", None).await;
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}]);
    env.merge(&path, json!({"metadata": {"ownerReferences": owner}})).await.expect(200);
    let patch = json!({
        "metadata": {"ownerReferences": null, "labels": {"app": "y"}},
        "spec": {"nodeName": "n"},
        "status": {"message": "m", "qosClass": null},
    });
    let patched = env.merge(&format!("{path}/status"), patch).await.expect(200);
    assert_eq!(patched["metadata"]["ownerReferences"], owner);
    assert_eq!(
        (&patched["metadata"]["labels"]["app"], &patched["status"]["message"]),
        (&json!("y"), &json!("m"))
    );
    assert_eq!(patched["spec"]["nodeName"], Value::Null);
    done_with(&env, &path).await;
}
