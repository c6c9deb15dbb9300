//! Which objects a list shows: label selectors and field selectors.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::{Env, names};

/// A text as it stands in a query.
fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

async fn selected(env: &Env, path: &str, option: &str, selector: &str) -> Vec<String> {
    let list = env.get(&format!("{path}?{option}={}", encoded(selector))).await.expect(200);
    names(&list).into_iter().map(str::to_owned).collect()
}

#[tokio::test]
async fn labels_select_by_value_by_set_and_by_existence() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    for (name, labels) in [
        ("a", json!({"tier": "web", "track": "stable"})),
        ("b", json!({"tier": "db", "track": "canary"})),
        ("c", json!({"tier": "", "example.com/x": "1"})),
        ("d", json!({})),
    ] {
        env.post(&path, json!({"metadata": {"name": name, "labels": labels}})).await.expect(201);
    }
    for (selector, expected) in [
        ("", "abcd"),
        ("tier=web", "a"),
        ("tier==web", "a"),
        ("tier = web , track = stable", "a"),
        ("tier=web,track=canary", ""),
        ("tier!=web", "bcd"),
        ("tier in (web,db)", "ab"),
        ("tier in (web,)", "ac"),
        ("tier notin (web,db)", "cd"),
        ("tier", "abc"),
        ("!tier", "d"),
        ("tier=", "c"),
        ("tier,track", "ab"),
        ("example.com/x", "c"),
        ("tier in ()", "c"),
        ("track>1", ""),
        ("example.com/x>0", "c"),
        ("example.com/x<1", ""),
    ] {
        assert_eq!(selected(&env, &path, "labelSelector", selector).await.concat(), expected, "{selector}");
    }
}

#[tokio::test]
async fn a_label_selector_that_cannot_be_read_is_told() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    for (selector, why) in [
        ("l===", "found '=', expected: identifier"),
        ("!", "found '', expected: identifier"),
        ("l in (a", "found '', expected: ',' or ')'"),
        ("l in a", "found 'a' expected: '('"),
        (
            "-x",
            "<nil>: Invalid value: \"-x\": name part must consist of alphanumeric characters, '-', '_' or '.', and \
             must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex \
             used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ),
        (
            "l=-",
            "values[0][l]: Invalid value: \"-\": a valid label must be an empty string or consist of alphanumeric \
             characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or \
             'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ),
    ] {
        let answer = env.get(&format!("{path}?labelSelector={}", encoded(selector))).await;
        answer.expect_status(400, "BadRequest", &format!("unable to parse requirement: {why}"));
    }
}

#[tokio::test]
async fn every_kind_is_selected_by_name_and_namespace() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    for name in ["a", "b", "c"] {
        env.post(&path, json!({"metadata": {"name": name}})).await.expect(201);
    }
    let own = &env.namespace;
    for (selector, expected) in [
        ("metadata.name=a".to_owned(), "a"),
        ("metadata.name==a".to_owned(), "a"),
        ("metadata.name!=a".to_owned(), "bc"),
        ("metadata.name=a,metadata.name!=b".to_owned(), "a"),
        ("metadata.name=a,metadata.name=b".to_owned(), ""),
        ("metadata.name=a,,".to_owned(), "a"),
        (format!("metadata.namespace={own}"), "abc"),
        (format!("metadata.name!=b,metadata.namespace={own}"), "ac"),
        ("metadata.namespace=other".to_owned(), ""),
        ("metadata.name=x/y".to_owned(), ""),
    ] {
        assert_eq!(selected(&env, &path, "fieldSelector", &selector).await.concat(), expected, "{selector}");
    }
    let all =
        selected(&env, "/api/v1/configmaps", "fieldSelector", &format!("metadata.namespace={own}")).await;
    assert_eq!(all.concat(), "abc");
}

#[tokio::test]
async fn a_field_selector_that_cannot_be_read_is_told() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    for (selector, message) in [
        ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        (
            "metadata.name in (a)",
            "invalid selector: 'metadata.name in (a)'; can't understand 'metadata.name in (a)'",
        ),
        (r"metadata.name=a\b", r"invalid field selector: invalid escape sequence: \b"),
    ] {
        let answer = env.get(&format!("{path}?fieldSelector={}", encoded(selector))).await;
        answer.expect_status(400, "BadRequest", message);
    }
}

#[tokio::test]
async fn a_field_that_a_kind_cannot_be_selected_by_is_refused_in_the_words_of_the_kind() {
    let env = Env::new().await;
    for resource in [
        "api/v1/pods",
        "api/v1/events",
        "api/v1/secrets",
        "api/v1/services",
        "api/v1/namespaces",
        "api/v1/nodes",
        "api/v1/replicationcontrollers",
        "apis/events.k8s.io/v1/events",
        "apis/certificates.k8s.io/v1/certificatesigningrequests",
    ] {
        let answer = env.get(&format!("/{resource}?fieldSelector=spec.x%3D1")).await;
        answer.expect_status(400, "BadRequest", "field label not supported: spec.x");
    }
    let answer = env.get("/apis/batch/v1/jobs?fieldSelector=spec.x%3D1").await;
    answer.expect_status(400, "BadRequest", "field label \"spec.x\" not supported for Job");
    for resource in [
        "api/v1/configmaps",
        "api/v1/endpoints",
        "api/v1/limitranges",
        "api/v1/persistentvolumeclaims",
        "api/v1/persistentvolumes",
        "api/v1/podtemplates",
        "api/v1/resourcequotas",
        "api/v1/serviceaccounts",
        "apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        "apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "apis/apiregistration.k8s.io/v1/apiservices",
        "apis/apps/v1/controllerrevisions",
        "apis/apps/v1/daemonsets",
        "apis/apps/v1/deployments",
        "apis/apps/v1/replicasets",
        "apis/apps/v1/statefulsets",
        "apis/autoscaling/v1/horizontalpodautoscalers",
        "apis/autoscaling/v2/horizontalpodautoscalers",
        "apis/batch/v1/cronjobs",
        "apis/coordination.k8s.io/v1/leases",
        "apis/discovery.k8s.io/v1/endpointslices",
        "apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
        "apis/networking.k8s.io/v1/ingresses",
        "apis/node.k8s.io/v1/runtimeclasses",
        "apis/policy/v1/poddisruptionbudgets",
        "apis/rbac.authorization.k8s.io/v1/roles",
        "apis/scheduling.k8s.io/v1/priorityclasses",
        "apis/storage.k8s.io/v1/storageclasses",
    ] {
        let answer = env.get(&format!("/{resource}?fieldSelector=status.replicas%3D1")).await;
        let message = "\"status.replicas\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"";
        answer.expect_status(400, "BadRequest", message);
    }
    // The same where objects are deleted.
    let answer = env.delete(&format!("{}?fieldSelector=spec.x%3D1", env.core("pods"))).await;
    answer.expect_status(400, "BadRequest", "field label not supported: spec.x");
}

#[tokio::test]
async fn kinds_without_a_namespace_may_be_selected_by_none_or_not_at_all() {
    let env = Env::new().await;
    for resource in
        ["api/v1/nodes", "api/v1/namespaces", "apis/certificates.k8s.io/v1/certificatesigningrequests"]
    {
        let answer = env.get(&format!("/{resource}?fieldSelector=metadata.namespace%3D")).await;
        answer.expect_status(400, "BadRequest", "field label not supported: metadata.namespace");
    }
    let name = env.unique("reads");
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    env.post(path, json!({"metadata": {"name": name}})).await.expect(201);
    let none = format!("metadata.name={name},metadata.namespace=");
    assert_eq!(selected(&env, path, "fieldSelector", &none).await, [name.as_str()]);
    let some = format!("metadata.name={name},metadata.namespace=default");
    assert!(selected(&env, path, "fieldSelector", &some).await.is_empty());
    env.delete(&format!("{path}/{name}")).await.expect(200);
}

#[tokio::test]
async fn pods_are_selected_by_where_and_how_they_run() {
    let env = Env::new().await;
    let path = env.core("pods");
    let containers = json!([{"name": "c", "image": "i"}]);
    for (name, spec) in [
        (
            "a",
            json!({
                "nodeName": "n1", "restartPolicy": "Never", "hostNetwork": true,
                "schedulerName": "default-scheduler",
            }),
        ),
        ("b", json!({"restartPolicy": "Always", "schedulerName": "mine", "serviceAccountName": "robot"})),
    ] {
        let mut spec: Value = spec;
        spec["containers"] = containers.clone();
        env.post(&path, json!({"metadata": {"name": name}, "spec": spec})).await.expect(201);
    }
    let status = json!({"status": {"phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]}});
    env.merge(&format!("{path}/b/status"), status).await.expect(200);
    for (selector, expected) in [
        ("spec.nodeName=n1", "a"),
        ("spec.nodeName=", "b"),
        ("spec.host=n1", "a"),
        ("spec.restartPolicy=Never", "a"),
        ("spec.restartPolicy=Always", "b"),
        ("spec.schedulerName=default-scheduler", "a"),
        ("spec.schedulerName=mine", "b"),
        ("spec.serviceAccountName=robot", "b"),
        ("spec.hostNetwork=true", "a"),
        ("spec.hostNetwork=false", "b"),
        ("status.phase=Pending", "a"),
        ("status.phase=Running,spec.nodeName!=n1", "b"),
        ("status.podIP=10.1.2.3", "b"),
        // It may be named, and is never there.
        ("status.podIPs=10.1.2.3", ""),
        ("status.podIPs=", "ab"),
        ("status.nominatedNodeName=", "ab"),
    ] {
        assert_eq!(selected(&env, &path, "fieldSelector", selector).await.concat(), expected, "{selector}");
    }
}

#[tokio::test]
async fn events_are_selected_by_what_they_are_about() {
    let env = Env::new().await;
    let path = env.core("events");
    let about = json!({
        "kind": "Pod", "namespace": env.namespace, "name": "p", "uid": "u", "apiVersion": "v1",
        "resourceVersion": "7", "fieldPath": "spec.containers{c}",
    });
    let event = json!({
        "metadata": {"name": "a"}, "involvedObject": about, "reason": "Started", "type": "Normal",
        "source": {"component": "kubelet"},
    });
    env.post(&path, event).await.expect(201);
    let event = json!({
        "metadata": {"name": "b"}, "involvedObject": {"kind": "Node", "name": "n", "namespace": env.namespace},
        "reason": "Failed", "type": "Warning", "reportingComponent": "me", "reportingInstance": "me-1",
    });
    env.post(&path, event).await.expect(201);
    for (selector, expected) in [
        ("involvedObject.kind=Pod,involvedObject.name=p".to_owned(), "a"),
        ("involvedObject.uid=u".to_owned(), "a"),
        ("involvedObject.apiVersion=v1".to_owned(), "a"),
        ("involvedObject.resourceVersion=7".to_owned(), "a"),
        ("involvedObject.fieldPath=spec.containers{c}".to_owned(), "a"),
        (format!("involvedObject.namespace={}", env.namespace), "ab"),
        ("reason=Failed".to_owned(), "b"),
        ("type!=Normal".to_owned(), "b"),
        ("source=kubelet".to_owned(), "a"),
        ("source=me".to_owned(), "b"),
        ("reportingComponent=me".to_owned(), "b"),
    ] {
        assert_eq!(selected(&env, &path, "fieldSelector", &selector).await.concat(), expected, "{selector}");
    }
    // The same objects in their newer group, where the fields have other names.
    let path = env.group("events.k8s.io/v1", "events");
    for (selector, expected) in [
        ("regarding.kind=Pod", "a"),
        ("regarding.name=n", "b"),
        ("reportingController=me", "b"),
        ("reason=Started,type=Normal", "a"),
    ] {
        assert_eq!(selected(&env, &path, "fieldSelector", selector).await.concat(), expected, "{selector}");
    }
    let answer = env.get(&format!("{path}?fieldSelector=involvedObject.kind%3DPod")).await;
    answer.expect_status(400, "BadRequest", "field label not supported: involvedObject.kind");
    let answer = env.get(&format!("{path}?fieldSelector=source%3Dme")).await;
    answer.expect_status(400, "BadRequest", "field label not supported: source");
}

#[tokio::test]
async fn other_kinds_are_selected_by_a_field_or_two() {
    let env = Env::new().await;
    let secret = json!({"metadata": {"name": "x"}, "type": "example.com/mine"});
    env.post(&env.core("secrets"), secret).await.expect(201);
    let ports = json!([{"port": 80}]);
    let spec = json!({"type": "ClusterIP", "clusterIP": "None", "ports": ports});
    let headless = json!({"metadata": {"name": "x"}, "spec": spec});
    env.post(&env.core("services"), headless).await.expect(201);
    let template = json!({
        "metadata": {"labels": {"a": "b"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    });
    let job = json!({"metadata": {"name": "x"}, "spec": {"template": template}});
    env.post(&env.group("batch/v1", "jobs"), job).await.expect(201);
    let mut template = template;
    template["spec"]["restartPolicy"] = json!("Always");
    let controller = json!({"metadata": {"name": "x"}, "spec": {"replicas": 1, "template": template}});
    env.post(&env.core("replicationcontrollers"), controller).await.expect(201);
    for (path, yes, no) in [
        (env.core("secrets"), "type=example.com/mine", "type=Opaque"),
        (env.core("services"), "spec.clusterIP=None,spec.type=ClusterIP", "spec.type=NodePort"),
        (env.group("batch/v1", "jobs"), "status.successful=0", "status.successful=1"),
        (env.core("replicationcontrollers"), "status.replicas=0", "status.replicas!=0"),
    ] {
        assert_eq!(selected(&env, &path, "fieldSelector", yes).await, ["x"], "{path} {yes}");
        assert!(selected(&env, &path, "fieldSelector", no).await.is_empty(), "{path} {no}");
    }
    let node = env.unique("node");
    env.post("/api/v1/nodes", json!({"metadata": {"name": node}})).await.expect(201);
    for (path, field, name) in [
        ("/api/v1/nodes", "spec.unschedulable=false", &node),
        ("/api/v1/namespaces", "status.phase=Active", &env.namespace),
    ] {
        let yes = format!("{field},metadata.name={name}");
        assert_eq!(selected(&env, path, "fieldSelector", &yes).await, [name.as_str()], "{yes}");
        let no = format!("{},metadata.name={name}", field.replace('=', "!="));
        assert!(selected(&env, path, "fieldSelector", &no).await.is_empty(), "{no}");
    }
    env.delete(&format!("/api/v1/nodes/{node}")).await.expect(200);
}

#[tokio::test]
async fn what_is_wrong_with_a_list_is_told_in_order() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    // Texts that cannot be read come first, then options that contradict each other, then fields that are not there.
    for (query, code, begin) in [
        ("fieldSelector=a%3D1&labelSelector=!", 400, "unable to parse requirement"),
        ("fieldSelector=a%3D1&limit=x", 400, "strconv.ParseInt"),
        ("fieldSelector=a%3D1&resourceVersionMatch=Exact", 422, "ListOptions.meta.k8s.io"),
        ("fieldSelector=a%3D1&resourceVersion=x", 400, "\"a\" is not a known field selector"),
        ("fieldSelector=a%3D1&continue=x", 400, "\"a\" is not a known field selector"),
    ] {
        let status = env.get(&format!("{path}?{query}")).await.expect(code);
        let message = status["message"].as_str().unwrap_or_default();
        assert!(message.starts_with(begin), "{query}: {message}");
    }
}

#[tokio::test]
async fn the_same_events_are_read_and_written_in_both_groups() {
    let env = Env::new().await;
    let (core, new) = (env.core("events"), env.group("events.k8s.io/v1", "events"));
    let without_metadata = |mut event: Value| {
        event.as_object_mut().expect("an object").remove("metadata");
        event
    };
    let about = json!({"kind": "Pod", "namespace": env.namespace, "name": "p"});
    let event = json!({
        "metadata": {"name": "old"}, "involvedObject": about, "reason": "Started", "message": "m",
        "type": "Normal", "source": {"component": "kubelet"}, "count": 2,
        "firstTimestamp": "2020-01-01T00:00:00Z", "lastTimestamp": "2020-01-01T00:00:01Z",
    });
    env.post(&core, event).await.expect(201);
    let read = env.get(&format!("{new}/old")).await.expect(200);
    let expected = json!({
        "kind": "Event", "apiVersion": "events.k8s.io/v1", "regarding": about, "reason": "Started", "note": "m",
        "type": "Normal", "deprecatedSource": {"component": "kubelet"}, "deprecatedCount": 2, "eventTime": null,
        "deprecatedFirstTimestamp": "2020-01-01T00:00:00Z", "deprecatedLastTimestamp": "2020-01-01T00:00:01Z",
    });
    assert_eq!(without_metadata(read), expected);
    let event = json!({
        "metadata": {"name": "young"}, "regarding": about, "reason": "Started", "note": "n", "type": "Normal",
        "action": "Starting", "eventTime": "2020-01-01T00:00:00.000001Z", "reportingController": "example.com/me",
        "reportingInstance": "me-1",
    });
    env.post(&new, event).await.expect(201);
    let read = env.get(&format!("{core}/young")).await.expect(200);
    let expected = json!({
        "kind": "Event", "apiVersion": "v1", "involvedObject": about, "reason": "Started", "message": "n",
        "type": "Normal", "action": "Starting", "source": {}, "eventTime": "2020-01-01T00:00:00.000001Z",
        "firstTimestamp": null, "lastTimestamp": null, "reportingComponent": "example.com/me",
        "reportingInstance": "me-1",
    });
    assert_eq!(without_metadata(read), expected);
    assert_eq!(names(&env.get(&new).await.expect(200)), ["old", "young"]);
    env.delete(&format!("{new}/old")).await.expect(200);
    assert_eq!(names(&env.get(&core).await.expect(200)), ["young"]);
}
