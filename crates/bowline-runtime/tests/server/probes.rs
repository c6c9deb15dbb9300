//! Responses to probes: controller-runtime's format, with the name of the probe as in kube-apiserver.

use std::time::Duration;

use bowline_runtime::health::{CheckFailure, HealthChecks, HealthServer};
use bowline_runtime::server::ServerError;

use crate::world::{Running, local, scope};

async fn serve(alive: &HealthChecks, ready: &HealthChecks) -> Running {
    let scope = scope();
    let bound = at().bind(&scope.spawner(), alive, ready).await;
    Running::start(scope, bound)
}

fn at() -> HealthServer {
    HealthServer::new(local())
}

#[tokio::test]
async fn without_checks_a_probe_has_ping() {
    let server = serve(&HealthChecks::new(), &HealthChecks::new()).await;
    for path in ["/healthz", "/readyz", "/healthz/", "/readyz/ping", "/readyz?exclude=ping"] {
        let answer = server.get(path).await;
        assert_eq!((answer.status, &*answer.body), (200, "ok"), "{path}");
        assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
    let answer = server.get("/readyz?verbose").await;
    assert_eq!((answer.status, &*answer.body), (200, "[+]ping ok\nreadyz check passed\n"));
    for path in ["/", "/livez", "/readyzz", "/readyz/other"] {
        assert_eq!(server.get(path).await.status, 404, "{path}");
    }
    assert_eq!(server.ask("POST", "/healthz", &[]).await.status, 405);
    assert_eq!(server.ask("HEAD", "/healthz", &[]).await.status, 200);
    // Bodies that never arrive are not waited for.
    let length = [("content-length", "4000000")];
    assert_eq!(server.ask("POST", "/healthz", &length).await.status, 405);
    assert_eq!(server.ask("GET", "/readyz/ping", &length).await.status, 413);
}

#[tokio::test]
async fn a_check_that_fails_fails_the_probe_and_keeps_its_reason() {
    let (alive, ready) = (HealthChecks::new(), HealthChecks::new());
    ready.add("database", || async { Err::<(), _>("password 1234 is wrong") });
    ready.add("caches", || async { Ok::<(), std::io::Error>(()) });
    let server = serve(&alive, &ready).await;
    for path in ["/readyz", "/readyz?verbose", "/readyz?verbose=false"] {
        let answer = server.get(path).await;
        let expected = "[+]caches ok\n[-]database failed: reason withheld\nreadyz check failed\n";
        assert_eq!((answer.status, &*answer.body), (500, expected), "{path}");
    }
    let answer = server.get("/readyz/database").await;
    let expected = "internal server error: reason withheld\n";
    assert_eq!((answer.status, &*answer.body), (500, expected));
    assert_eq!(server.get("/readyz/database?verbose").await.body, expected);
    assert_eq!(server.get("/readyz/caches").await.body, "ok");
    assert_eq!(server.get("/readyz/ping").await.status, 404);
    assert_eq!(server.get("/healthz").await.status, 200, "it is alive nevertheless");
}

#[tokio::test]
async fn a_public_reason_is_shown() {
    let ready = HealthChecks::new();
    ready.add("controllers", || async {
        Err(CheckFailure::public("controller foo waits for Foo.demo.example.com/v1:\nnot found"))
    });
    let server = serve(&HealthChecks::new(), &ready).await;
    let expected = "[-]controllers failed: controller foo waits for Foo.demo.example.com/v1: not found\n\
                readyz check failed\n";
    assert_eq!(server.get("/readyz").await.body, expected);
    let expected = "internal server error: controller foo waits for Foo.demo.example.com/v1: not found\n";
    assert_eq!(server.get("/readyz/controllers").await.body, expected);
}

#[tokio::test]
async fn checks_are_excluded_by_name() {
    let ready = HealthChecks::new();
    for name in ["a", "b"] {
        ready.add(name, || async { Err::<(), _>("no") });
    }
    let server = serve(&HealthChecks::new(), &ready).await;
    let answer = server.get("/readyz?exclude=a").await;
    let expected = "[+]a excluded: ok\n[-]b failed: reason withheld\nreadyz check failed\n";
    assert_eq!((answer.status, &*answer.body), (500, expected));
    assert_eq!(server.get("/readyz?exclude=a&exclude=b").await.body, "ok");
    let answer = server.get("/readyz?exclude=b&exclude=other&exclude=a&exclude=one%20more&verbose").await;
    let expected = "[+]a excluded: ok\n[+]b excluded: ok\n\
                warn: some health checks cannot be excluded: no matches for \"one more\",\"other\"\n\
                readyz check passed\n";
    assert_eq!((answer.status, &*answer.body), (200, expected));
}

#[tokio::test]
async fn a_check_that_hangs_or_panics_fails_and_delays_no_other() {
    let ready = HealthChecks::with_timeout(Duration::from_millis(200));
    ready.add("hangs", std::future::pending::<Result<(), CheckFailure>>);
    ready.add("panics", || -> std::future::Ready<Result<(), CheckFailure>> { panic!("now") });
    ready.add("panics later", || async {
        tokio::task::yield_now().await;
        if true { panic!("later") } else { Ok::<(), CheckFailure>(()) }
    });
    ready.add("well", || async { Ok::<(), CheckFailure>(()) });
    let server = serve(&HealthChecks::new(), &ready).await;
    let expected = "[-]hangs failed: reason withheld\n[-]panics failed: reason withheld\n\
                [-]panics later failed: reason withheld\n[+]well ok\nreadyz check failed\n";
    assert_eq!(server.get("/readyz").await.body, expected);
    assert_eq!(server.get("/readyz/panics%20later").await.body, "internal server error: reason withheld\n");
    let expected = "internal server error: reason withheld\n";
    assert_eq!(server.get("/readyz/hangs").await.body, expected);
}

#[tokio::test]
async fn checks_can_be_added_and_removed() {
    let ready = HealthChecks::new();
    let server = serve(&HealthChecks::new(), &ready).await;
    let same = ready.clone();
    same.add("late", || async { Err::<(), _>("no") });
    assert_eq!(server.get("/readyz").await.status, 500);
    same.add("late", || async { Ok::<(), CheckFailure>(()) });
    assert_eq!(server.get("/readyz?verbose").await.body, "[+]late ok\nreadyz check passed\n");
    assert_eq!(same.names(), ["late"]);
    same.remove("late");
    assert_eq!(server.get("/readyz?verbose").await.body, "[+]ping ok\nreadyz check passed\n");
}

#[tokio::test]
async fn paths_can_be_chosen_and_must_differ() {
    let ready = HealthChecks::new();
    ready.add("no", || async { Err::<(), _>("no") });
    let scope = scope();
    let spawner = scope.spawner();
    let same = at().liveness_path("/readyz").bind(&spawner, &HealthChecks::new(), &ready).await;
    assert!(matches!(same, Err(ServerError::Path { .. })), "{same:?}");
    let server = at().liveness_path("/live").readiness_path("/is/ready/");
    let server = Running::start(scope, server.bind(&spawner, &HealthChecks::new(), &ready).await);
    assert_eq!(server.get("/live").await.status, 200);
    assert_eq!(server.get("/is/ready").await.status, 500);
    assert_eq!(server.get("/is/ready/no").await.status, 500);
    assert_eq!(server.get("/healthz").await.status, 404);
}
