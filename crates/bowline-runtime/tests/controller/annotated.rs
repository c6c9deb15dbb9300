//! Owners in annotations: of cluster-scoped objects, and in other namespaces.

use bowline_runtime::ownership::{remove_owner_annotations, set_owner_annotations};
use bowline_runtime::{Action, Controller, handler, source};
use bowline_runtime::{Context, Error, Request, Watch};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Resource as _};

use crate::world::{Notes, World};

fn config(namespace: &str, name: &str) -> ConfigMap {
    let mut config = ConfigMap::default();
    config.meta_mut().namespace = Some(namespace.to_owned());
    config.meta_mut().name = Some(name.to_owned());
    config
}

#[test]
fn the_old_and_the_new_owner_in_annotations_are_reconciled() {
    World::run(1, |world| async move {
        let notes = Notes::default();
        let written = notes.clone();
        let roles = Watch::new(source::kind::<ClusterRole>(), handler::annotated_owner::<ConfigMap>());
        let others = Watch::new(source::kind::<ClusterRole>(), handler::annotated_owner::<Secret>());
        let controller = Controller::builder(&world.cluster).named("owners").watches(roles).watches(others);
        let controller = controller
            .build(move |context: Context, request: Request| {
                written.write(&context, &request);
                async { Ok::<_, Error>(Action::done()) }
            })
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();

        let roles = Api::<ClusterRole>::all(world.client.clone());
        let mut role = ClusterRole::default();
        role.metadata.name = Some("child".to_owned());
        roles.create(&PostParams::default(), &role).await.unwrap();
        world.settle().await;
        assert_eq!(notes.len(), 0, "it has no annotations");

        let (old, new) = (config("blue", "a"), config("green", "a"));
        let mut role = roles.get("child").await.unwrap();
        set_owner_annotations(&old, &mut role).unwrap();
        let mut role = roles.replace("child", &PostParams::default(), &role).await.unwrap();
        world.settle().await;
        assert_eq!(notes.requests(), ["blue/a"]);

        remove_owner_annotations(&old, &mut role);
        set_owner_annotations(&new, &mut role).unwrap();
        roles.replace("child", &PostParams::default(), &role).await.unwrap();
        world.settle().await;
        assert_eq!(notes.requests(), ["blue/a", "blue/a", "green/a"]);

        roles.delete("child", &DeleteParams::default()).await.unwrap();
        world.settle().await;
        assert_eq!(notes.requests()[3..], ["green/a"]);
    });
}
