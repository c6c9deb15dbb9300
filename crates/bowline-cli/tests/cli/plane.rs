//! `bowline plane`, from its start to its end.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::{bowline, text, told};

#[test]
fn plane_help_tells_what_it_is() {
    insta::assert_snapshot!(told(&["plane", "--help"]), @"
    exit code: 0
    --- stdout
    Start a Kubernetes API server in memory, until it is stopped by Ctrl-C or SIGTERM

    Usage: bowline plane [OPTIONS]

    Options:
      -p, --port <PORT>
              The port of 127.0.0.1 to listen on; 0 is any that is free

              [default: 0]

          --kubeconfig <PATH>
              Where to write the kubeconfig

              Without it: a file in $XDG_RUNTIME_DIR, or else in the directory of temporary files, that
              is removed at the end.

      -v, --verbose
              Print each request to the standard error

      -h, --help
              Print help (see a summary with '-h')

    What it is:
      The API of Kubernetes 1.36: built-in kinds and custom resources. There are no controllers, no
      scheduler and no nodes: a Deployment gets no pods. Everything is gone when it stops.

      Whoever can read the kubeconfig may do everything; it can be read by its owner only.
    --- stderr
    ");
}

#[test]
fn a_port_that_is_taken_is_an_error_with_a_tip() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let told = told(&["plane", "--port", &port]).replace(&port, "[PORT]");
    insta::assert_snapshot!(told, @"
    exit code: 1
    --- stdout
    --- stderr
    error: cannot listen on 127.0.0.1:[PORT]: Address already in use (os error 98)

      tip: choose another port with '--port', or leave it away to get one that is free
    ");
}

#[test]
fn a_kubeconfig_that_cannot_be_written_is_an_error_with_a_tip() {
    insta::assert_snapshot!(told(&["plane", "--kubeconfig", "/nowhere/kubeconfig"]), @"
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
    for signal in ["TERM", "INT"] {
        let directory = Directory::new(signal);
        let mut plane = Running::start(&[], &directory.0);
        let greeting = plane.greeting();
        let address = greeting.split("https://").nth(1).and_then(|rest| rest.split(". ").next()).unwrap();
        let port = address.split(':').nth(1).unwrap();
        let file = directory.0.join(format!("bowline-{port}.kubeconfig"));
        let kubeconfig = std::fs::read_to_string(&file).unwrap();
        assert!(kubeconfig.contains(&format!("server: https://{address}\n")), "{kubeconfig}");
        TcpStream::connect(address).unwrap();
        plane.signal(signal);
        let (code, rest, errors) = plane.end();
        let shown =
            greeting.replace(port, "[PORT]").replace(&directory.0.display().to_string(), "[DIRECTORY]");
        insta::allow_duplicates! {
            insta::assert_snapshot!(format!("{shown}---\n{rest}"), @r#"
            A Kubernetes API server listens on https://127.0.0.1:[PORT]. It keeps everything in memory; Ctrl-C stops it.

            Try, in another terminal:
              export KUBECONFIG=[DIRECTORY]/bowline-[PORT].kubeconfig
              kubectl get namespaces
              echo '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"hello"}}' | kubectl create --validate=false -f -
              kubectl get configmaps --watch
            ---
            Stopped.
            "#);
        }
        assert_eq!((code, errors.as_str()), (Some(0), ""));
        assert!(!file.exists(), "the kubeconfig goes with the server");
        assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
    }
}

#[test]
#[cfg(unix)]
fn a_kubeconfig_of_ones_own_choice_stays_and_requests_are_printed_when_asked() {
    let directory = Directory::new("own");
    let file = directory.0.join("kubeconfig");
    let mut plane = Running::start(&["--verbose", "--kubeconfig", file.to_str().unwrap()], &directory.0);
    assert!(plane.greeting().contains(&format!("export KUBECONFIG={}\n", file.display())));
    plane.signal("TERM");
    let (code, _, errors) = plane.end();
    assert_eq!(code, Some(0));
    assert!(file.exists());
    assert!(errors.contains(" DEBUG serving address=127.0.0.1:"), "{errors}");
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
        command.args(arguments).env("XDG_RUNTIME_DIR", runtime_directory).env("NO_COLOR", "1");
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
