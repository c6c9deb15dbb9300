//! Custom kinds that an operator declares.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::world::{SECOND, World, failure};

#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "games.example.com", version = "v1", kind = "Game", namespaced)]
struct GameSpec {
    image: String,
}

#[test]
fn declared_kinds_are_installed_on_request_before_informers_list() {
    World::run(1, |world| async move {
        let manager = world.builder().install_crds(true).build().unwrap();
        manager.crd::<Game>();
        manager.crd::<Game>();
        assert_eq!(manager.crds().unwrap().len(), 1, "the same definition counts once");
        manager.controller::<Game>().register(world.reconciler("games")).unwrap();
        let run = world.start(&manager);
        manager.wait_ready().await.unwrap();
        let served = world.faults.requests().list();
        let position =
            |resource| served.iter().position(|request| request.info.resource == resource).unwrap();
        assert!(position("customresourcedefinitions") < position("games"));
        manager.request_stop();
        run.await.unwrap().unwrap();
    });
}

/// The kind of [`Game`] in another version.
mod v2 {
    use super::{CustomResource, Deserialize, JsonSchema, Serialize};

    #[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
    #[kube(group = "games.example.com", version = "v2", kind = "Game", namespaced, storage = false)]
    pub(super) struct GameSpec {
        players: u32,
    }
}

#[test]
fn definitions_of_several_versions_are_merged_and_served() {
    World::run(1, |world| async move {
        let manager = world.builder().install_crds(true).build().unwrap();
        manager.crd::<v2::Game>();
        manager.crd::<Game>();
        manager.crd::<v2::Game>();
        let definitions = manager.crds().unwrap();
        let [definition] = &definitions[..] else { panic!("one kind: {definitions:?}") };
        let versions = definition.spec.versions.iter();
        let versions: Vec<_> = versions.map(|version| (version.name.as_str(), version.storage)).collect();
        assert_eq!(versions, [("v2", false), ("v1", true)]);
        manager.controller::<v2::Game>().register(world.reconciler("games")).unwrap();
        let run = world.start(&manager);
        manager.wait_ready().await.unwrap();
        manager.request_stop();
        run.await.unwrap().unwrap();
    });
}

#[test]
fn definitions_that_do_not_fit_together_are_an_error() {
    let renamed = |mut definition: CustomResourceDefinition| {
        definition.spec.names.short_names = Some(vec!["gm".to_owned()]);
        definition
    };
    let stored = |mut definition: CustomResourceDefinition| {
        definition.spec.versions[0].storage = true;
        definition
    };
    let not_stored = |mut definition: CustomResourceDefinition| {
        definition.spec.versions[0].storage = false;
        definition
    };
    let wide = |mut definition: CustomResourceDefinition| {
        definition.spec.scope = "Cluster".to_owned();
        definition
    };
    for (first, second, problem) in [
        (Game::crd(), renamed(Game::crd()), "the version v1 differs: declare each version once"),
        (Game::crd(), renamed(v2::Game::crd()), "their names differ: give all versions the same"),
        (Game::crd(), wide(v2::Game::crd()), "their scopes differ: give all versions the same"),
        (
            Game::crd(),
            stored(v2::Game::crd()),
            "v1, v2 are all stored: write `storage = false` in `#[kube]` of all but one",
        ),
        (
            not_stored(Game::crd()),
            v2::Game::crd(),
            "no version is stored: remove `storage = false` from one of them",
        ),
    ] {
        World::run(1, |world| async move {
            let manager = world.manager();
            manager.crd_definition(first);
            manager.crd_definition(second);
            // A manager that starts would run for ever.
            let ended = world.clock.timeout(SECOND, manager.run()).await.expect("it does not start");
            let error = ended.unwrap_err().to_string();
            let expected =
                format!("the CRD games.games.example.com is declared more than once, and {problem}");
            assert_eq!(error, expected);
            assert!(manager.crds().is_err());
        });
    }
}

#[test]
fn a_refused_definition_stops_the_manager() {
    World::run(1, |world| async move {
        let manager = world.builder().install_crds(true).build().unwrap();
        manager.crd::<Game>();
        world.faults.all().resource("customresourcedefinitions").fail(failure(403, "Forbidden", "not yours"));
        let error = manager.run().await.unwrap_err().to_string();
        assert_eq!(error, "CRDs: cannot install the CRD games.games.example.com: not yours");
    });
}
