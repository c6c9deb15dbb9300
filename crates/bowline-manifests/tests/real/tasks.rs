//! What an operator is asked to do, and what of it is done.

use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::arm::Arm;
use crate::operator::{Arena, ArenaSpec, Game, GameSpec};

/// The name of every game, and of what is made for it.
pub(crate) const GAME: &str = "chess";

const PLAYERS: i32 = 2;
const SEATS: i32 = 7;

/// A game in each of some namespaces, and an arena.
pub(crate) struct Tasks {
    namespaces: Vec<String>,
    arena: String,
}

impl Tasks {
    pub(crate) async fn create(arm: &Arm, namespaces: &[String]) -> Self {
        for namespace in namespaces {
            create_game(arm, namespace).await;
        }
        let mut arena = Arena::new("", ArenaSpec { seats: SEATS });
        arena.metadata.name = None;
        arena.metadata.generate_name = Some("arena-".to_owned());
        let create = async || arenas(arm).create(&PostParams::default(), &arena).await.ok();
        let arena = arm.until("an arena", create).await.name_any();
        Self { namespaces: namespaces.to_vec(), arena }
    }

    /// What is not done yet.
    pub(crate) async fn open(&self, arm: &Arm) -> Vec<String> {
        let mut open = Vec::new();
        let mut check = |is_done: bool, what: String| {
            if !is_done {
                open.push(what);
            }
        };
        for namespace in &self.namespaces {
            let game = arm.find::<Game>(namespace, GAME).await.expect("it exists");
            let status = game.status.unwrap_or_default();
            check(status.players == PLAYERS, format!("the status of the game in {namespace}"));
            check(game.metadata.finalizers.is_some(), format!("the finalizer of the game in {namespace}"));
            let map = arm.find::<ConfigMap>(namespace, GAME).await.and_then(|map| map.data);
            let is_right = map.is_some_and(|data| data["players"] == PLAYERS.to_string());
            check(is_right, format!("the config map in {namespace}"));
            let account = arm.find::<ServiceAccount>(namespace, GAME).await;
            check(account.is_some(), format!("the service account in {namespace}"));
            check(has_event(arm, namespace, GAME).await, format!("the event of the game in {namespace}"));
        }
        let arena = arenas(arm).get(&self.arena).await.expect("it exists");
        check(arena.status.unwrap_or_default().seats == SEATS, "the status of the arena".to_owned());
        // Events of objects without a namespace are there.
        check(has_event(arm, "default", &self.arena).await, "the event of the arena".to_owned());
        open
    }

    /// Deletes the objects. They stay until their finalizers are removed.
    pub(crate) async fn delete(&self, arm: &Arm) {
        let params = DeleteParams::default();
        for namespace in &self.namespaces {
            arm.api::<Game>(namespace).delete(GAME, &params).await.expect("it exists");
        }
        arenas(arm).delete(&self.arena, &params).await.expect("it exists");
    }

    /// What was not cleaned up yet.
    pub(crate) async fn left(&self, arm: &Arm) -> Vec<String> {
        let mut left = Vec::new();
        for namespace in &self.namespaces {
            for (kind, is_there) in [
                ("Game", arm.find::<Game>(namespace, GAME).await.is_some()),
                ("ConfigMap", arm.find::<ConfigMap>(namespace, GAME).await.is_some()),
                ("ServiceAccount", arm.find::<ServiceAccount>(namespace, GAME).await.is_some()),
            ] {
                if is_there {
                    left.push(format!("{kind} in {namespace}"));
                }
            }
        }
        left
    }

    /// Deletes the objects without an operator that would remove their finalizers.
    pub(crate) async fn abandon(&self, arm: &Arm) {
        self.delete(arm).await;
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        for namespace in &self.namespaces {
            if arm.find::<Game>(namespace, GAME).await.is_some() {
                let games = arm.api::<Game>(namespace);
                games.patch(GAME, &PatchParams::default(), &patch).await.expect("it is patched");
            }
        }
    }
}

/// Creates a game. The server learns of its kind by and by.
pub(crate) async fn create_game(arm: &Arm, namespace: &str) {
    let game = Game::new(GAME, GameSpec { players: PLAYERS });
    let games = arm.api::<Game>(namespace);
    arm.until("a game", async || games.create(&PostParams::default(), &game).await.ok()).await;
}

fn arenas(arm: &Arm) -> Api<Arena> {
    Api::all(arm.admin.clone())
}

async fn has_event(arm: &Arm, namespace: &str, name: &str) -> bool {
    let events = arm.api::<Event>(namespace).list(&ListParams::default()).await.expect("listed").items;
    events.iter().any(|event| event.regarding.as_ref().and_then(|it| it.name.as_deref()) == Some(name))
}
