//! What can be typed, and what is answered.

use std::path::Path;
use std::time::Duration;

use super::*;

/// Looks after websites
#[derive(Debug, clap::Parser)]
#[command(version = "1.2.3")]
#[command(mut_arg("leader_election_id", |arg| arg.default_value("websites")))]
struct Own {
    /// The image of a website that names none
    #[arg(long, value_name = "IMAGE", default_value = "nginx")]
    image: String,
}

fn read<F: clap::Args>(line: &str) -> Result<Arguments<F>, clap::Error> {
    Arguments::try_from_iter(line.split(' '))
}

/// The first line of what is said to somebody who typed something wrong.
fn refused(line: &str) -> String {
    let error = read::<()>(line).unwrap_err();
    assert_eq!(error.exit_code(), 2, "{error}");
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

#[test]
fn the_definition_is_consistent() {
    definition::<()>("operator").debug_assert();
    definition::<Own>("operator").debug_assert();
}

#[test]
fn a_program_has_its_own_flags_beside_the_ready_made_ones() {
    let arguments = read::<Own>("operator --image httpd --leader-elect -n a,b --namespace c").unwrap();
    assert_eq!(arguments.own.image, "httpd");
    assert!(arguments.flags.leader_elect);
    assert_eq!(arguments.flags.namespace, ["a", "b", "c"]);
}

#[test]
fn a_program_may_flatten_the_flags_into_a_command_line_of_its_own() {
    /// All my own
    #[derive(Debug, clap::Parser)]
    struct Whole {
        #[command(flatten)]
        manager: ManagerFlags,
        #[command(subcommand)]
        verb: Verb,
    }
    #[derive(Debug, PartialEq, clap::Subcommand)]
    enum Verb {
        Run,
    }
    let whole: Whole = clap::Parser::parse_from(["operator", "--context", "a", "run"]);
    assert_eq!((whole.manager.context.as_deref(), whole.verb), (Some("a"), Verb::Run));
    let mut definition = <Whole as clap::CommandFactory>::command();
    definition.clone().debug_assert();
    assert!(
        definition.render_help().to_string().starts_with("All my own\n"),
        "not what the flags say of themselves"
    );
}

#[test]
fn switches_are_typed_as_in_go() {
    for (line, is_on) in [
        ("operator", false),
        ("operator --leader-elect", true),
        ("operator --leader-elect=true", true),
        ("operator --leader-elect=false", false),
    ] {
        assert_eq!(read::<Own>(line).unwrap().flags.leader_elect, is_on, "{line}");
    }
    assert!(!read::<()>("operator").unwrap().flags.enable_debug);
    assert!(read::<()>("operator --enable-debug --metrics-bind-address :8080").unwrap().flags.enable_debug);
    assert!(read::<()>("operator").unwrap().flags.metrics_secure);
    assert!(!read::<()>("operator --metrics-secure=false").unwrap().flags.metrics_secure);
}

#[test]
fn a_kubeconfig_without_a_path_is_the_usual_one() {
    let kubeconfig = |line| read::<()>(line).unwrap().flags.kubeconfig;
    assert_eq!(kubeconfig("operator"), None);
    assert_eq!(kubeconfig("operator --kubeconfig --metrics-secure").as_deref(), Some(Path::new("")));
    assert_eq!(kubeconfig("operator --kubeconfig a/b").as_deref(), Some(Path::new("a/b")));
}

#[test]
fn durations_are_typed_as_in_go() {
    let flags = read::<()>("operator --leader-election-lease-duration 1m30s").unwrap().flags;
    assert_eq!(flags.leader_election_lease_duration, Duration::from_secs(90));
    assert_eq!(flags.leader_election_renew_deadline, Duration::from_secs(10));
    assert_eq!(flags.leader_election_retry_period, Duration::from_secs(2));
    assert_eq!(flags.graceful_shutdown_timeout, Duration::from_secs(30));
}

#[test]
fn nonsense_is_refused_with_the_flag_and_the_reason() {
    let namespace = "a namespace has up to 63 lower case letters, digits and '-', and no '-' at its ends";
    for (given, answer) in [
        (
            "--leader-election-retry-period soon",
            "invalid value 'soon' for '--leader-election-retry-period <DURATION>': \
             a duration is like 500ms, 15s, 1m30s or 1.5h",
        ),
        (
            "--graceful-shutdown-timeout=-1s",
            "invalid value '-1s' for '--graceful-shutdown-timeout <DURATION>': a duration cannot be negative",
        ),
        ("--namespace Web", &format!("invalid value 'Web' for '--namespace <NAMES>': {namespace}")),
        ("-n a,-,b", &format!("invalid value '-' for '--namespace <NAMES>': {namespace}")),
        (
            "--leader-election-id a/b",
            "invalid value 'a/b' for '--leader-election-id <NAME>': a name has up to 253 lower case letters, digits, \
             '-' and '.', and begins and ends with one of the former two",
        ),
        (
            "--master 10.0.0.1",
            "invalid value '10.0.0.1' for '--master <URL>': an address is like https://10.0.0.1:6443",
        ),
        (
            "--max-concurrent-reconciles 0",
            "invalid value '0' for '--max-concurrent-reconciles <NUMBER>': number would be zero for non-zero type",
        ),
        ("--leader-elect=perhaps", "invalid value 'perhaps' for '--leader-elect[=<BOOL>]'"),
        (
            "--leader-elect",
            "--leader-elect needs --leader-election-id, the name of the lease: all replicas of this operator, of whatever \
             version, must have the same, and no other operator in the namespace may have it",
        ),
        (
            "--enable-debug",
            "--enable-debug adds a page to the metrics server, and there is none: set --metrics-bind-address, for example to \
             127.0.0.1:8080",
        ),
        ("--kubekonfig a", "unexpected argument '--kubekonfig' found"),
        ("extra", "unexpected argument 'extra' found"),
    ] {
        assert_eq!(refused(&format!("operator {given}")), format!("error: {answer}"));
    }
}

#[test]
fn a_lease_is_called_what_the_program_says_wherever_its_file_is() {
    for (line, lease) in [
        ("/manager --leader-elect", "websites"),
        ("operator-1.3.0 --leader-elect --leader-election-id=", "websites"),
        ("operator --leader-elect --leader-election-id=mine", "mine"),
    ] {
        assert_eq!(read::<Own>(line).unwrap().flags.leader_election_id.as_deref(), Some(lease), "{line}");
    }
    assert!(refused("/manager --leader-elect --leader-election-id=").contains("needs --leader-election-id"));
}

#[test]
fn an_empty_value_is_none() {
    let options = "--context= --master= --namespace= --metrics-cert-path= --leader-election-namespace= --leader-election-id=";
    let flags = read::<()>(&format!("operator {options}")).unwrap().flags;
    assert_eq!((&flags.context, &flags.master, &flags.metrics_cert_path), (&None, &None, &None));
    assert_eq!((&flags.leader_election_namespace, &flags.leader_election_id), (&None, &None));
    assert!(flags.namespace.is_empty(), "{:?}", flags.namespace);
    let words = ["operator", "--context", "", "--master", "", "-n", "", "--namespace", "a,,b,"];
    let flags = Arguments::<()>::try_from_iter(words).unwrap().flags;
    assert_eq!((&flags.context, &flags.master), (&None, &None));
    assert_eq!(flags.namespace, ["a", "b"]);

    let options = "--context=a --master=https://a --metrics-cert-path=b --leader-election-namespace=c";
    let flags = read::<()>(&format!("operator {options}")).unwrap().flags;
    assert_eq!(flags.context.as_deref(), Some("a"));
    assert_eq!(flags.master, Some("https://a".parse().unwrap()));
    assert_eq!(flags.metrics_cert_path.as_deref(), Some(Path::new("b")));
    assert_eq!(flags.leader_election_namespace.as_deref(), Some("c"));
}

#[test]
fn a_program_knows_what_was_typed() {
    let arguments = read::<Own>("operator --metrics-secure --image nginx").unwrap();
    for (flag, is_typed) in
        [("metrics_secure", true), ("image", true), ("context", false), ("log_level", false)]
    {
        assert_eq!(arguments.is_typed(flag), is_typed, "{flag}");
    }
}

#[tokio::test]
async fn flags_that_do_not_fit_together_make_no_manager_in_a_command_line_of_its_own_either() {
    #[derive(Debug, clap::Parser)]
    struct Whole {
        #[command(flatten)]
        manager: ManagerFlags,
    }
    let whole: Whole = clap::Parser::parse_from(["operator", "--leader-elect", "--leader-election-id="]);
    let Err(error) = whole.manager.builder().await else { panic!("it has no lease") };
    assert!(error.to_string().contains("needs --leader-election-id"), "{error}");
}

#[test]
fn the_version_is_the_programs_own() {
    let error = read::<Own>("/usr/bin/website-operator --version").unwrap_err();
    assert_eq!((error.to_string().as_str(), error.exit_code()), ("website-operator 1.2.3\n", 0));
}

#[test]
fn the_help_lists_all_flags_with_their_defaults() {
    let error = read::<Own>("website-operator -h").unwrap_err();
    assert_eq!(error.exit_code(), 0);
    insta::assert_snapshot!(error.to_string(), @"
    Looks after websites

    Usage: website-operator [OPTIONS]

    Options:
          --image <IMAGE>  The image of a website that names none [default: nginx]
      -h, --help           Print help (see more with '--help')
      -V, --version        Print version

    Cluster:
          --kubeconfig [<PATH>]  The kubeconfig of the cluster [default: $KUBECONFIG, or the pod's, or
                                 ~/.kube/config]
          --context <NAME>       The context of the kubeconfig [default: its current one]
          --master <URL>         The address of the API server, whatever the kubeconfig says
      -n, --namespace <NAMES>    The namespaces to work in, comma-separated or one flag each [default:
                                 all]

    Servers:
          --metrics-bind-address <ADDRESS>
              Where metrics are served, as HOST:PORT or :PORT; 0 is nowhere [default: 0]
          --metrics-secure[=<BOOL>]
              Whether metrics are served over TLS, to those only whom the cluster lets read /metrics
              [default: true]
          --metrics-cert-path <PATH>
              The directory of the metrics server's certificate [default: it signs one itself]
          --metrics-cert-name <NAME>
              The file of the certificate in that directory [default: tls.crt]
          --metrics-cert-key <NAME>
              The file of the certificate's key in that directory [default: tls.key]
          --health-probe-bind-address <ADDRESS>
              Where /healthz and /readyz are served, as HOST:PORT or :PORT; 0 is nowhere [default:
              :8081]
          --enable-debug[=<BOOL>]
              Whether the metrics server shows at /debug what controllers do [default: false]

    Leader election:
          --leader-elect[=<BOOL>]
              Whether of several replicas only one acts: the one that has the lease [default: false]
          --leader-election-id <NAME>
              The name of the lease, for all replicas of this operator and nobody else; --leader-elect
              needs one [default: websites]
          --leader-election-namespace <NAME>
              The namespace of the lease [default: that of the pod]
          --leader-election-lease-duration <DURATION>
              How long others wait after the leader's last renewal before they take over [default: 15s]
          --leader-election-renew-deadline <DURATION>
              How long the leader goes on without a renewal before it gives up [default: 10s]
          --leader-election-retry-period <DURATION>
              How long to wait between two tries to take or to renew the lease [default: 2s]

    Work:
          --max-concurrent-reconciles <NUMBER>
              How many objects a controller works on at once, unless it says so itself [default: 1]
          --graceful-shutdown-timeout <DURATION>
              How long a stop may take: for what runs to end, then for the last events and the lease
              [default: 30s]

    Logs:
          --log-level <LEVEL>    What is logged: a level, and others for parts of the code, like
                                 info,kube=debug [default: info]
          --log-format <FORMAT>  How a line of the log looks: text or json [default: text]
    ");
}
