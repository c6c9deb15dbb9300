//! The text that a user sees when an operator runs on a plane: where it is, and commands to try.

use std::fmt::Write as _;
use std::path::PathBuf;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::ListParams;

pub(super) struct Greeting {
    /// Name of the operator's program.
    pub(super) program: String,
    pub(super) address: String,
    pub(super) kubeconfig: PathBuf,
    /// Commands of the program.
    pub(super) hints: Vec<String>,
}

impl Greeting {
    /// The whole text, with the custom kinds that the plane serves now.
    pub(super) async fn text(&self, client: &kube::Client) -> String {
        let definitions = Api::<CustomResourceDefinition>::all(client.clone());
        // Without the list, the text is shorter and still right.
        let definitions = definitions.list(&ListParams::default()).await.map(|list| list.items);
        let kinds: Vec<_> = definitions
            .unwrap_or_default()
            .into_iter()
            .map(|definition| definition.spec.names.plural)
            .collect();
        self.with_kinds(&kinds)
    }

    fn with_kinds(&self, kinds: &[String]) -> String {
        let Self { program, address, kubeconfig, hints } = self;
        let mut text = format!(
            "{program} runs on a Kubernetes API server inside its own process, at {address}, and on no cluster.\n\
             Everything is in memory; Ctrl-C stops both.\n\
             \n\
             Try, in another terminal:\n  \
             export KUBECONFIG={}\n",
            kubeconfig.display()
        );
        let get = if kinds.is_empty() {
            "kubectl get namespaces".to_owned()
        } else {
            format!("kubectl get {} --all-namespaces", kinds.join(","))
        };
        let commands = [get.as_str()].into_iter().chain(hints.iter().map(String::as_str));
        // There is no OpenAPI document to validate against.
        let general = ["kubectl apply --validate=false -f FILE", "kubectl events --all-namespaces"];
        for command in commands.chain(general) {
            // Writing to a text does not fail.
            let _ = writeln!(text, "  {command}");
        }
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting(hints: &[&str]) -> Greeting {
        Greeting {
            program: "website-operator".to_owned(),
            address: "https://127.0.0.1:6443".to_owned(),
            kubeconfig: "/tmp/website-operator-1/kubeconfig".into(),
            hints: hints.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn the_greeting_has_the_kubeconfig_the_kinds_and_the_programs_commands() {
        let text = greeting(&["kubectl delete website blog"])
            .with_kinds(&["websites".to_owned(), "domains".to_owned()]);
        insta::assert_snapshot!(text, @"
        website-operator runs on a Kubernetes API server inside its own process, at https://127.0.0.1:6443, and on no cluster.
        Everything is in memory; Ctrl-C stops both.

        Try, in another terminal:
          export KUBECONFIG=/tmp/website-operator-1/kubeconfig
          kubectl get websites,domains --all-namespaces
          kubectl delete website blog
          kubectl apply --validate=false -f FILE
          kubectl events --all-namespaces
        ");
        assert!(greeting(&[]).with_kinds(&[]).contains("\n  kubectl get namespaces\n"));
    }
}
