//! Custom kinds that an operator declares.

use bowline_runtime::ManagerError;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::world::{World, failure};

#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "games.example.com", version = "v1", kind = "Game", namespaced)]
struct GameSpec {
    image: String,
}

fn other_game() -> CustomResourceDefinition {
    let mut definition = Game::crd();
    definition.spec.names.short_names = Some(vec!["gm".to_owned()]);
    definition
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

#[test]
fn two_definitions_of_one_name_are_an_error() {
    World::run(1, |world| async move {
        let manager = world.manager();
        manager.crd::<Game>();
        manager.crd_definition(other_game());
        let error = manager.run().await.unwrap_err();
        assert!(
            matches!(&error, ManagerError::CrdConflict { name } if name == "games.games.example.com"),
            "{error}"
        );
        assert!(manager.crds().is_err());
    });
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
