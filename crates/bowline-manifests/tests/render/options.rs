//! Options and descriptions that are refused.

use bowline_manifests::Manifests;
use bowline_runtime::OperatorDescription;

use crate::description::{games, maps};

fn refused(options: &Manifests) -> String {
    options.render(&games()).expect_err("it is not valid").to_string()
}

#[test]
fn options_that_are_not_valid_are_refused_with_a_remedy() {
    let options = || Manifests::new("games");
    let long = "a".repeat(56);
    let messages = [
        refused(&Manifests::new("Games")),
        refused(&Manifests::new("1game")),
        refused(&Manifests::new(long)),
        refused(&options().namespace("a.b")),
        refused(&options().namespaces(["blue", ""])),
        refused(&options().image("")),
        refused(&options().image("games: 1")),
        refused(&options().lease("Games")),
        refused(&options().replicas(0)),
    ];
    insta::assert_snapshot!(messages.join("\n"), @r#"
    the operator's name "Games" is not valid: use at most 55 lower case letters, digits and '-', with a letter first and no '-' at the end
    the operator's name "1game" is not valid: use at most 55 lower case letters, digits and '-', with a letter first and no '-' at the end
    the operator's name "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" is not valid: use at most 55 lower case letters, digits and '-', with a letter first and no '-' at the end
    the namespace "a.b" is not valid: use at most 63 lower case letters, digits and '-', with no '-' at the ends
    the namespace "" is not valid: use at most 63 lower case letters, digits and '-', with no '-' at the ends
    the image "" is not valid: write it like registry.example.com/games:1.2.0
    the image "games: 1" is not valid: write it like registry.example.com/games:1.2.0
    the lease "Games" is not valid: use lower case letters, digits, '-' and '.', like games.example.com
    an operator with 0 replicas does nothing: give at least 1
    "#);
}

#[test]
fn arguments_that_contradict_the_manifests_are_refused() {
    let refused = |argument| refused(&Manifests::new("games").args([argument]));
    let arguments = ["--leader-elect=false", "--metrics-bind-address", "--namespace=a", "-na", "-n=a"];
    insta::assert_snapshot!(arguments.map(refused).join("\n"), @r#"
    the argument "--leader-elect=false" does not fit the manifests: it is set already, because replicas need a leader
    the argument "--metrics-bind-address" does not fit the manifests: the service and the network policy are for port 8443, which is set already
    the argument "--namespace=a" does not fit the manifests: set the namespaces as an option, so that there are roles for them
    the argument "-na" does not fit the manifests: set the namespaces as an option, so that there are roles for them
    the argument "-n=a" does not fit the manifests: set the namespaces as an option, so that there are roles for them
    "#);
    for argument in ["--leader-election-lease-duration=30s", "--name=games", "--log-level=debug", "-v", ""] {
        assert!(Manifests::new("games").args([argument]).render(&games()).is_ok(), "{argument}");
    }
}

#[test]
fn descriptions_that_are_not_understood_are_refused() {
    let render = |change: fn(&mut OperatorDescription)| {
        let mut description = games();
        change(&mut description);
        Manifests::new("games").render(&description).expect_err("it is not valid").to_string()
    };
    let messages = [
        render(|description| description.format = 2),
        render(|description| description.crds[0].spec.group = "../../etc".to_owned()),
        render(|description| description.namespaces = vec!["*".to_owned()]),
        render(|description| description.permissions[0].namespace = Some("a/b".to_owned())),
        render(|description| description.lease = Some("a b".to_owned())),
    ];
    insta::assert_snapshot!(messages.join("\n"), @r#"
    the description has format 2, and this program reads format 1: use the same version of Bowline for the operator and for its manifests
    the CRD "games.example.com" has an invalid group or plural: use lower case letters, digits and '-'
    the namespace "*" is not valid: use at most 63 lower case letters, digits and '-', with no '-' at the ends
    the namespace "a/b" is not valid: use at most 63 lower case letters, digits and '-', with no '-' at the ends
    the lease "a b" is not valid: use lower case letters, digits, '-' and '.', like games.example.com
    "#);
}

#[test]
fn defaults_follow_from_the_name() {
    let longest = "a".repeat(55);
    let files = Manifests::new(&longest).render(&maps()).expect("the name is short enough");
    let text = &files.iter().find(|file| file.path == "operator/deployment.yaml").expect("it is there").text;
    for expected in [
        format!("image: {longest}:latest"),
        format!("--leader-election-id={longest}"),
        format!("{longest}-system"),
    ] {
        assert!(text.contains(&expected), "{expected} is not in {text}");
    }
}
