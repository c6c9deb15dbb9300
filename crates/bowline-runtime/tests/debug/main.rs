//! The debug page: content, formats, and escaping of text from outside.

mod world;

use std::time::Duration;

use bowline_cache::Kind;
use bowline_runtime::debug::{DebugPage, LeadershipState, ManagerReport, RunnableReport};
use bowline_runtime::{Action, Context, Error, Request};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use world::{Numbers, World};

#[test]
fn a_browser_gets_one_page_without_external_resources() {
    World::run(|world| async move {
        let response = world.get("", "text/html,*/*;q=0.8");
        assert_eq!(response.status(), 200);
        let header = |name| response.headers()[name].to_str().unwrap();
        assert_eq!(header(CONTENT_TYPE), "text/html; charset=utf-8");
        assert_eq!(header(CACHE_CONTROL), "no-store");
        let policy = header(CONTENT_SECURITY_POLICY);
        assert!(policy.starts_with("default-src 'none'; style-src 'nonce-"), "{policy}");
        let page = std::str::from_utf8(response.body()).unwrap();
        let nonce = policy.split("'nonce-").nth(1).unwrap().split('\'').next().unwrap();
        assert!(page.contains(&format!("<style nonce=\"{nonce}\">")));
        for elsewhere in ["<script", "src=", "http://", "https://", "url(", "@import", " style=\""] {
            assert!(!page.contains(elsewhere), "{elsewhere}");
        }
        let again = world.get("", "text/html");
        assert_ne!(again.headers()[CONTENT_SECURITY_POLICY], *policy, "a nonce is used once");
    });
}

#[test]
fn text_from_outside_is_shown_escaped() {
    World::run(|world| async move {
        let page = world.page("?controller=%22%3E%3Cscript%3E&format=html");
        assert!(page.contains("value=\"&quot;&gt;&lt;script&gt;\""), "the query is shown in the form");
        assert!(!page.contains("<script"));
        let page = world.page("?format=html");
        assert!(page.contains("failed: &lt;script&gt;alert(&#39;no luck&#39;)&lt;/script&gt;"), "{page}");
        assert!(!page.contains("<script"));
        let text = world.page("?format=text");
        assert!(text.contains("! failed: <script>alert('no luck')</script>\\u{1b}[31m"), "{text}");
        assert!(!text.contains('\u{1b}'));
    });
}

#[test]
fn the_content_of_objects_is_not_shown() {
    World::run(|world| async move {
        let _informer = world.cluster.cache().get_informer(&Kind::<Numbers>::typed()).unwrap();
        world.clock.sleep(Duration::from_secs(1)).await;
        for form in ["html", "text", "json"] {
            let page = world.page(&format!("?format={form}"));
            assert!(page.contains("default/fails"), "its name is");
            assert!(page.contains("expected u64"), "why it cannot be read is: {page}");
            assert!(!page.contains("hunter2"), "{page}");
        }
    });
}

#[test]
fn a_report_contains_the_state_of_controllers_and_informers() {
    World::run(|world| async move {
        let report = world.json("");
        let controllers = report["controllers"].as_array().unwrap();
        let [maps, secrets] = &**controllers else { panic!("{report:#}") };
        assert_eq!(maps["name"], "maps");
        assert_eq!(
            (&maps["kind"], &maps["group"], &maps["state"]),
            (&json!("ConfigMap"), &json!(""), &json!("working"))
        );
        assert_eq!((&maps["workers"], &maps["busy"]), (&json!(2), &json!(1)));
        assert_eq!((&maps["ready"], &maps["delayed"]), (&json!(0), &json!(1)), "one is tried again");
        assert_eq!((&maps["successes"], &maps["requeues"]), (&json!(1), &json!(0)));
        assert!(maps["errors"].as_u64().unwrap() >= 1);
        assert_eq!(maps["waitingFor"], json!([]));
        assert_eq!(maps["watches"], json!(["ConfigMap"]));
        assert_eq!(secrets["state"], "waiting");
        let reason = secrets["waitingFor"][0].as_str().unwrap();
        assert!(reason.contains("secrets (v1)") && reason.contains("you may not"), "{reason}");

        let running = &report["running"];
        assert_eq!(running.as_array().unwrap().len(), 1, "{running}");
        assert_eq!(
            (&running[0]["controller"], &running[0]["object"]),
            (&json!("maps"), &json!("default/hangs"))
        );
        assert!(running[0]["runningSeconds"].as_f64().unwrap() > 60.0);

        let informers = report["informers"].as_array().unwrap();
        let informer = |kind: &str| informers.iter().find(|informer| informer["kind"] == kind).unwrap();
        let maps = informer("configmaps (v1)");
        assert_eq!(
            (&maps["form"], &maps["hasSynced"], &maps["objects"]),
            (&json!("typed"), &json!(true), &json!(3))
        );
        assert_eq!(
            maps["parts"],
            json!([{"namespaces": "all namespaces", "phase": "watching", "hasSynced": true}])
        );
        let secrets = informer("secrets (v1)");
        assert_eq!((&secrets["hasSynced"], &secrets["objects"]), (&json!(false), &json!(0)));
        assert!(secrets["failures"].as_u64().unwrap() > 0);
        assert!(secrets["parts"][0]["error"].as_str().unwrap().contains("you may not"));
    });
}

#[test]
fn delayed_requests_are_sorted_by_time_in_every_format() {
    World::run(|mut world| async move {
        let later = world.cluster.controller::<ConfigMap>().named("later");
        let later = later.build(|context: Context, request: Request| async move {
            Ok::<_, Error>(match request.name() {
                "works" => Action::requeue_after(Duration::from_secs(600)),
                "hangs" => Action::requeue_at(context.clock().system_time() + Duration::from_secs(300)),
                _ => Action::done(),
            })
        });
        let later = later.unwrap();
        later.start().unwrap();
        later.wait_ready().await.unwrap();
        world.clock.sleep(Duration::from_secs(10)).await;
        world.page = DebugPage::new(&world.clock).controllers(move || vec![later.clone()]);
        let report = world.json("");
        assert_eq!((&report["controllers"][0]["delayed"], &report["delayedCount"]), (&json!(2), &json!(2)));
        let delayed: Vec<_> = report["delayed"].as_array().unwrap().iter().collect();
        let of = |delayed: &Value| {
            let text = |name: &str| delayed[name].as_str().unwrap().to_owned();
            (text("controller"), text("object"), delayed["dueInSeconds"].as_f64().unwrap().round())
        };
        let expected = [("default/hangs", 290.0), ("default/works", 590.0)];
        let expected = expected.map(|(object, due)| ("later".to_owned(), object.to_owned(), due));
        assert_eq!([of(delayed[0]), of(delayed[1])], expected);
        // The simulation begins on the first of January 2030; 100 seconds have passed.
        let due = delayed[0]["due"].as_str().unwrap().to_owned();
        assert!(due.starts_with("2030-01-01T00:06:30."), "{due}");
        let text = world.page("?limit=1");
        let line = text.lines().find(|line| line.starts_with(&due)).expect(&text);
        assert_eq!(
            line.split_whitespace().collect::<Vec<_>>()[1..],
            ["4", "m", "50", "s", "later", "default/hangs"]
        );
        assert!(text.contains("\n1 more wait for their time\n"), "{text}");
        let page = world.page("?format=html");
        assert!(page.contains("<h2>Due later <small>2</small></h2>") && page.contains(&due), "{page}");
        assert_eq!(world.json("?object=works")["delayed"][0]["object"], "default/works");
        let other = world.json("?controller=other");
        assert_eq!((&other["delayed"], &other["delayedCount"]), (&json!([]), &json!(0)));
    });
}

#[test]
fn reconciles_are_newest_first_with_their_triggers() {
    World::run(|world| async move {
        let report = world.json("");
        let runs = report["reconciles"].as_array().unwrap();
        let ages: Vec<_> = runs.iter().map(|run| run["agoSeconds"].as_f64().unwrap()).collect();
        assert!(ages.is_sorted() && ages.len() > 2, "{ages:?}");
        let failed = runs.iter().find(|run| run["object"] == "default/fails").unwrap();
        assert_eq!((&failed["controller"], &failed["outcome"]), (&json!("maps"), &json!("failed")));
        assert_eq!((&failed["isFailure"], &failed["moreTriggers"]), (&json!(true), &json!(0)));
        assert_eq!(failed["triggers"], json!(["ConfigMap created"]));
        assert!(failed["attempt"].as_u64().unwrap() > 1);
        assert_eq!(failed["id"].as_str().unwrap().len(), 36);
        let mut keys: Vec<_> = failed.as_object().unwrap().keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(
            keys,
            [
                "agoSeconds",
                "attempt",
                "controller",
                "detail",
                "id",
                "isFailure",
                "moreTriggers",
                "object",
                "outcome",
                "started",
                "tookSeconds",
                "triggers",
            ]
        );
    });
}

#[test]
fn problems_come_first() {
    World::run(|world| async move {
        let report = world.json("?controller=nobody");
        let attention = report["attention"].as_array().unwrap();
        let said: Vec<_> = attention
            .iter()
            .map(|one| format!("{}: {}", one["subject"].as_str().unwrap(), one["problem"].as_str().unwrap()))
            .collect();
        let says = |begin: &str| {
            assert!(said.iter().any(|one| one.starts_with(begin)), "{begin} is not in {said:#?}");
        };
        says("controller secrets: waits for secrets (v1)");
        says("controller maps: has reconciled default/hangs for ");
        says("controller maps: fails on default/fails; last: failed: ");
        assert_eq!(said.len(), 3, "{said:#?}");
        let page = world.page("?format=html");
        assert!(page.find("Needs attention") < page.find("<h2>Controllers"));
    });
}

#[test]
fn a_query_narrows_what_is_shown() {
    World::run(|world| async move {
        let objects = |query: &str| -> Vec<String> {
            let report = world.json(query);
            let runs = report["reconciles"].as_array().unwrap();
            let mut objects: Vec<_> =
                runs.iter().map(|run| run["object"].as_str().unwrap().to_owned()).collect();
            objects.dedup();
            objects
        };
        assert_eq!(objects("?object=default/works"), ["default/works"]);
        assert_eq!(objects("?object=works&controller=maps"), ["default/works"]);
        assert_eq!(objects("?object=other/works"), [""; 0]);
        assert_eq!(objects("?failed=true"), ["default/fails"]);
        assert_eq!(objects("?controller=secrets"), [""; 0]);
        let one = world.json("?limit=1");
        assert_eq!(one["reconciles"].as_array().unwrap().len(), 1);
        let only = world.json("?controller=secrets");
        assert_eq!(only["controllers"].as_array().unwrap().len(), 1);
        assert_eq!(only["running"], json!([]));
        let refused = world.get("?limit=many", "*/*");
        assert_eq!(
            (refused.status().as_u16(), refused.headers()[CONTENT_TYPE].as_bytes()),
            (400, &b"text/plain; charset=utf-8"[..])
        );
        let page = world.page("?format=html&controller=maps&refresh=5");
        assert!(page.contains("<meta http-equiv=\"refresh\" content=\"5\">"));
        assert!(
            page.contains("href=\"?controller=maps&amp;object=default%2Ffails&amp;refresh=5\""),
            "{page}"
        );
    });
}

#[test]
fn a_manager_shows_its_identity_and_runnables() {
    World::run(|mut world| async move {
        world.page = world.page.manager(|| ManagerReport {
            identity: "web-0_<b>".to_owned(),
            uptime: Duration::from_secs(3725),
            leadership: LeadershipState::Waiting,
            leader: Some("web-1".to_owned()),
            runnables: vec![RunnableReport {
                name: "metrics".to_owned(),
                stage: "server".to_owned(),
                state: "running".to_owned(),
            }],
        });
        let page = world.page("?format=html");
        for shown in
            ["<h1>web-0_&lt;b&gt; ", "waits to lead", "leader: web-1", "up 1 h 02 m", "<td>metrics</td>"]
        {
            assert!(page.contains(shown), "{shown} is not in {page}");
        }
        let expected = json!({
            "identity": "web-0_<b>", "uptimeSeconds": 3725.0, "leadership": "waiting", "leader": "web-1",
            "runnables": [{"name": "metrics", "stage": "server", "state": "running"}],
        });
        assert_eq!(world.json("")["manager"], expected);
        assert!(world.page("").contains("web-0_<b>, up 1 h 02 m, waits to lead (leader: web-1)\n"));
    });
}

#[test]
fn an_empty_page_has_a_notice() {
    World::run(|mut world| async move {
        world.page = DebugPage::new(&world.clock);
        let report = world.json("");
        assert!(report.get("manager").is_none());
        for part in ["attention", "controllers", "running", "delayed", "informers", "reconciles"] {
            assert_eq!(report[part], json!([]), "{part}");
        }
        assert!(world.page("?format=html").contains("Nothing needs attention."));
        assert!(
            world
                .page("")
                .ends_with("ATTENTION\nnothing\n\nno controllers\n\nno informers\n\nno reconciles\n")
        );
    });
}
