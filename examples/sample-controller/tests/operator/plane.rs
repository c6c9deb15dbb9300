//! The program without a cluster: on an API server inside its process, or not at all.

#[cfg(not(feature = "plane"))]
#[test]
fn without_the_feature_the_error_names_the_flags_that_name_a_cluster() {
    let error = crate::process::error_of(&[], 1);
    assert_eq!(
        error,
        "Error: no cluster is named: add --kubeconfig (alone for $KUBECONFIG or ~/.kube/config, or with a path), --context or \
         --master, or run in a pod"
    );
    let error = crate::process::error_of(&["--plane"], 2);
    assert_eq!(error, "error: unexpected argument '--plane' found");
}

#[cfg(all(feature = "plane", unix))]
mod with_the_feature {
    use std::os::unix::fs::MetadataExt as _;
    use std::path::{Path, PathBuf};

    use bowline::kube::{self, Api};
    use bowline::prelude::*;
    use bowline::runtime::transport::{self, TransportOptions};
    use k8s_openapi::api::apps::v1::Deployment;
    use sample_controller::Foo;

    use crate::process::{Running, error_of, sample_controller};

    /// The program with a directory of its own for temporary files, and with variables that name clusters which do not exist.
    fn start(arguments: &[&str], directory: &Path) -> Running {
        let mut command = sample_controller();
        command.args(arguments).env("XDG_RUNTIME_DIR", directory).env("TMPDIR", directory);
        command.env("KUBECONFIG", "/nowhere/kubeconfig").env("HOME", "/nowhere");
        Running::spawn(command)
    }

    /// The kubeconfig of the greeting, and a client for it.
    async fn connect(program: &mut Running) -> Result<(PathBuf, kube::Client)> {
        let export = program.line_with("  export KUBECONFIG=");
        let kubeconfig = PathBuf::from(export.trim_start().trim_start_matches("export KUBECONFIG="));
        let config = transport::config(Some(&kubeconfig)).await?;
        let client = transport::client(&config, &TransportOptions::new(&Clock::real()))?;
        Ok((kubeconfig, client))
    }

    async fn wait_for_deployment(client: &kube::Client, name: &str) -> Result<()> {
        let deployments = Api::<Deployment>::namespaced(client.clone(), "default");
        let clock = Clock::real();
        let there = async {
            while deployments.get_opt(name).await?.is_none() {
                clock.sleep(Duration::from_millis(10)).await;
            }
            Ok::<_, Error>(())
        };
        clock.timeout(Duration::from_secs(60), there).await?
    }

    fn is_empty(directory: &Path) -> bool {
        std::fs::read_dir(directory).expect("a directory").next().is_none()
    }

    #[tokio::test]
    async fn without_a_named_cluster_it_runs_on_a_plane_that_clients_can_reach() -> Result<()> {
        let directory = tempfile::tempdir()?;
        let mut program = start(&[], directory.path());
        let (kubeconfig, client) = connect(&mut program).await?;
        let private = kubeconfig.parent().expect("a directory");
        let mode = |path: &Path| std::fs::metadata(path).expect("it exists").mode() & 0o777;
        assert_eq!((mode(private), mode(&kubeconfig)), (0o700, 0o600));
        wait_for_deployment(&client, "example-foo").await?;
        let logged = program.end("INT");
        assert!(logged.contains("reconciled"), "{logged}");
        let selected =
            logged.lines().filter(|line| line.contains("cluster selected server=https://127.0.0.1:"));
        assert_eq!(selected.filter(|line| line.ends_with(" origin=plane")).count(), 1, "{logged}");
        assert!(!logged.contains("Bearer") && !logged.contains("token="), "{logged}");
        assert!(is_empty(directory.path()));
        Ok(())
    }

    #[tokio::test]
    async fn the_objects_of_apply_replace_the_sample_and_a_sigterm_leaves_nothing() -> Result<()> {
        let (directory, files) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let (yaml, json) = (files.path().join("two.yaml"), files.path().join("one.json"));
        let foo = |name: &str| {
            let spec = serde_json::json!({"deploymentName": name, "replicas": 1});
            let (version, kind) = ("samplecontroller.k8s.io/v1alpha1", "Foo");
            serde_json::json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec})
                .to_string()
        };
        std::fs::write(&yaml, format!("# two\n---\n{}\n---\n{}\n", foo("a"), foo("b")))?;
        std::fs::write(&json, foo("c"))?;
        let (yaml, json) = (yaml.to_str().expect("text"), json.to_str().expect("text"));
        let mut program = start(&["--plane", "--apply", yaml, "--apply", json], directory.path());
        let (_, client) = connect(&mut program).await?;
        let foos: Vec<_> = Api::<Foo>::namespaced(client.clone(), "default")
            .list(&kube::api::ListParams::default())
            .await?
            .iter()
            .map(ResourceExt::name_any)
            .collect();
        assert_eq!(foos, ["a", "b", "c"]);
        for name in ["a", "b", "c"] {
            wait_for_deployment(&client, name).await?;
        }
        // A watch does not delay the end.
        let deployments = Api::<Deployment>::namespaced(client, "default");
        let _watch = deployments.watch(&kube::api::WatchParams::default(), "0").await?;
        program.end("TERM");
        assert!(is_empty(directory.path()));
        Ok(())
    }

    #[tokio::test]
    async fn an_object_that_the_plane_refuses_ends_the_program_with_its_document() -> Result<()> {
        let (directory, files) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let file = files.path().join("foo.yaml");
        let foo = "apiVersion: samplecontroller.k8s.io/v1alpha1\nkind: Foo\nmetadata: {name: a}\n";
        std::fs::write(&file, format!("{foo}spec: {{}}\n---\n{foo}spec: {{replicas: many}}\n"))?;
        let file = file.to_str().expect("text");
        let output =
            sample_controller().args(["--apply", file]).env("XDG_RUNTIME_DIR", directory.path()).output()?;
        let stderr = String::from_utf8(output.stderr)?;
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(output.stdout.is_empty());
        let error = stderr.lines().last().unwrap_or_default();
        assert!(error.contains(&format!("{file}, document 2: cannot create Foo a: ")), "{error}");
        assert!(is_empty(directory.path()));
        Ok(())
    }

    #[test]
    fn a_mistake_is_reported_before_anything_starts() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("bad.yaml");
        std::fs::write(&file, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\nkind: Foo\n")
            .unwrap();
        let file = file.to_str().unwrap();
        let missing = directory.path().join("missing.yaml");
        for (arguments, status, answer) in [
            (&["--apply", file][..], 1, "bad.yaml, document 2: it has no apiVersion"),
            (&["--apply", missing.to_str().unwrap()], 1, "missing.yaml: No such file or directory"),
            (&["--apply", file, "--kubeconfig", file], 2, "use kubectl apply -f FILE"),
            (&["--plane", "--kubeconfig"], 2, "remove one of the two"),
            (&["--metrics-secure"], 2, "--metrics-secure needs a cluster that authenticates tokens"),
        ] {
            let error = error_of(arguments, status);
            assert!(error.contains(answer), "{arguments:?}: {error}");
        }
    }
}
