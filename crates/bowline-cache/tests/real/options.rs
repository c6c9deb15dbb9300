//! Options of a cache for kinds, namespaces and all objects, and the resulting requests.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_cache::{
    ALL_OTHER_NAMESPACES, CacheError, CacheOptions, InformerError, Kind, KindOptions, ListQuery, Namespaces,
    SelectionSettings, Selectors,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::PostParams;
use kube::core::PartialObjectMeta;
use kube::{Api, ResourceExt as _};

use crate::arm::{Arm, PATIENCE, Witness, names, value};

fn labels(selector: &str) -> SelectionSettings {
    SelectionSettings::new().labels(selector)
}

fn fields(selector: &str) -> SelectionSettings {
    SelectionSettings::new().fields(selector)
}

/// The requests for a kind with some options: namespace (`*` for all) and selectors.
async fn asked(arm: &Arm, options: CacheOptions) -> Vec<String> {
    let before = arm.traffic.asked("configmaps").len();
    let cache = arm.cache_with(options);
    let _informer = cache.get_informer(&Kind::<ConfigMap>::typed()).expect("an informer");
    cache.start();
    cache.wait_for_sync(PATIENCE).await.expect("in sync");
    let asked = arm.traffic.asked("configmaps").split_off(before);
    let short = |words: String| {
        words.replace("/api/v1/configmaps", "*").replace("/api/v1/namespaces/", "").replace("/configmaps", "")
    };
    let mut asked: Vec<_> = asked.into_iter().map(|asked| short(asked.words())).collect();
    asked.sort();
    asked.dedup();
    asked
}

#[test]
#[expect(clippy::too_many_lines, reason = "it is one table")]
fn settings_of_a_namespace_come_before_those_of_a_kind_and_those_of_all() {
    Arm::run(|arm| async move {
        let none = SelectionSettings::new;
        let all = CacheOptions::new;
        let kind = || KindOptions::new(Kind::<ConfigMap>::typed());
        let table = [
            ("nothing said", all(), &["*"][..]),
            ("of all", all().settings(labels("x=all")), &["* x=all"]),
            (
                "of the kind",
                all().settings(labels("x=all")).kind(kind().settings(labels("x=kind"))),
                &["* x=kind"],
            ),
            (
                "each selector by itself",
                all().settings(labels("x=all")).kind(kind().settings(fields("metadata.name=a"))),
                &["* x=all metadata.name=a"],
            ),
            (
                "a selector that is set and empty counts",
                all().settings(labels("x=all")).kind(kind().settings(labels(""))),
                &["*"],
            ),
            ("the cache's namespaces", all().namespaces([("one", none()), ("two", none())]), &["one", "two"]),
            (
                "the namespace before all",
                all().settings(labels("x=all")).namespaces([("one", labels("x=one")), ("two", none())]),
                &["one x=one", "two x=all"],
            ),
            (
                "the cache's namespace before the kind, which has none of its own",
                all()
                    .namespaces([("one", labels("x=one")), ("two", none())])
                    .kind(kind().settings(labels("x=kind"))),
                &["one x=one", "two x=kind"],
            ),
            (
                "the kind's namespaces instead of the cache's",
                all().namespaces([("one", none())]).kind(kind().namespaces([("two", none())])),
                &["two"],
            ),
            (
                "the kind's namespace, the kind, the cache's namespace, all",
                all()
                    .settings(labels("x=all"))
                    .namespaces([("one", labels("x=one")), ("two", labels("x=two"))])
                    .kind(kind().namespaces([("one", labels("x=mine")), ("two", none()), ("three", none())])),
                &["one x=mine", "three x=all", "two x=two"],
            ),
            (
                "the kind before the cache's namespace, where the kind has namespaces",
                all().namespaces([("one", labels("x=one"))]).kind(
                    kind()
                        .settings(labels("x=kind"))
                        .namespaces([("one", none()), ("two", labels("x=mine"))]),
                ),
                &["one x=kind", "two x=mine"],
            ),
            (
                "no namespaces for a kind are all of them",
                all().namespaces([("one", none())]).kind(kind().namespaces(Vec::<(String, _)>::new())),
                &["*"],
            ),
            (
                "all others",
                all().namespaces([
                    ("one", labels("x=one")),
                    (ALL_OTHER_NAMESPACES, fields("metadata.name=a")),
                ]),
                &["* metadata.name=a,metadata.namespace!=one", "one x=one"],
            ),
            (
                "all others and no other",
                all().namespaces([(ALL_OTHER_NAMESPACES, labels("x=y"))]),
                &["* x=y"],
            ),
            (
                "all others than the kind's",
                all().namespaces([("one", none())]).kind(kind().namespaces([
                    ("two", none()),
                    ("three", none()),
                    (ALL_OTHER_NAMESPACES, none()),
                ])),
                &["* metadata.namespace!=three,metadata.namespace!=two", "three", "two"],
            ),
            (
                "another kind's do not matter",
                all().kind(KindOptions::new(Kind::<Secret>::typed()).settings(labels("x=secret"))),
                &["*"],
            ),
            (
                "said in two steps",
                all()
                    .kind(kind().settings(labels("x=first")).namespaces([("one", none())]))
                    .kind(KindOptions::new(Kind::<PartialObjectMeta<ConfigMap>>::metadata()).no_resync()),
                &["one x=first"],
            ),
            (
                "said again",
                all().kind(kind().settings(labels("x=first"))).kind(kind().settings(labels("x=second"))),
                &["* x=second"],
            ),
        ];
        for (case, options, expected) in table {
            assert_eq!(asked(&arm, options).await, expected, "{case}");
        }
    });
}

#[test]
fn all_other_namespaces_have_settings_of_their_own() {
    Arm::run(|arm| async move {
        let (second, third) = (arm.another_namespace().await, arm.another_namespace().await);
        let mine = ("test", arm.namespace.as_str());
        for namespace in [&arm.namespace, &second, &third] {
            arm.create_labelled(namespace, "web", &[mine, ("app", "web")]).await;
            arm.create_labelled(namespace, "other", &[mine, ("app", "other")]).await;
        }
        let test = format!("test={}", arm.namespace);
        let options = CacheOptions::new().namespaces([
            (arm.namespace.as_str(), labels(&test)),
            (ALL_OTHER_NAMESPACES, labels(&format!("{test},app=web"))),
        ]);
        let cache = arm.cache_with(options);
        cache.start();
        let maps = cache.lister(&Kind::<ConfigMap>::typed()).await.expect("in sync");
        let found = |namespace: &str| {
            names(&maps.namespace(namespace).list(&bowline_machinery::LabelSelector::everything()))
        };
        assert_eq!(found(&arm.namespace), ["other", "web"]);
        assert_eq!(found(&second), ["web"]);
        assert_eq!(found(&third), ["web"]);
        // A new namespace belongs to the other ones at once.
        let fourth = arm.another_namespace().await;
        arm.create_labelled(&fourth, "web", &[mine, ("app", "web")]).await;
        arm.until("it is held", || !found(&fourth).is_empty()).await;
    });
}

#[test]
fn a_cache_limited_to_namespaces_caches_cluster_scoped_kinds_whole() {
    Arm::run(|arm| async move {
        let mut role = ClusterRole::default();
        role.metadata.name = Some(arm.namespace.clone());
        let roles = Api::<ClusterRole>::all(arm.client.clone());
        roles.create(&PostParams::default(), &role).await.expect("created");
        let cache = arm.cache();
        cache.start();
        let kind = Kind::<ClusterRole>::typed();
        let key = arm.namespace.parse().expect("a key");
        let found = cache.get(&kind, &key).await.expect("in sync").expect("it is there");
        assert_eq!(found.name_any(), arm.namespace);
        // A namespace in the key or the query is ignored, as in controller-runtime.
        let key = format!("anywhere/{}", arm.namespace).parse().expect("a key");
        assert!(cache.get(&kind, &key).await.expect("in sync").is_some());
        let query = ListQuery::new().in_namespace("anywhere");
        assert!(names(&cache.list(&kind, &query).await.expect("in sync")).contains(&arm.namespace));
    });
}

#[test]
fn namespaces_for_a_cluster_scoped_kind_are_an_error_that_names_it() {
    Arm::run(|arm| async move {
        let kind = Kind::<ClusterRole>::typed();
        let limited = KindOptions::new(kind.clone()).namespaces([("one", SelectionSettings::new())]);
        let cache = arm.cache_with(CacheOptions::new().kind(limited));
        let error = cache.get_informer(&kind).expect_err("it has no namespaces");
        assert!(matches!(error, CacheError::ClusterScoped { .. }), "{error:?}");
        assert_eq!(
            error.to_string(),
            "clusterroles.rbac.authorization.k8s.io/v1 are cluster-scoped, but were limited to namespace one: \
             remove the namespaces"
        );
        let part = (Namespaces::One("one".to_owned()), Selectors::default());
        let error = arm.cache().get_informer_of(&kind, [part]).expect_err("it has no namespaces");
        assert!(matches!(error, CacheError::ClusterScoped { .. }), "{error:?}");
    });
}

#[test]
fn an_invalid_selector_is_an_error_that_names_kind_and_selector() {
    Arm::run(|arm| async move {
        let kind = Kind::<ConfigMap>::typed();
        let refused = |settings: SelectionSettings| {
            let cache = arm.cache_with(CacheOptions::new().namespaces([("one", settings)]));
            cache.get_informer(&kind).expect_err("it cannot be read").to_string()
        };
        let error = refused(labels("a in (b"));
        assert!(
            error.starts_with(
                "the label selector \"a in (b\" for configmaps (v1) in namespace one cannot be used: "
            ),
            "{error}"
        );
        let error = refused(fields("metadata.name"));
        assert_eq!(
            error,
            "the field selector \"metadata.name\" for configmaps (v1) in namespace one cannot be used: invalid selector: \
             'metadata.name'; can't understand 'metadata.name'"
        );
        // Reads need the same informer.
        let cache = arm.cache_with(CacheOptions::new().settings(labels("=")));
        cache.start();
        let error = cache.list(&kind, &ListQuery::new()).await.expect_err("it cannot be read");
        assert!(matches!(error, CacheError::Selector { .. }), "{error:?}");
        assert!(arm.traffic.asked("configmaps").is_empty(), "no request is sent");
    });
}

#[test]
fn get_informer_of_checks_its_arguments() {
    Arm::run(|arm| async move {
        let (cache, kind) = (arm.cache(), Kind::<ConfigMap>::typed());
        let of = |namespaces: &[Namespaces]| {
            let parts = namespaces.iter().map(|namespaces| (namespaces.clone(), Selectors::default()));
            cache.get_informer_of(&kind, parts.collect::<Vec<_>>()).expect_err("it makes no sense")
        };
        assert!(matches!(of(&[]), CacheError::Informer(InformerError::NoSource { .. })));
        let one = Namespaces::One("one".to_owned());
        assert!(matches!(of(&[one.clone(), one]), CacheError::Informer(InformerError::Overlap { .. })));
        let nowhere = of(&[Namespaces::One(String::new())]);
        assert!(nowhere.to_string().contains("namespace with an empty name"), "{nowhere}");
    });
}

#[test]
fn other_selectors_or_namespaces_are_another_informer() {
    Arm::run(|arm| async move {
        arm.create_labelled(&arm.namespace, "web", &[("app", "web")]).await;
        arm.create_labelled(&arm.namespace, "other", &[("app", "other")]).await;
        let (cache, kind) = (arm.cache(), Kind::<ConfigMap>::typed());
        let of = |labels: &str| {
            let selectors = Selectors::new().labels(labels);
            cache.get_informer_of(&kind, [(arm.here(), selectors)]).expect("an informer")
        };
        let (web, again, all) = (of("app=web"), of("app=web"), of(""));
        let whole = cache.get_informer(&kind).expect("an informer");
        cache.start();
        cache.wait_for_sync(PATIENCE).await.expect("in sync");
        assert_eq!(names(&web.indexer().list()), ["web"]);
        assert!(std::sync::Arc::ptr_eq(web.indexer(), again.indexer()), "the same informer is shared");
        assert_eq!(names(&all.indexer().list()), ["other", "web"]);
        assert!(
            std::sync::Arc::ptr_eq(all.indexer(), whole.indexer()),
            "the same selection is the same informer"
        );
        assert_eq!(arm.traffic.open("configmaps").len(), 2);
    });
}

#[test]
fn a_transform_of_a_kind_replaces_that_of_the_cache() {
    Arm::run(|arm| async move {
        arm.create("a", "1").await;
        arm.create_secret("s").await;
        let maps = Kind::<ConfigMap>::typed();
        let mark = |text: &'static str| {
            move |annotations: &mut Option<BTreeMap<String, String>>| {
                annotations.get_or_insert_default().insert(text.to_owned(), String::new());
            }
        };
        let (all, own) = (mark("all"), mark("own"));
        let options = arm.options().transform(move |meta| all(&mut meta.annotations)).kind(
            KindOptions::new(maps.clone()).transform(move |map| {
                own(&mut map.metadata.annotations);
                map.data = Some(BTreeMap::from([("value".to_owned(), "changed".to_owned())]));
            }),
        );
        let cache = arm.cache_with(options);
        cache.start();
        let key = |name: &str| format!("{}/{name}", arm.namespace).parse().expect("a key");
        let map = cache.get(&maps, &key("a")).await.expect("in sync").expect("it is there");
        assert_eq!(map.annotations().keys().collect::<Vec<_>>(), ["own"]);
        assert_eq!(value(&map), "changed");
        let secret =
            cache.get(&Kind::<Secret>::typed(), &key("s")).await.expect("in sync").expect("it is there");
        assert_eq!(secret.annotations().keys().collect::<Vec<_>>(), ["all"]);
        // Another representation of the kind has no transform of its own.
        let meta = Kind::<PartialObjectMeta<ConfigMap>>::metadata();
        let meta = cache.get(&meta, &key("a")).await.expect("in sync").expect("it is there");
        assert_eq!(meta.annotations().keys().collect::<Vec<_>>(), ["all"]);
        // Objects of a watch are transformed too.
        let informer = cache.get_informer(&maps).expect("an informer");
        arm.create("b", "1").await;
        arm.until("b is held", || informer.indexer().len() == 2).await;
        assert_eq!(value(&informer.indexer().get(&key("b")).expect("it is there")), "changed");
    });
}

#[test]
fn the_resync_period_comes_from_the_kind_or_the_cache() {
    Arm::run(|arm| async move {
        arm.create("a", "1").await;
        let kind = Kind::<ConfigMap>::typed();
        let second = Duration::from_secs(1);
        let often = arm.cache_with(arm.options().resync(second));
        let never =
            arm.cache_with(arm.options().resync(second).kind(KindOptions::new(kind.clone()).no_resync()));
        let own =
            arm.cache_with(arm.options().no_resync().kind(KindOptions::new(kind.clone()).resync(second)));
        let informers = [&often, &never, &own].map(|cache| cache.get_informer(&kind).expect("an informer"));
        let witnesses = informers.each_ref().map(|informer| Witness::of(informer));
        for cache in [&often, &never, &own] {
            cache.start();
        }
        arm.until("two handlers are resynced", || witnesses[0].0.count() >= 3 && witnesses[2].0.count() >= 3)
            .await;
        assert_eq!(witnesses[0].0.lines()[..3], ["+a=1*", "a=1>1", "a=1>1"]);
        assert_eq!(witnesses[1].0.lines(), ["+a=1*"]);
    });
}
