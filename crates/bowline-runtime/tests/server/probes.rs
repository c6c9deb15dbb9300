//! What probes are answered, byte for byte as by controller-runtime.

use std::time::Duration;

use bowline_runtime::health::{Checks, HealthServer, Reason};
use bowline_runtime::server::ServerError;

use crate::world::{Running, local, scope};

async fn serve(alive: &Checks, ready: &Checks) -> Running {
    let scope = scope();
    let bound = at().bind(alive, ready, &scope.spawner()).await;
    Running::start(scope, bound)
}

fn at() -> HealthServer {
    HealthServer::at(local())
}

#[tokio::test]
async fn without_checks_there_is_a_ping() {
    let server = serve(&Checks::new(), &Checks::new()).await;
    for path in ["/healthz", "/readyz", "/healthz/", "/readyz/ping", "/readyz?exclude=ping"] {
        let answer = server.get(path).await;
        assert_eq!((answer.status, &*answer.body), (200, "ok"), "{path}");
        assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
    let answer = server.get("/readyz?verbose").await;
    assert_eq!((answer.status, &*answer.body), (200, "[+]ping ok\nhealthz check passed\n"));
    for path in ["/", "/livez", "/readyzz", "/readyz/other"] {
        assert_eq!(server.get(path).await.status, 404, "{path}");
    }
    assert_eq!(server.ask("POST", "/healthz", &[]).await.status, 405);
    assert_eq!(server.ask("HEAD", "/healthz", &[]).await.status, 200);
    // Bodies that never come: none is waited for.
    let length = [("content-length", "4000000")];
    assert_eq!(server.ask("POST", "/healthz", &length).await.status, 405);
    assert_eq!(server.ask("GET", "/readyz/ping", &length).await.status, 413);
}

#[tokio::test]
async fn a_check_that_fails_fails_the_probe_and_keeps_its_reason() {
    let (alive, ready) = (Checks::new(), Checks::new());
    ready.add("database", || async { Err::<(), _>("password 1234 is wrong") });
    ready.add("caches", || async { Ok::<(), std::io::Error>(()) });
    let server = serve(&alive, &ready).await;
    for path in ["/readyz", "/readyz?verbose", "/readyz?verbose=false"] {
        let answer = server.get(path).await;
        let told = "[+]caches ok\n[-]database failed: reason withheld\nhealthz check failed\n";
        assert_eq!((answer.status, &*answer.body), (500, told), "{path}");
    }
    let answer = server.get("/readyz/database").await;
    let told = "internal server error: password 1234 is wrong\n";
    assert_eq!((answer.status, &*answer.body), (500, told));
    assert_eq!(server.get("/readyz/caches").await.body, "ok");
    assert_eq!(server.get("/readyz/ping").await.status, 404);
    assert_eq!(server.get("/healthz").await.status, 200, "it is alive nevertheless");
}

#[tokio::test]
async fn a_reason_is_shown_if_its_check_wants_that() {
    let ready = Checks::new();
    ready.add("controllers", || async {
        Err(Reason::shown("controller foo waits for Foo.demo.example.com/v1:\nnot found"))
    });
    let server = serve(&Checks::new(), &ready).await;
    let told = "[-]controllers failed: controller foo waits for Foo.demo.example.com/v1: not found\n\
                healthz check failed\n";
    assert_eq!(server.get("/readyz").await.body, told);
}

#[tokio::test]
async fn checks_are_excluded_by_name() {
    let ready = Checks::new();
    for name in ["a", "b"] {
        ready.add(name, || async { Err::<(), _>("no") });
    }
    let server = serve(&Checks::new(), &ready).await;
    let answer = server.get("/readyz?exclude=a").await;
    let told = "[+]a excluded: ok\n[-]b failed: reason withheld\nhealthz check failed\n";
    assert_eq!((answer.status, &*answer.body), (500, told));
    assert_eq!(server.get("/readyz?exclude=a&exclude=b").await.body, "ok");
    let answer = server.get("/readyz?exclude=b&exclude=other&exclude=a&exclude=one%20more&verbose").await;
    let told = "[+]a excluded: ok\n[+]b excluded: ok\n\
                warn: some health checks cannot be excluded: no matches for \"one more\",\"other\"\n\
                healthz check passed\n";
    assert_eq!((answer.status, &*answer.body), (200, told));
}

#[tokio::test]
async fn a_check_that_hangs_or_panics_fails_and_holds_up_no_other() {
    let ready = Checks::with_timeout(Duration::from_millis(200));
    ready.add("hangs", std::future::pending::<Result<(), Reason>>);
    ready.add("panics", || -> std::future::Ready<Result<(), Reason>> { panic!("now") });
    ready.add("panics later", || async {
        tokio::task::yield_now().await;
        if true { panic!("later") } else { Ok::<(), Reason>(()) }
    });
    ready.add("well", || async { Ok::<(), Reason>(()) });
    let server = serve(&Checks::new(), &ready).await;
    let told = "[-]hangs failed: reason withheld\n[-]panics failed: reason withheld\n\
                [-]panics later failed: reason withheld\n[+]well ok\nhealthz check failed\n";
    assert_eq!(server.get("/readyz").await.body, told);
    assert_eq!(
        server.get("/readyz/panics%20later").await.body,
        "internal server error: it panicked: later\n"
    );
    let told = "internal server error: it was not done within 200ms\n";
    assert_eq!(server.get("/readyz/hangs").await.body, told);
}

#[tokio::test]
async fn checks_may_come_and_go() {
    let ready = Checks::new();
    let server = serve(&Checks::new(), &ready).await;
    let same = ready.clone();
    same.add("late", || async { Err::<(), _>("no") });
    assert_eq!(server.get("/readyz").await.status, 500);
    same.add("late", || async { Ok::<(), Reason>(()) });
    assert_eq!(server.get("/readyz?verbose").await.body, "[+]late ok\nhealthz check passed\n");
    assert_eq!(same.names(), ["late"]);
    same.remove("late");
    assert_eq!(server.get("/readyz?verbose").await.body, "[+]ping ok\nhealthz check passed\n");
}

#[tokio::test]
async fn paths_can_be_chosen_and_must_differ() {
    let ready = Checks::new();
    ready.add("no", || async { Err::<(), _>("no") });
    let scope = scope();
    let spawner = scope.spawner();
    let same = at().liveness_path("/readyz").bind(&Checks::new(), &ready, &spawner).await;
    assert!(matches!(same, Err(ServerError::Path { .. })), "{same:?}");
    let server = at().liveness_path("/live").readiness_path("/is/ready/");
    let server = Running::start(scope, server.bind(&Checks::new(), &ready, &spawner).await);
    assert_eq!(server.get("/live").await.status, 200);
    assert_eq!(server.get("/is/ready").await.status, 500);
    assert_eq!(server.get("/is/ready/no").await.status, 500);
    assert_eq!(server.get("/healthz").await.status, 404);
}
