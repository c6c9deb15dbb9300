//! `bowline plane`, from its start to its end.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{TcpListener, TcpStream};
#[cfg(unix)]
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::{bowline, result_of, text};

#[test]
fn plane_help_tells_what_it_is() {
    insta::assert_snapshot!(result_of(&["plane", "--help"]), @"
    exit code: 0
    --- stdout
    Start a Kubernetes API server in memory, until it is stopped by Ctrl-C or SIGTERM

    Usage: bowline plane [OPTIONS]

    Options:
      -p, --port <PORT>
              Port of 127.0.0.1; 0 is any free port

              [default: 0]

          --kubeconfig <PATH>
              Kubeconfig to add a context to, until the server stops

              The context, its cluster and its user are named bowline-PORT. They are removed at the end,
              and so is a file that was created for them. The rest of the file and its current context
              stay. As with 'kubectl config', comments are lost.

              Without this option: a file in a directory of its own, in $XDG_RUNTIME_DIR or else in the
              directory of temporary files. It is removed at the end.

      -v, --verbose
              Print each request to the standard error

      -h, --help
              Print help (see a summary with '-h')

    About the server:
      The API of Kubernetes 1.36: built-in kinds and custom resources. There are no controllers, no
      scheduler and no nodes: a Deployment gets no pods. Everything is gone when it stops.

      The kubeconfig has the rights of an administrator; only its owner can read it.
    --- stderr
    ");
}

#[test]
fn a_port_that_is_taken_is_an_error_with_a_tip() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let result = result_of(&["plane", "--port", &port]).replace(&port, "[PORT]");
    insta::assert_snapshot!(result, @"
    exit code: 1
    --- stdout
    --- stderr
    error: cannot listen on 127.0.0.1:[PORT]: Address already in use (os error 98)

      tip: choose another port with '--port', or omit it to get a free one
    ");
}

#[test]
fn a_kubeconfig_that_cannot_be_written_is_an_error_with_a_tip() {
    insta::assert_snapshot!(result_of(&["plane", "--kubeconfig", "/nowhere/kubeconfig"]), @"
    exit code: 1
    --- stdout
    --- stderr
    error: cannot write the kubeconfig to /nowhere/kubeconfig: No such file or directory (os error 2)

      tip: choose another file with '--kubeconfig'
    ");
}

#[test]
#[cfg(unix)]
fn a_signal_stops_it_cleanly() {
    // Programs that `nohup` or a similar runner starts inherit that SIGHUP is ignored.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignores_hangup =
        ignored.is_some_and(|mask| mask.trim().ends_with(['1', '3', '5', '7', '9', 'b', 'd', 'f']));
    let signals = ["TERM", "INT", "HUP"];
    for signal in signals.into_iter().filter(|signal| *signal != "HUP" || !ignores_hangup) {
        let directory = Directory::new(signal);
        let mut plane = Running::start(&[], &directory.0);
        let greeting = plane.greeting();
        let address = greeting.split("https://").nth(1).and_then(|rest| rest.split(". ").next()).unwrap();
        let port = address.split(':').nth(1).unwrap();
        let file = exported(&greeting);
        let private = file.parent().unwrap().to_owned();
        assert_eq!(private.parent(), Some(&*directory.0), "it is in XDG_RUNTIME_DIR");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&private), mode(&file)), (0o700, 0o600));
        let kubeconfig = std::fs::read_to_string(&file).unwrap();
        assert!(kubeconfig.contains(&format!("server: https://{address}\n")), "{kubeconfig}");
        TcpStream::connect(address).unwrap();
        plane.signal(signal);
        let (code, rest, errors) = plane.end();
        let shown = greeting.replace(port, "[PORT]").replace(&private.display().to_string(), "[DIRECTORY]");
        insta::allow_duplicates! {
            insta::assert_snapshot!(format!("{shown}---\n{rest}"), @r#"
            A Kubernetes API server listens on https://127.0.0.1:[PORT]. It keeps everything in memory; Ctrl-C stops it.

            Try, in another terminal:
              export KUBECONFIG=[DIRECTORY]/kubeconfig
              kubectl get namespaces
              echo '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"hello"}}' | kubectl create --validate=false -f -
              kubectl get configmaps --watch
            ---
            Stopped.
            "#);
        }
        assert_eq!((code, errors.as_str()), (Some(0), ""));
        assert!(!private.exists(), "the kubeconfig goes with the server");
        assert!(TcpStream::connect(address).is_err(), "the port is closed");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_server_under_nohup_stays_when_its_terminal_is_closed() {
    let directory = Directory::new("nohup");
    let mut command = Command::new("sh");
    let tool = bowline(&[]).get_program().to_owned();
    command.args(["-c", "trap '' HUP; exec \"$0\" plane"]).arg(tool);
    let mut plane = Running::spawn(command, &directory.0);
    let greeting = plane.greeting();
    let address = greeting.split("https://").nth(1).and_then(|rest| rest.split(". ").next()).unwrap();
    plane.signal("HUP");
    TcpStream::connect(address).unwrap();
    plane.signal("TERM");
    let (code, rest, _) = plane.end();
    assert_eq!((code, rest.as_str()), (Some(0), "Stopped.\n"));
}

#[test]
#[cfg(unix)]
fn a_kubeconfig_that_is_new_goes_with_the_server_and_requests_are_printed_when_asked() {
    let directory = Directory::new("own");
    let file = directory.0.join("kubeconfig");
    let mut plane = Running::start(&["--verbose", "--kubeconfig", file.to_str().unwrap()], &directory.0);
    let greeting = plane.greeting();
    assert_eq!(exported(&greeting), file);
    assert!(greeting.contains("  kubectl get namespaces"), "{greeting}");
    let kubeconfig = std::fs::read_to_string(&file).unwrap();
    assert!(kubeconfig.contains(&format!("current-context: bowline-{}\n", port(&greeting))), "{kubeconfig}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    plane.signal("TERM");
    let (code, _, errors) = plane.end();
    assert_eq!(code, Some(0));
    assert_eq!(std::fs::read_dir(&directory.0).unwrap().count(), 0, "nothing is left");
    assert!(errors.contains(" DEBUG serving address=127.0.0.1:"), "{errors}");
}

#[test]
#[cfg(unix)]
fn a_kubeconfig_of_the_user_gets_a_context_for_as_long_as_the_server_runs() {
    let directory = Directory::new("merge");
    let (link, file) = (directory.0.join("link"), directory.0.join("config"));
    let before = "apiVersion: v1\nclusters:\n  - cluster:\n      server: https://prod\n    name: prod\ncontexts:\n  - \
                  context:\n      cluster: prod\n      user: prod\n    name: prod\ncurrent-context: prod\nkind: Config\n\
                  users:\n  - name: prod\n    user:\n      token: secret\n";
    std::fs::write(&file, before).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("config", &link).unwrap();
    let mut plane = Running::start(&["--kubeconfig", link.to_str().unwrap()], &directory.0);
    let greeting = plane.greeting();
    let context = format!("bowline-{}", port(&greeting));
    assert!(greeting.contains(&format!("  kubectl --context {context} get namespaces")), "{greeting}");
    let merged = ::bowline::kube::config::Kubeconfig::read_from(&file).unwrap();
    assert_eq!(merged.current_context.as_deref(), Some("prod"));
    let contexts: Vec<_> = merged.contexts.iter().map(|context| context.name.as_str()).collect();
    assert_eq!(contexts, ["prod", &context]);
    plane.signal("TERM");
    let (code, _, errors) = plane.end();
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert_eq!(parsed(&std::fs::read_to_string(&file).unwrap()), parsed(before));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(std::fs::read_link(&link).unwrap(), Path::new("config"));
    assert_eq!(std::fs::read_dir(&directory.0).unwrap().count(), 2, "no lock and no temporary file is left");
}

#[test]
fn a_kubeconfig_that_cannot_be_parsed_is_refused_and_stays() {
    let directory = Directory::new("broken");
    let file = directory.0.join("config");
    std::fs::write(&file, "users: [secret\n").unwrap();
    let result = result_of(&["plane", "--kubeconfig", file.to_str().unwrap()]);
    insta::assert_snapshot!(result.replace(&directory.0.display().to_string(), "[DIRECTORY]"), @"
    exit code: 1
    --- stdout
    --- stderr
    error: cannot merge into [DIRECTORY]/config: it is not valid YAML, at line 1 column 8; the file is unchanged

      tip: choose another file with '--kubeconfig'
    ");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "users: [secret\n");
    assert_eq!(std::fs::read_dir(&directory.0).unwrap().count(), 1);
}

#[test]
#[cfg(unix)]
fn what_goes_wrong_is_printed_unasked() {
    let directory = Directory::new("warnings");
    let tool = bowline(&["plane"]).get_program().to_owned();
    let mut command = Command::new("sh");
    // It cannot take more connections than it may have files.
    command.args(["-c", r#"ulimit -n 32; exec "$0" plane"#]).arg(tool);
    let mut plane = Running::spawn(command, &directory.0);
    let greeting = plane.greeting();
    let (_, rest) = greeting.split_once("https://").expect("it says where it listens");
    let (address, _) = rest.split_once(". ").expect("the sentence ends");
    let connections: Vec<_> = (0..64).filter_map(|_| TcpStream::connect(address).ok()).collect();
    let mut line = String::new();
    let stderr = plane.child.stderr.as_mut().expect("it is piped");
    BufReader::new(stderr).read_line(&mut line).expect("it prints UTF-8");
    assert!(line.contains(" WARN cannot accept connection error=Too many open files"), "{line}");
    drop(connections);
}

/// The path that a greeting says to export.
fn exported(greeting: &str) -> PathBuf {
    let line = greeting.lines().find_map(|line| line.trim().strip_prefix("export KUBECONFIG="));
    line.expect("it says what to export").into()
}

fn port(greeting: &str) -> &str {
    let (_, rest) = greeting.split_once("https://127.0.0.1:").expect("it says where it listens");
    rest.split_once(". ").expect("the sentence ends").0
}

fn parsed(yaml: &str) -> serde_json::Value {
    serde_saphyr::from_str(yaml).expect("it is YAML")
}

/// A directory of one test, removed at its end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("bowline-cli-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory can be made");
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server that is running, and killed if its test fails.
struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Running {
    fn start(arguments: &[&str], runtime_directory: &Path) -> Self {
        let mut command = bowline(&["plane"]);
        command.args(arguments);
        Self::spawn(command, runtime_directory)
    }

    fn spawn(mut command: Command, runtime_directory: &Path) -> Self {
        command.env("XDG_RUNTIME_DIR", runtime_directory).env("NO_COLOR", "1");
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the tool starts");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        Self { child, output }
    }

    /// All that it says when it is there.
    fn greeting(&mut self) -> String {
        let mut greeting = String::new();
        while !greeting.contains("--watch") {
            assert_ne!(self.output.read_line(&mut greeting).ok(), Some(0), "it ended after {greeting:?}");
        }
        greeting
    }

    fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().is_ok_and(|status| status.success()));
    }

    /// Its exit code, and what it said since the greeting.
    fn end(mut self) -> (Option<i32>, String, String) {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("it prints UTF-8");
        let mut errors = Vec::new();
        let stderr = self.child.stderr.as_mut().expect("it is piped");
        stderr.read_to_end(&mut errors).expect("it can be read");
        (self.child.wait().expect("it ends").code(), rest, text(&errors).to_owned())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}
