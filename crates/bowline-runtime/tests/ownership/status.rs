//! `update_status` writes what its closure changed, and nothing that others wrote is lost.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bowline_machinery::Status;
use bowline_runtime::conditions::{ConditionsExt as _, NewCondition};
use bowline_runtime::{
    Client, Cluster, DefinitionInstaller, ErrorPredicates as _, UpdateStatusError, terminal,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::world::{OTHERS, World, key};

#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "demo.example.com", version = "v1", kind = "Game", namespaced, status = "GameStatus")]
struct GameSpec {}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
struct GameStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    players: Option<i32>,
    /// Written as `null` if it is unset.
    #[serde(default)]
    phase: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    referee: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "any_conditions")]
    conditions: Vec<Condition>,
}

/// A kind whose status has required fields.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "demo.example.com", version = "v1", kind = "Match", namespaced, status = "MatchStatus")]
struct MatchSpec {}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
struct MatchStatus {
    players: i32,
    #[schemars(schema_with = "any_conditions")]
    conditions: Vec<Condition>,
}

/// A kind whose status has required fields and no list.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "demo.example.com", version = "v1", kind = "Round", namespaced, status = "RoundStatus")]
struct RoundSpec {}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
struct RoundStatus {
    points: i32,
    phase: String,
}

fn any_conditions(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let item = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    schemars::json_schema!({"type": "array", "items": item})
}

/// A field that this program's type does not have.
fn definition() -> CustomResourceDefinition {
    let mut definition = serde_json::to_value(Game::crd()).expect("a definition");
    let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["status"]["properties"]["later"] = json!({"type": "string"});
    serde_json::from_value(definition).expect("a definition")
}

fn games(world: &World) -> Api<Game> {
    Api::namespaced(world.kube.clone(), "default")
}

async fn install(world: &World, definition: &CustomResourceDefinition) {
    let installer = DefinitionInstaller::new(&world.clock, world.kube.clone());
    installer.install(definition).await.expect("installed");
}

async fn create(world: &World, status: Value) -> Game {
    install(world, &definition()).await;
    let created = games(world).create(&PostParams::default(), &Game::new("chess", GameSpec {})).await;
    created.expect("created");
    patch_status(&games(world), json!({"status": status})).await;
    world.writes();
    fresh(world).await
}

async fn patch_status(games: &Api<Game>, patch: Value) {
    games.patch_status("chess", &PatchParams::default(), &Patch::Merge(patch)).await.expect("patched");
}

async fn fresh(world: &World) -> Game {
    games(world).get("chess").await.expect("it is there")
}

async fn fresh_json(world: &World) -> Value {
    let request = http_get("/apis/demo.example.com/v1/namespaces/default/games/chess");
    world.kube.request::<Value>(request).await.expect("it is there")
}

fn http_get(path: &str) -> http::Request<Vec<u8>> {
    http::Request::get(path).body(Vec::new()).expect("a request")
}

/// Another controller writes a label, a field and a condition before the next write.
fn compete(world: &World) {
    let games = games(world);
    world.before_next_write(move || async move {
        let label = json!({"metadata": {"labels": {"theirs": "yes"}}});
        games.patch("chess", &PatchParams::default(), &Patch::Merge(label)).await.expect("patched");
        let condition = json!({
            "type": "Theirs", "status": "True", "reason": "Yes", "message": "",
            "lastTransitionTime": "2030-01-01T00:00:00Z",
        });
        let status = json!({"referee": "them", "later": "yes", "conditions": [condition]});
        patch_status(&games, json!({"status": status})).await;
    });
}

async fn cached(world: &World) -> Cluster {
    let builder = Cluster::builder(&world.spawner(), world.cluster.kube_client().clone()).cached::<Game>();
    let cluster = builder.build().expect("the options make sense");
    cluster.start();
    cluster.client().find::<Game>(&key(&Game::new("none", GameSpec {}))).await.expect_err("no namespace");
    cluster
}

#[test]
fn a_field_is_written_next_to_another_writer() {
    World::run(|world| async move {
        let game = create(&world, json!({"players": 1})).await;
        compete(&world);
        let written = world.client().update_status(&game, |status| status.players = Some(2)).await.unwrap();
        assert_eq!(world.writes(), ["Patch games/status", "Patch games/status"]);
        let status = written.expect("written").status.unwrap();
        assert_eq!((status.players, status.referee.as_deref()), (Some(2), Some("them")));
        assert!(status.conditions.is_condition_true("Theirs"));
        let now = fresh_json(&world).await;
        assert_eq!(
            (&now["metadata"]["labels"]["theirs"], &now["status"]["later"]),
            (&json!("yes"), &json!("yes"))
        );
    });
}

#[test]
fn a_condition_is_set_again_on_the_fresh_object_after_a_conflict() {
    World::run(|world| async move {
        let game = create(&world, json!({"players": 1})).await;
        compete(&world);
        let runs = AtomicU32::new(0);
        let start = world.clock.now();
        let written = world.client().update_status(&game, |status| {
            runs.fetch_add(1, Ordering::Relaxed);
            status.players = Some(2);
            status.conditions.set_condition(NewCondition::is_true("Ready", "Up"), &world.clock)
        });
        let status = written.await.unwrap().expect("written").status.unwrap();
        assert_eq!(world.writes(), ["Patch games/status", "Patch games/status"]);
        assert_eq!(runs.into_inner(), 2);
        assert_eq!(world.clock.now(), start, "the second attempt follows at once");
        assert!(
            status.conditions.is_condition_true("Theirs") && status.conditions.is_condition_true("Ready")
        );
        assert_eq!((status.players, status.referee.as_deref()), (Some(2), Some("them")));
        let now = fresh_json(&world).await;
        assert_eq!(
            (&now["metadata"]["labels"]["theirs"], &now["status"]["later"]),
            (&json!("yes"), &json!("yes"))
        );
    });
}

#[test]
fn nothing_is_sent_if_the_closure_changes_nothing() {
    World::run(|world| async move {
        let game = create(&world, json!({"players": 1})).await;
        let client = world.client();
        assert!(client.update_status(&game, |status| status.players = Some(1)).await.unwrap().is_none());
        let set = |status: &mut GameStatus| {
            status.conditions.set_condition(NewCondition::is_true("Ready", "Up"), &world.clock)
        };
        let game = client.update_status(&game, set).await.unwrap().expect("written");
        world.writes();
        world.clock.sleep(Duration::from_secs(60)).await;
        assert!(client.update_status(&game, set).await.unwrap().is_none(), "the transition time stays");
        let mut bare = game.clone();
        bare.status = None;
        assert!(
            client.update_status(&bare, |_| {}).await.unwrap().is_none(),
            "an absent status stays absent"
        );
        assert!(world.writes().is_empty());
    });
}

#[test]
fn fields_that_become_none_are_removed() {
    World::run(|world| async move {
        let game = create(&world, json!({"players": 1, "phase": "Running", "referee": "me"})).await;
        let written = world.client().update_status(&game, |status| {
            status.phase = None;
            status.referee = None;
        });
        written.await.unwrap().expect("written");
        assert_eq!(fresh_json(&world).await["status"], json!({"players": 1}));
    });
}

#[test]
fn an_error_of_the_closure_is_kept_and_nothing_is_written() {
    World::run(|world| async move {
        let game = create(&world, json!({})).await;
        let error = world.client().update_status(&game, |status| {
            status.players = Some(1);
            Err::<(), _>(terminal("the rules are unknown"))
        });
        let error = error.await.unwrap_err();
        assert!(error.is_terminal() && matches!(error, UpdateStatusError::Change { .. }));
        assert_eq!(
            error.to_string(),
            "the status of Game default/chess cannot be changed: terminal error: the rules are unknown"
        );
        let invalid = NewCondition::is_true("Ready", "not a word");
        let error = world
            .client()
            .update_status(&game, |status| status.conditions.set_condition(invalid.clone(), &world.clock))
            .await
            .unwrap_err();
        assert!(error.to_string().contains("the reason"), "{error}");
        assert!(world.writes().is_empty());
    });
}

/// Another writer is faster before each write.
fn always_bump(world: &World) {
    let games = games(world);
    world.before_next_write(move || async move { bump(&games).await });
}

#[test]
fn a_list_conflicts_without_end_after_five_attempts_with_pauses() {
    World::run(|world| async move {
        let game = create(&world, json!({})).await;
        let start = world.clock.now();
        let error = world.client().update_status(&game, |status| {
            always_bump(&world);
            status.conditions.set_condition(NewCondition::is_true("Ready", "Up"), &world.clock)
        });
        let error = error.await.unwrap_err();
        assert!(error.is_conflict() && error.is_retryable(), "{error}");
        assert_eq!(world.writes().len(), 5);
        let took = world.clock.now().duration_since(start);
        assert!(took >= Duration::from_millis(90) && took < Duration::from_millis(200), "{took:?}");
    });
}

#[test]
fn a_frequent_writer_cannot_hold_up_a_field() {
    World::run(|world| async move {
        let game = create(&world, json!({})).await;
        let start = world.clock.now();
        let written = world.client().update_status(&game, |status| {
            always_bump(&world);
            status.phase = Some("Running".to_owned());
        });
        let status = written.await.unwrap().expect("written").status.unwrap();
        assert_eq!((status.phase.as_deref(), status.players), (Some("Running"), Some(2)));
        assert_eq!(world.writes().len(), 2, "the second attempt cannot conflict");
        assert_eq!(world.clock.now(), start);
    });
}

/// Changes the version of the game.
async fn bump(games: &Api<Game>) {
    let players = games.get("chess").await.expect("it is there").status.and_then(|status| status.players);
    patch_status(games, json!({"status": {"players": players.unwrap_or(0) + 1}})).await;
}

#[test]
fn an_old_object_does_not_hide_what_the_client_wrote_since() {
    World::run(|world| async move {
        let game = create(&world, json!({"players": 1})).await;
        let cluster = cached(&world).await;
        let client = cluster.client();
        client.update_status(&game, |status| status.players = Some(2)).await.unwrap().expect("written");
        // The object that was passed says that there is one player already.
        let written = client.update_status(&game, |status| status.players = Some(1)).await.unwrap();
        assert_eq!(written.expect("written").status.unwrap().players, Some(1));
        let set = NewCondition::is_true("Ready", "Up");
        world.writes();
        client
            .update_status(&game, |status| status.conditions.set_condition(set.clone(), &world.clock))
            .await
            .unwrap();
        assert_eq!(
            world.writes(),
            ["Patch games/status"],
            "the version of the last write, not of the old object"
        );
    });
}

async fn recreate(world: &World) -> Game {
    games(world).delete("chess", &DeleteParams::default()).await.expect("deleted");
    games(world).create(&PostParams::default(), &Game::new("chess", GameSpec {})).await.expect("created");
    patch_status(&games(world), json!({"status": {"players": 9}})).await;
    world.writes();
    fresh(world).await
}

async fn assert_left_alone(world: &World, client: &Client, old: &Game, new: &Game) {
    let error =
        client.update_status(old, |status| status.players = Some(2)).await.expect_err("it is another object");
    assert!(error.is_not_found() && !error.is_retryable(), "{error}");
    assert!(error.to_string().contains("was deleted and created again"), "{error}");
    let set = NewCondition::is_true("Ready", "Up");
    let error = client
        .update_status(old, |status| status.conditions.set_condition(set.clone(), &world.clock))
        .await
        .expect_err("it is another object");
    assert!(error.is_not_found(), "{error}");
    assert_eq!(fresh(world).await.metadata.resource_version, new.metadata.resource_version);
}

#[test]
fn the_status_of_an_object_that_was_created_again_is_left_alone() {
    World::run(|world| async move {
        let old = create(&world, json!({"players": 1})).await;
        let cluster = cached(&world).await;
        let new = recreate(&world).await;
        assert_left_alone(&world, world.client(), &old, &new).await;
        world.clock.sleep(Duration::from_secs(1)).await;
        world.writes();
        assert_left_alone(&world, cluster.client(), &old, &new).await;
        assert!(world.writes().is_empty(), "the cache has the new object");
    });
}

#[test]
fn an_object_that_is_gone_is_not_found() {
    World::run(|world| async move {
        let old = create(&world, json!({"players": 1})).await;
        let games = games(&world);
        world.before_next_write(move || async move {
            games.delete("chess", &DeleteParams::default()).await.expect("deleted");
        });
        let error = world.client().update_status(&old, |status| status.players = Some(2)).await.unwrap_err();
        assert!(error.is_not_found(), "{error}");
    });
}

#[test]
fn an_absent_status_gets_the_fields_of_the_default_once() {
    World::run(|world| async move {
        install(&world, &Match::crd()).await;
        let mut object = Match::new("final", MatchSpec {});
        object.metadata.namespace = Some("default".to_owned());
        let object = world.client().create(&object).await.unwrap();
        let written = world.client().update_status(&object, |status| status.players = 0).await.unwrap();
        let written = written.expect("the first status is written");
        assert_eq!(written.status.as_ref().map(|status| status.players), Some(0));
        assert!(world.client().update_status(&written, |status| status.players = 0).await.unwrap().is_none());
    });
}

#[test]
fn the_first_status_does_not_replace_one_that_another_client_writes_meanwhile() {
    World::run(|world| async move {
        install(&world, &Round::crd()).await;
        let mut object = Round::new("one", RoundSpec {});
        object.metadata.namespace = Some("default".to_owned());
        let object = world.client().create(&object).await.unwrap();
        world.writes();
        let runs = AtomicU32::new(0);
        let update = world.client().update_status(&object, |status| {
            status.phase = "Running".to_owned();
            let is_first = runs.fetch_add(1, Ordering::Relaxed) == 0;
            let rounds = Api::<Round>::namespaced(world.kube.clone(), "default");
            world.before_next_write(move || async move {
                let label = Patch::Merge(json!({"metadata": {"labels": {"theirs": "yes"}}}));
                let first = Patch::Merge(json!({"status": {"points": 7, "phase": ""}}));
                let params = PatchParams::default();
                if is_first {
                    rounds.patch("one", &params, &label).await.expect("patched");
                } else {
                    rounds.patch_status("one", &params, &first).await.expect("patched");
                }
            });
        });
        let status = update.await.unwrap().expect("written").status.expect("it has one");
        assert_eq!((status.points, &*status.phase), (7, "Running"));
        assert_eq!(world.writes().len(), 3, "two conflicts");
    });
}

#[test]
fn the_first_status_of_an_object_that_was_not_read_is_an_error() {
    World::run(|world| async move {
        install(&world, &Round::crd()).await;
        let mut object = Round::new("one", RoundSpec {});
        object.metadata.namespace = Some("default".to_owned());
        world.client().create(&object).await.unwrap();
        let update = world.client().update_status(&object, |status| status.points = 1);
        let error = update.await.expect_err("its status is unknown");
        assert!(error.to_string().contains("needs `metadata.resourceVersion`"), "{error}");
    });
}

#[test]
fn a_change_of_an_object_that_is_created_again_after_the_first_conflict_is_reported() {
    World::run(|world| async move {
        let old = create(&world, json!({"players": 1})).await;
        let runs = AtomicU32::new(0);
        let update = world.client().update_status(&old, |status| {
            status.referee = Some("me".to_owned());
            let (is_first, games) = (runs.fetch_add(1, Ordering::Relaxed) == 0, games(&world));
            world.before_next_write(move || async move {
                if is_first {
                    return bump(&games).await;
                }
                games.delete("chess", &DeleteParams::default()).await.expect("deleted");
                games
                    .create(&PostParams::default(), &Game::new("chess", GameSpec {}))
                    .await
                    .expect("created");
            });
        });
        let error = update.await.expect_err("it is another object");
        assert!(error.is_not_found() && !error.is_retryable(), "{error}");
        assert!(error.to_string().contains("the status of the new object was changed"), "{error}");
        let status = fresh(&world).await.status.expect("it was written");
        assert_eq!(status.referee.as_deref(), Some("me"));
    });
}

#[test]
fn the_error_of_a_write_is_kept_if_the_object_cannot_be_read_again() {
    World::run(|world| async move {
        let game = create(&world, json!({"players": 1})).await;
        world.faults.reads().resource("games").filter(|info| info.user != OTHERS).deny();
        let invalid = Status::failure(422, "Invalid", "too many players");
        world.faults.writes().subresource("status").times(1).fail(invalid);
        let error = world.client().update_status(&game, |status| status.players = Some(2)).await.unwrap_err();
        assert!(error.to_string().contains("too many players"), "{error}");
        compete(&world);
        let error = world.client().update_status(&game, |status| status.players = Some(2)).await.unwrap_err();
        assert!(error.is_conflict() && error.is_retryable(), "{error}");
    });
}
