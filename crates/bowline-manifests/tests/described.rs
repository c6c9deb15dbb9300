//! Manifests of a real operator: what its manager describes is understood here.

use bowline_apiserver::ApiServer;
use bowline_clock::Simulation;
use bowline_manifests::Manifests;
use bowline_runtime::leader_election::LeaderElectionConfig;
use bowline_runtime::{Action, Context, Error, Manager, OperatorDescription, Request, Verb};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use serde_json::Value;

/// The description of an operator with an election, after its way through JSON.
fn description() -> OperatorDescription {
    let text = Simulation::new(1).run(|clock| async move {
        let server = ApiServer::builder().clock(clock.clone()).build().expect("defaults are valid");
        let scope = clock.scope("test");
        let election = LeaderElectionConfig::new("elsewhere", "maps.example.com").identity("first");
        let builder = Manager::builder(&scope.spawner(), kube::Client::new(server, "default"));
        let manager = builder.leader_election(election).build().expect("the options are valid");
        manager
            .controller::<ConfigMap>()
            .owns::<Deployment>()
            .writes::<Deployment>([Verb::Delete])
            .reads::<Node>()
            .register(|_: Context, _: Request| async { Ok::<_, Error>(Action::done()) })
            .expect("the controller is valid");
        serde_json::to_string(&manager.describe().expect("there are no CRDs")).expect("it is plain data")
    });
    serde_json::from_str(&text).expect("it is a description")
}

/// Kind and namespace of each role in a file, with its rules.
fn roles(namespaces: &[&str], path: &str) -> String {
    let options = Manifests::new("maps").namespaces(namespaces.iter().copied());
    let files = options.render(&description()).expect("all options are valid");
    let file = files.iter().find(|file| file.path == path).expect("it is there");
    let objects: Vec<Value> = serde_saphyr::from_multiple(&file.text).expect("it is YAML");
    let join = |value: &Value| {
        let texts = value.as_array().into_iter().flatten().filter_map(Value::as_str);
        texts.collect::<Vec<_>>().join(",")
    };
    let mut lines = Vec::new();
    for role in objects.iter().filter(|object| object["rules"].is_array()) {
        let namespace = role["metadata"]["namespace"].as_str().unwrap_or("everywhere");
        lines.push(format!("{} {namespace}", role["kind"].as_str().expect("it has a kind")));
        for rule in role["rules"].as_array().into_iter().flatten() {
            let [groups, resources, verbs] = ["apiGroups", "resources", "verbs"].map(|key| join(&rule[key]));
            lines.push(format!("- {groups}: {resources} {}: {verbs}", join(&rule["resourceNames"])));
        }
    }
    lines.join("\n")
}

#[test]
fn the_permissions_of_a_manager_become_rules() {
    insta::assert_snapshot!(roles(&[], "rbac/role.yaml"), @r#"
    ClusterRole everywhere
    - : configmaps : get,list,watch
    - : configmaps/finalizers : update
    - : configmaps/status : patch,update
    - : nodes : get,list
    - apps: deployments : create,delete,get,list,patch,update,watch
    - events.k8s.io: events : create,patch
    "#);
}

#[test]
fn the_permissions_of_a_manager_become_rules_in_namespaces() {
    insta::assert_snapshot!(roles(&["blue"], "rbac/role.yaml"), @r#"
    ClusterRole everywhere
    - : nodes : get,list
    Role blue
    - : configmaps : get,list,watch
    - : configmaps/finalizers : update
    - : configmaps/status : patch,update
    - apps: deployments : create,delete,get,list,patch,update,watch
    - events.k8s.io: events : create,patch
    "#);
}

#[test]
fn the_election_has_one_role_with_the_lease_of_the_manifests() {
    insta::assert_snapshot!(roles(&["blue"], "rbac/leader_election.yaml"), @r#"
    Role maps-system
    - coordination.k8s.io: leases : create
    - coordination.k8s.io: leases maps: get,update
    "#);
}
