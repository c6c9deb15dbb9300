//! A kubeconfig, as JSON, which is YAML.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::credentials::Pair;

/// The text of a kubeconfig that refers to no other file.
pub(super) fn kubeconfig(server: &str, authority: &str, user: &str, pair: &Pair) -> String {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bowline-real",
        "contexts": [{"name": "bowline-real", "context": {"cluster": "bowline-real", "user": user}}],
        "clusters": [{
            "name": "bowline-real",
            "cluster": {"server": server, "certificate-authority-data": STANDARD.encode(authority)},
        }],
        "users": [{
            "name": user,
            "user": {
                "client-certificate-data": STANDARD.encode(&pair.certificate),
                "client-key-data": STANDARD.encode(pair.key.expose()),
            },
        }],
    });
    format!("{config:#}\n")
}
