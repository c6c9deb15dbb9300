//! Authentication and authorization on the socket.

use bowline_apiserver::ServeOptions;
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::json;

use crate::plane::{client, get, plane};

#[tokio::test]
async fn the_administrator_is_known_by_certificate_and_by_token() {
    let serving = plane(ServeOptions::default()).await;
    for context in ["bowline", "bowline-token"] {
        let client = client(&serving.kubeconfig().to_yaml(), context).await;
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
        let mut map = ConfigMap::default();
        map.metadata.name = Some(context.to_owned());
        let mut map = maps.create(&PostParams::default(), &map).await.expect("it is created");
        let revision = map.metadata.resource_version.clone().expect("it has a revision");
        map.data = Some([("k".to_owned(), "v".to_owned())].into());
        maps.replace(context, &PostParams::default(), &map).await.expect("it is updated");
        let patch = Patch::Merge(json!({"data": {"k": null}}));
        maps.patch(context, &PatchParams::default(), &patch).await.expect("it is patched");
        assert_eq!(maps.list(&ListParams::default()).await.expect("they are listed").items.len(), 1);
        maps.delete(context, &DeleteParams::default()).await.expect("it is deleted");
        let events = maps.watch(&WatchParams::default(), &revision).await.expect("a watch begins");
        let events = futures::StreamExt::take(events, 3);
        let events: Vec<_> = events.try_collect().await.expect("the events come");
        assert!(
            matches!(&events[..], [WatchEvent::Modified(_), WatchEvent::Modified(_), WatchEvent::Deleted(_)]),
            "{events:?}"
        );
    }
    assert!(serving.stop(crate::plane::PATIENCE).await);
}

#[tokio::test]
async fn the_kubeconfig_is_written_for_its_owner_only_and_is_enough() {
    let serving = plane(ServeOptions::default()).await;
    let directory = std::env::temp_dir().join(format!("bowline-kubeconfig-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory can be made");
    let path = directory.join("kubeconfig");
    std::fs::write(&path, "what was there before").expect("a file can be written");
    serving.kubeconfig().write(&path).expect("the file can be replaced");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let text = std::fs::read_to_string(&path).expect("it can be read");
    let namespaces: Api<Namespace> = Api::all(client(&text, "bowline").await);
    let names = namespaces.list(&ListParams::default()).await.expect("they are listed").items;
    let names: Vec<_> = names.into_iter().filter_map(|namespace| namespace.metadata.name).collect();
    assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
    assert_eq!(std::fs::read_dir(&directory).expect("it is there").count(), 1, "nothing else is left");
    std::fs::remove_dir_all(&directory).expect("it can be removed");
}

#[tokio::test]
async fn somebody_without_credentials_sees_health_and_version_only() {
    let serving = plane(ServeOptions::default()).await;
    for open in ["/healthz", "/livez", "/readyz", "/readyz/ping", "/version"] {
        assert_eq!(get(&serving, open, "").await.0, 200, "{open}");
    }
    for (closed, message) in [
        ("/", r#"forbidden: User "system:anonymous" cannot get path "/""#),
        ("/api", r#"forbidden: User "system:anonymous" cannot get path "/api""#),
        ("/apis", r#"forbidden: User "system:anonymous" cannot get path "/apis""#),
        ("/apis/apps/v1", r#"forbidden: User "system:anonymous" cannot get path "/apis/apps/v1""#),
        ("/nothing", r#"forbidden: User "system:anonymous" cannot get path "/nothing""#),
        (
            "/api/v1/namespaces/default/configmaps",
            r#"configmaps is forbidden: User "system:anonymous" cannot list resource "configmaps" in API group "" in the namespace "default""#,
        ),
        (
            "/api/v1/nodes/a",
            r#"nodes "a" is forbidden: User "system:anonymous" cannot get resource "nodes" in API group "" at the cluster scope"#,
        ),
    ] {
        let (code, status) = get(&serving, closed, "").await;
        assert_eq!(
            (code, &status["reason"], &status["message"]),
            (403, &json!("Forbidden"), &json!(message))
        );
    }
}

#[tokio::test]
async fn somebody_with_a_wrong_token_is_refused_everything() {
    let serving = plane(ServeOptions::default()).await;
    let right = serving.kubeconfig().token().expose().to_owned();
    let wrong = right.replace(&right[..1], if right.starts_with('a') { "b" } else { "a" });
    for path in ["/version", "/api/v1/namespaces"] {
        let (code, status) = get(&serving, path, &format!("authorization: Bearer {wrong}\r\n")).await;
        assert_eq!(code, 401);
        assert_eq!(
            status,
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
            })
        );
        assert_eq!(get(&serving, path, &format!("authorization: Bearer {right}\r\n")).await.0, 200);
    }
}

#[tokio::test]
async fn impersonation_is_refused_and_not_ignored() {
    let serving = plane(ServeOptions::default()).await;
    let token = serving.kubeconfig().token().expose();
    for name in ["Impersonate-User", "impersonate-group", "Impersonate-Uid", "Impersonate-Extra-Scopes"] {
        let headers = format!("authorization: Bearer {token}\r\n{name}: alice\r\n");
        for path in ["/api/v1/namespaces", "/apis"] {
            let (code, status) = get(&serving, path, &headers).await;
            assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")), "{name} {path}: {status}");
            let message = status["message"].as_str().unwrap_or_default();
            assert!(message.contains("does not implement impersonation"), "{message}");
        }
    }
}
