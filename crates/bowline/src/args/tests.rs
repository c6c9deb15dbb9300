//! Arguments and their meaning, mistakes and their messages.

use std::path::Path;
use std::time::Duration;

use super::*;

/// Serves every website
#[derive(Debug, clap::Parser)]
#[command(version = "1.2.3")]
#[command(mut_arg("leader_election_id", |arg| arg.default_value("websites")))]
struct Own {
    /// Image of a website that names none
    #[arg(long, value_name = "IMAGE", default_value = "nginx")]
    image: String,
}

fn read<F: clap::Args>(line: &str) -> Result<Arguments<F>, clap::Error> {
    Arguments::try_from_iter(line.split(' '))
}

/// The first line of the message about a mistake.
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
fn probes_listen_on_loopback_outside_a_pod() {
    assert_eq!(flags::probe_address(true).to_string(), ":8081");
    assert_eq!(flags::probe_address(false).to_string(), "127.0.0.1:8081");
    let typed = read::<()>("operator").unwrap().flags.health_probe_bind_address;
    assert_eq!(typed, flags::probe_address(flags::is_pod()));
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
    assert!(definition.render_help().to_string().starts_with("All my own\n"), "not the text of the flags");
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
    let debug = "operator --kubeconfig --enable-debug --metrics-bind-address :8080";
    assert!(read::<()>(debug).unwrap().flags.enable_debug);
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
fn only_a_flag_or_a_pod_names_a_cluster() {
    use cluster::ClusterChoice::{InCluster, Named, Plane};

    for (line, outside, in_pod) in [
        ("operator", None, Some(InCluster)),
        ("operator --namespace a --master= --context=", None, Some(InCluster)),
        ("operator --kubeconfig", Some(Named), Some(Named)),
        ("operator --kubeconfig a/b", Some(Named), Some(Named)),
        ("operator --context a", Some(Named), Some(Named)),
        ("operator --master https://a", Some(Named), Some(Named)),
    ] {
        let flags = read::<()>(line).unwrap().flags;
        assert_eq!(flags.choice_in(false, false), outside, "{line}");
        assert_eq!(flags.choice_in(true, false), in_pod, "{line}");
        assert_eq!(flags.choice_in(false, true), outside.or(Some(Plane)), "{line}");
        assert_eq!(flags.choice_in(true, true), in_pod, "{line}");
    }
}

#[cfg(feature = "plane")]
#[test]
fn a_plane_is_used_if_it_is_asked_for_and_then_no_flag_may_name_a_cluster() {
    let flags = read::<()>("operator --plane --apply a.yaml --apply b.json").unwrap().flags;
    assert_eq!(flags.choice_in(true, true), Some(cluster::ClusterChoice::Plane), "also in a pod");
    assert_eq!(flags.apply, [Path::new("a.yaml"), Path::new("b.json")]);
    assert!(!flags.names_cluster());
    for (given, answer) in [
        (
            "--plane --kubeconfig",
            "--plane runs the operator on an API server inside this process, and --kubeconfig on a cluster: remove one of the two",
        ),
        (
            "--plane --context a",
            "--plane runs the operator on an API server inside this process, and --context on a cluster: remove one of the two",
        ),
        (
            "--master https://a --apply a.yaml",
            "--apply creates objects on an API server inside this process, not on a cluster, and --master names one: remove \
             --apply, and use kubectl apply -f FILE",
        ),
        (
            "--plane --metrics-secure",
            "--metrics-secure needs a cluster that authenticates tokens, and the API server inside this process does not: remove \
             it, or name a cluster with --kubeconfig",
        ),
    ] {
        assert_eq!(refused(&format!("operator {given}")), format!("error: {answer}"));
    }
}

#[test]
fn defaults_fit_a_plane_and_typed_flags_stay() {
    use cluster::ClusterChoice::{Named, Plane};

    let flags = read::<()>("operator").unwrap().flags;
    let plane = flags.adapted(Plane);
    assert!(!plane.metrics_secure && plane.health_probe_bind_address.is_off());
    assert_eq!(plane.leader_election_namespace.as_deref(), Some("default"));
    let named = flags.adapted(Named);
    assert!(named.metrics_secure && !named.health_probe_bind_address.is_off());
    assert_eq!(named.leader_election_namespace, None);

    let typed = "operator --health-probe-bind-address 127.0.0.1:1 --leader-election-namespace web";
    let plane = read::<()>(typed).unwrap().flags.adapted(Plane);
    assert_eq!(plane.health_probe_bind_address.to_string(), "127.0.0.1:1");
    assert_eq!(plane.leader_election_namespace.as_deref(), Some("web"));
}

#[cfg(feature = "plane")]
#[test]
fn a_command_line_of_its_own_has_the_rules_of_a_plane_too() {
    #[derive(Debug, clap::Parser)]
    struct Whole {
        #[command(flatten)]
        manager: ManagerFlags,
    }
    let whole: Whole = clap::Parser::parse_from(["operator", "--plane", "--metrics-secure"]);
    assert!(whole.manager.contradiction().unwrap().starts_with("--metrics-secure needs a cluster"));
    let whole: Whole = clap::Parser::parse_from(["operator", "--plane"]);
    assert_eq!(whole.manager.contradiction(), None);
}

#[cfg(not(feature = "plane"))]
#[tokio::test]
async fn without_a_plane_the_error_names_the_flags_to_add() {
    let Err(error) = read::<()>("operator").unwrap().manager().await else { panic!("no cluster is named") };
    assert_eq!(
        error.to_string(),
        "no cluster is named: add --kubeconfig (alone for $KUBECONFIG or ~/.kube/config, or with a path), --context or \
         --master, or run in a pod"
    );
    assert!(refused("operator --plane").contains("unexpected argument '--plane'"));
    assert!(!read::<()>("operator -h").unwrap_err().to_string().contains("plane"));
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
fn mistakes_are_refused_with_the_flag_and_the_reason() {
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
            "invalid value '0' for '--max-concurrent-reconciles <NUMBER>': a controller with 0 concurrent reconciles never \
             reconciles: give at least 1",
        ),
        (
            "--max-concurrent-reconciles many",
            "invalid value 'many' for '--max-concurrent-reconciles <NUMBER>': give a whole number, at least 1",
        ),
        ("--leader-elect=perhaps", "invalid value 'perhaps' for '--leader-elect[=<BOOL>]'"),
        (
            "--leader-elect",
            "--leader-elect needs --leader-election-id, the name of the lease: all replicas and versions of this operator must have \
             the same, and no other operator in the namespace may have it",
        ),
        (
            "--enable-debug",
            "--enable-debug adds a page to the metrics server, and there is none: set --metrics-bind-address, for example to \
             127.0.0.1:8080",
        ),
        (
            "--enable-debug --metrics-bind-address :8080 --metrics-secure=false",
            "--enable-debug shows names and errors of objects, and without TLS everyone who reaches :8080 could read them: set \
             --metrics-bind-address to 127.0.0.1:PORT, or run on a cluster with --metrics-secure",
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

#[cfg(feature = "plane")]
#[test]
fn an_empty_file_of_apply_is_none() {
    #[derive(Debug, clap::Parser)]
    struct Whole {
        #[command(flatten)]
        manager: ManagerFlags,
    }

    let flags = read::<()>("operator --apply= --apply=a.yaml").unwrap().flags;
    assert_eq!(flags.apply, [Path::new("a.yaml")]);
    read::<()>("operator --kubeconfig --apply=").expect("a cluster, and no file");
    let whole: Whole = clap::Parser::parse_from(["operator", "--kubeconfig", "--apply="]);
    assert_eq!(whole.manager.contradiction(), None);
}

#[test]
fn a_program_can_ask_whether_a_flag_was_typed() {
    let arguments = read::<Own>("operator --kubeconfig --metrics-secure --image nginx").unwrap();
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
    let Err(error) = whole.manager.builder().await else { panic!("the lease has no name") };
    assert!(error.to_string().contains("needs --leader-election-id"), "{error}");
}

#[test]
fn the_version_is_the_programs_own() {
    let error = read::<Own>("/usr/bin/website-operator --version").unwrap_err();
    assert_eq!((error.to_string().as_str(), error.exit_code()), ("website-operator 1.2.3\n", 0));
}

#[cfg(feature = "plane")]
#[test]
fn the_help_lists_all_flags_with_their_defaults() {
    let error = read::<Own>("website-operator -h").unwrap_err();
    assert_eq!(error.exit_code(), 0);
    insta::assert_snapshot!(error.to_string(), @"
    Serves every website

    Usage: website-operator [OPTIONS]

    Options:
          --image <IMAGE>  Image of a website that names none [default: nginx]
      -h, --help           Print help (see more with '--help')
      -V, --version        Print version

    Cluster:
          --plane                Run on an API server inside this process [default: if no cluster is
                                 named]
          --apply <FILE>         With a plane: create the objects of a YAML or JSON file; repeatable
          --kubeconfig [<PATH>]  Run on the cluster of a kubeconfig; without PATH that of $KUBECONFIG or
                                 ~/.kube/config
          --context <NAME>       Run on the cluster of this context of the kubeconfig
          --master <URL>         Run on the cluster at this address, with the credentials of the
                                 kubeconfig
      -n, --namespace <NAMES>    Namespaces to work in, comma-separated or one flag each [default: all]

    Servers:
          --metrics-bind-address <ADDRESS>
              Metrics address, HOST:PORT or :PORT; 0 disables [default: 0]
          --metrics-secure[=<BOOL>]
              Serve metrics over TLS, to users who may get /metrics on the cluster [default: true]
          --metrics-cert-path <PATH>
              Directory of the metrics server's certificate [default: a self-signed one]
          --metrics-cert-name <NAME>
              File of the certificate in that directory [default: tls.crt]
          --metrics-cert-key <NAME>
              File of the certificate's key in that directory [default: tls.key]
          --health-probe-bind-address <ADDRESS>
              Probe address, for /healthz and /readyz; 0 disables [default: :8081 in a pod,
              127.0.0.1:8081 elsewhere]
          --enable-debug[=<BOOL>]
              Serve a page about controllers, queues and caches at /debug of the metrics server
              [default: false]

    Leader election:
          --leader-elect[=<BOOL>]
              Enable leader election: only the lease holder is active [default: false]
          --leader-election-id <NAME>
              Name of the lease, the same for all replicas of this operator only; --leader-elect needs
              one [default: websites]
          --leader-election-namespace <NAME>
              Namespace of the lease [default: that of the pod]
          --leader-election-lease-duration <DURATION>
              Time after the leader's last renewal until another replica may take over [default: 15s]
          --leader-election-renew-deadline <DURATION>
              Time without a renewal until the leader stops [default: 10s]
          --leader-election-retry-period <DURATION>
              Time between two attempts to take or renew the lease [default: 2s]

    Work:
          --max-concurrent-reconciles <NUMBER>
              Objects that a controller reconciles at the same time, unless it sets its own number
              [default: 1]
          --graceful-shutdown-timeout <DURATION>
              Time limit for a graceful stop, with the last events and the release of the lease
              [default: 30s]

    Logs:
          --log-level <LEVEL>    Log level, and other levels for parts of the code, like info,kube=debug
                                 [default: info]
          --log-format <FORMAT>  Format of log lines: text or json [default: text]
    ");
}

#[test]
fn describe_is_a_hidden_command_beside_all_flags() {
    let described = |arguments: &[&str]| Arguments::<()>::try_from_iter(arguments).map(|args| args.describe);
    assert!(described(&["operator", "--namespace=a", "describe"]).unwrap());
    assert!(!described(&["operator", "--leader-election-id", "describe"]).unwrap(), "the value of a flag");
    let help = Arguments::<()>::try_from_iter(["operator", "describe", "--help"]).unwrap_err();
    assert_eq!(help.kind(), ErrorKind::DisplayHelp);
    let all = Arguments::<()>::try_from_iter(["operator", "--help"]).unwrap_err().to_string();
    assert!(!all.contains("describe") && !all.contains("Commands:"), "{all}");
}

#[test]
fn a_lease_of_the_program_is_the_default_of_its_flag() {
    let lease = |arguments: &[&str]| {
        Arguments::<()>::try_from_iter_with_lease(arguments, "websites.example.com")
            .map(|args| args.flags.leader_election_id)
    };
    assert_eq!(lease(&["operator", "--leader-elect"]).unwrap().as_deref(), Some("websites.example.com"));
    assert_eq!(lease(&["operator", "--leader-election-id=b"]).unwrap().as_deref(), Some("b"));
    assert_eq!(
        lease(&["operator", "--leader-election-id="]).unwrap().as_deref(),
        Some("websites.example.com")
    );
}
