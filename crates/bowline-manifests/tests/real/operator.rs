//! An operator that uses whatever permissions can be declared or follow from a declaration.

use std::sync::Arc;

use bowline_cache::{ListQuery, ObjectKey, object_key};
use bowline_runtime::finalizer::{self, Cleanup};
use bowline_runtime::ownership::OwnerExt as _;
use bowline_runtime::{Action, Context, EventType, Manager, Permission, Result, Verb};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret, ServiceAccount};
use kube::{CustomResource, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The only Secret that the operator may read.
pub(crate) const SECRET: &str = "registry";

/// A game, whose text is long: it is longer than a line of YAML.
///
/// It has a second paragraph: with a colon, a #hash, "quotes", and `- a list`.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(
    group = "manifests.example.com",
    version = "v1alpha1",
    kind = "Game",
    namespaced,
    status = "GameStatus"
)]
#[kube(scale(spec_replicas_path = ".spec.players", status_replicas_path = ".status.players"))]
pub(crate) struct GameSpec {
    pub(crate) players: i32,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub(crate) struct GameStatus {
    pub(crate) players: i32,
}

/// A kind without a namespace.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "manifests.example.com", version = "v1alpha1", kind = "Arena", status = "ArenaStatus")]
pub(crate) struct ArenaSpec {
    pub(crate) seats: i32,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub(crate) struct ArenaStatus {
    pub(crate) seats: i32,
}

/// Declares the operator. Its Secret is in a namespace of its own.
pub(crate) fn operator(manager: &Manager, vault: &str) -> Result<()> {
    manager.crd::<Game>();
    manager.crd::<Arena>();
    manager
        .controller::<Game>()
        .owns::<ConfigMap>()
        .writes::<ConfigMap>([Verb::Delete])
        .writes::<ServiceAccount>([Verb::Create, Verb::Delete])
        .reads::<Node>()
        .permits(Permission::to::<Secret>([Verb::Get]).named([SECRET]).in_namespace(vault))
        .state(ObjectKey::new(vault, SECRET))
        .register(finalizer::with_cleanup("manifests.example.com/game", reconcile, clean_up)?)?;
    manager.controller::<Arena>().register(reconcile_arena)?;
    Ok(())
}

async fn reconcile(ctx: Context, game: Arc<Game>) -> Result<Action> {
    ctx.client().list::<Node>(&ListQuery::new()).await?;
    ctx.client().get::<Secret>(ctx.state()).await?;
    let mut account = ServiceAccount::default();
    account.metadata.name = Some(game.name_any());
    account.metadata.namespace = game.namespace();
    match ctx.client().create(&account).await {
        Err(error) if !error.is_already_exists() => return Err(error.into()),
        _ => {}
    }
    let players = game.spec.players;
    let set = |map: &mut ConfigMap| map.data = Some([("players".to_owned(), players.to_string())].into());
    ctx.client().ensure(game.child::<ConfigMap>(game.name_any()), set).await?;
    ctx.recorder().event(&*game, EventType::Normal, "Playing", format!("{players} players"));
    ctx.client().update_status(&game, |status| status.players = players).await?;
    Ok(Action::done())
}

async fn clean_up(ctx: Context, game: Arc<Game>) -> Result<Cleanup> {
    let key = object_key(&*game);
    for deleted in [
        ctx.client().delete::<ConfigMap>(&key).await.map(drop),
        ctx.client().delete::<ServiceAccount>(&key).await.map(drop),
    ] {
        match deleted {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
    }
    Ok(Cleanup::Done)
}

async fn reconcile_arena(ctx: Context, arena: Arc<Arena>) -> Result<Action> {
    ctx.recorder().event(&*arena, EventType::Normal, "Open", "people come in");
    ctx.client().update_status(&arena, |status| status.seats = arena.spec.seats).await?;
    Ok(Action::done())
}
