//! Calls of hooks for each request, before it and after its commit.

use super::*;

/// The verb, and what it is about: `update apps/v1 deployments/scale a in default`.
fn described(call: &RequestInfo) -> String {
    let part = |before: &str, part: &Option<String>| {
        part.as_ref().map_or_else(String::new, |part| format!("{before}{part}"))
    };
    let resource = match call.resource.as_str() {
        "" => String::new(),
        resource => format!(" {}/{} {resource}", call.group, call.version),
    };
    let (below, name) = (part("/", &call.subresource), part(" ", &call.name));
    let namespace = part(" in ", &call.namespace);
    let dry = if call.dry_run { " dry" } else { "" };
    format!("{}{resource}{below}{name}{namespace}{dry}", call.verb.as_str())
}

/// A request's method, path and body, the code of its answer, and what a hook sees of it: the call, and when.
type Row<'a> = (&'static str, &'a str, Value, u16, &'a str, &'static [&'static str]);

/// One request after the other.
async fn all(world: &World, rows: Vec<Row<'_>>) {
    for (method, path, body, code, call, moments) in rows {
        let row = format!("{method} {path}");
        let method = method.parse().expect("it is a method");
        let user = User::new("jane", ["system:authenticated".to_owned()]);
        let answer = world.send("an agent/1", Some(user), method, path, &body).await;
        let (answered, body) = answer.expect("the connection is not cut");
        assert_eq!(answered, code, "{row}: {body:#}");
        let seen = world.seen();
        let when: Vec<_> = seen.iter().map(|(moment, _)| moment.as_str()).collect();
        assert_eq!(when, moments, "{row}");
        for (_, seen) in &seen {
            assert_eq!(described(seen), call, "{row}");
            assert_eq!(Some(seen.path.as_str()), path.split('?').next());
            assert_eq!((seen.user.as_str(), seen.user_agent.as_str()), ("jane", "an agent/1"), "{row}");
        }
    }
}

const READ: &[&str] = &["before"];
const WRITTEN: &[&str] = &["before", "committed"];

#[tokio::test]
async fn every_verb_is_seen_before_it_is_done_and_once_more_if_it_wrote() {
    let world = World::new();
    let (map, dry) = (format!("{MAPS}/a"), format!("{MAPS}?dryRun=All"));
    let (of_one, of_all) = ("/v1 configmaps a in default", "/v1 configmaps in default");
    let [create, get, list, watch, update, patch, delete] = [
        ("create", of_all),
        ("get", of_one),
        ("list", of_all),
        ("watch", of_all),
        ("update", of_one),
        ("patch", of_one),
        ("delete", of_one),
    ]
    .map(|(verb, about)| format!("{verb} {about}"));
    let collection = format!("deletecollection {of_all}");
    let dry_create = format!("{create} dry");
    let watched = format!("{MAPS}?watch=true");
    let sent = json!({"metadata": {"name": "a"}, "data": {"b": "c"}});
    let rows: Vec<Row<'_>> = vec![
        ("POST", &dry, named("a"), 201, &dry_create, READ),
        ("POST", MAPS, named("a"), 201, &create, WRITTEN),
        ("POST", MAPS, named("a"), 409, &create, READ),
        ("POST", MAPS, named("A"), 422, &create, READ),
        ("GET", &map, Value::Null, 200, &get, READ),
        ("GET", MAPS, Value::Null, 200, &list, READ),
        ("GET", &watched, Value::Null, 200, &watch, &["before", "ADDED default/a"]),
        ("PUT", &map, sent.clone(), 200, &update, WRITTEN),
        // An update without a change is not written.
        ("PUT", &map, sent, 200, &update, READ),
        ("PATCH", &map, json!({"data": {"b": "d"}}), 200, &patch, WRITTEN),
        ("PATCH", &map, json!({"data": {"b": "d"}}), 200, &patch, READ),
        ("DELETE", &map, Value::Null, 200, &delete, WRITTEN),
        ("DELETE", &map, Value::Null, 404, &delete, READ),
        ("POST", MAPS, named("a"), 201, &create, WRITTEN),
        ("POST", MAPS, named("b"), 201, &create, WRITTEN),
        // However many objects go, it is one request.
        ("DELETE", MAPS, Value::Null, 200, &collection, WRITTEN),
    ];
    all(&world, rows).await;
}

#[tokio::test]
async fn subresources_are_seen_as_what_they_are() {
    let world = World::new();
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = json!({"metadata": {"name": "a"}, "spec": {
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}},
    }});
    world.done(Method::POST, deployments, deployment, 201).await;
    world.done(Method::POST, PODS, pod("a"), 201).await;
    world.done(Method::POST, "/api/v1/namespaces", named("other"), 201).await;
    world.seen();
    let scale = format!("{deployments}/a/scale");
    let below = |name: &str| format!("{PODS}/a/{name}");
    let (status, binding, eviction) = (below("status"), below("binding"), below("eviction"));
    let binding_sent = json!({"metadata": {"name": "a"}, "target": {"name": "n"}});
    let scale_sent = json!({"metadata": {"name": "a"}, "spec": {"replicas": 3}});
    let rows: Vec<Row<'_>> = vec![
        ("GET", &status, Value::Null, 200, "get /v1 pods/status a in default", READ),
        (
            "PATCH",
            &status,
            json!({"status": {"reason": "b"}}),
            200,
            "patch /v1 pods/status a in default",
            WRITTEN,
        ),
        ("GET", &scale, Value::Null, 200, "get apps/v1 deployments/scale a in default", READ),
        ("PUT", &scale, scale_sent, 200, "update apps/v1 deployments/scale a in default", WRITTEN),
        (
            "PATCH",
            &scale,
            json!({"spec": {"replicas": 3}}),
            200,
            "patch apps/v1 deployments/scale a in default",
            READ,
        ),
        ("POST", &binding, binding_sent.clone(), 201, "create /v1 pods/binding a in default", WRITTEN),
        ("POST", &binding, binding_sent, 409, "create /v1 pods/binding a in default", READ),
        ("POST", &eviction, named("a"), 201, "create /v1 pods/eviction a in default", WRITTEN),
        (
            "PUT",
            "/api/v1/namespaces/other/finalize",
            named("other"),
            200,
            "update /v1 namespaces/finalize other",
            WRITTEN,
        ),
        ("DELETE", &status, Value::Null, 405, "delete /v1 pods/status a in default", READ),
    ];
    all(&world, rows).await;
}

#[tokio::test]
async fn what_is_about_no_resource_or_is_refused_is_seen_too() {
    let world = World::new();
    let none = || Value::Null;
    let rows: Vec<Row<'_>> = vec![
        ("GET", "/healthz", none(), 200, "get", READ),
        ("GET", "/readyz/ping?verbose", none(), 200, "get", READ),
        ("GET", "/version", none(), 200, "get", READ),
        ("POST", "/version", none(), 405, "create", READ),
        ("GET", "/", none(), 200, "get", READ),
        ("GET", "/api", none(), 200, "get", READ),
        ("GET", "/apis", none(), 200, "get", READ),
        ("GET", "/apis/apps", none(), 200, "get", READ),
        ("GET", "/apis/apps/v1", none(), 200, "get", READ),
        ("GET", "/nowhere", none(), 404, "get", READ),
        ("GET", "/api/v1/nothings", none(), 404, "list /v1 nothings", READ),
        ("GET", "/apis/nobody/v1/nothings/a", none(), 404, "get nobody/v1 nothings a", READ),
        ("PUT", PODS, none(), 405, "update /v1 pods in default", READ),
        ("HEAD", "/api/v1/pods", none(), 405, "list /v1 pods", READ),
        ("POST", "/api/v1/watch/pods", none(), 405, "create /v1 pods", READ),
        ("OPTIONS", "/api/v1/pods", none(), 405, " /v1 pods", READ),
    ];
    all(&world, rows).await;
}

#[tokio::test]
async fn somebody_who_may_not_is_seen_before_being_told_so() {
    let world = World::new();
    for path in ["/apis", PODS] {
        let answer = world.send("", Some(User::anonymous()), Method::GET, path, &Value::Null).await;
        assert_eq!(answer.map(|(code, _)| code), Ok(403));
        let seen = world.seen();
        let [(moment, call)] = seen.as_slice() else { panic!("{path}: {seen:?}") };
        assert_eq!(
            (moment.as_str(), call.user.as_str(), call.path.as_str()),
            ("before", "system:anonymous", path)
        );
    }
    // Requests without a user are the administrator's.
    world.done(Method::GET, PODS, Value::Null, 200).await;
    assert_eq!(world.seen()[0].1.user, "admin");
}

#[tokio::test]
async fn a_collection_that_could_not_be_deleted_to_the_end_was_written() {
    let world = World::new();
    let first = world.done(Method::POST, MAPS, named("a"), 201).await;
    world.done(Method::POST, MAPS, named("b"), 201).await;
    world.seen();
    let options = json!({"preconditions": {"uid": first["metadata"]["uid"]}});
    world.done(Method::DELETE, MAPS, options.clone(), 409).await;
    assert_eq!(world.moments(), WRITTEN);
    world.done(Method::GET, &format!("{MAPS}/a"), Value::Null, 404).await;
    world.seen();
    // The second time nothing goes at all.
    world.done(Method::DELETE, MAPS, options, 409).await;
    assert_eq!(world.moments(), READ);
}

#[tokio::test]
async fn an_eviction_that_failed_after_it_took_from_a_budget_was_written() {
    let world = World::new();
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({"metadata": {"name": "a"}, "spec": {
        "minAvailable": 1, "selector": {"matchLabels": {"app": "a"}},
    }});
    world.done(Method::POST, budgets, budget, 201).await;
    let allowed = json!({"status": {
        "disruptionsAllowed": 1, "observedGeneration": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2,
    }});
    world.done(Method::PATCH, &format!("{budgets}/a/status"), allowed, 200).await;
    world.done(Method::POST, PODS, pod("a"), 201).await;
    let running =
        json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    world.done(Method::PATCH, &format!("{PODS}/a/status"), running, 200).await;
    world.seen();
    let eviction = json!({"metadata": {"name": "a"}, "deleteOptions": {"preconditions": {"uid": "another"}}});
    world.done(Method::POST, &format!("{PODS}/a/eviction"), eviction.clone(), 409).await;
    assert_eq!(world.moments(), WRITTEN);
    let budget = world.done(Method::GET, &format!("{budgets}/a"), Value::Null, 200).await;
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    world.seen();
    // Where nothing is left to take, nothing is written.
    world.done(Method::POST, &format!("{PODS}/a/eviction"), eviction, 429).await;
    assert_eq!(world.moments(), READ);
}
