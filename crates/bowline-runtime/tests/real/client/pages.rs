//! Lists that come in several pages.

use bowline_cache::ListQuery;
use bowline_runtime::{ClientError, ClusterBuilder};
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;

use super::world::{World, labels, names};

#[test]
fn a_list_has_the_objects_of_all_its_pages() {
    World::run(|world| async move {
        let cluster = world.cluster(ClusterBuilder::cached::<ConfigMap>);
        let cached = cluster.client();
        for number in 0..7 {
            cached.create(&world.labelled(&format!("m{number}"), "x")).await.unwrap();
        }
        let query = || ListQuery::new().in_namespace(&world.namespace).labels(labels("app")).page_size(2);
        let all: Vec<_> = (0..7).map(|number| format!("m{number}")).collect();
        for client in [cached.clone(), cached.live()] {
            assert_eq!(names(&client.list::<ConfigMap>(&query()).await.unwrap()), all);
            let streamed: Vec<_> = client.list_stream::<ConfigMap>(&query()).try_collect().await.unwrap();
            assert_eq!(names(&streamed), all);
            for limit in [0, 1, 2, 3, 100] {
                let query = query().limit(limit);
                let expected = &all[..limit.min(7)];
                assert_eq!(names(&client.list::<ConfigMap>(&query).await.unwrap()), expected);
                let streamed: Vec<_> = client.list_stream::<ConfigMap>(&query).try_collect().await.unwrap();
                assert_eq!(names(&streamed), expected);
            }
        }
        let endless = cached.live().list::<ConfigMap>(&query().page_size(0)).await.unwrap_err();
        assert!(matches!(endless, ClientError::Invalid { .. }), "{endless}");
    });
}
