//! Log lines. It is a program of its own: the first subscriber of a call site decides for the whole process
//! whether anything is heard from there.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use bowline_apiserver::{ApiServer, FrameVerdict, Hook, HookFuture, RequestInfo, Verdict, WatchFrame};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};

/// Panics whenever it can.
struct Panicking;

impl Hook for Panicking {
    fn before_request<'a>(&'a self, call: &'a RequestInfo) -> HookFuture<'a, Verdict> {
        assert!(call.path != "/version", "so it is");
        Box::pin(std::future::ready(Verdict::Proceed))
    }

    fn before_frame<'a>(
        &'a self,
        _call: &'a RequestInfo,
        frame: WatchFrame<'a>,
    ) -> HookFuture<'a, FrameVerdict> {
        panic!("{} is too much", frame.event)
    }
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// All since the last time.
    fn text(&self) -> String {
        let bytes = std::mem::take(&mut *self.0.lock().expect("nobody panics with it"));
        String::from_utf8(bytes).expect("it is text")
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics with it").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn of_a_panic_the_log_says_who_did_what_and_why_it_failed() {
    let log = Log::default();
    let writer = log.clone();
    let lines = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).without_time();
    let _listening = tracing::subscriber::set_default(lines.with_target(false).finish());
    let server = ApiServer::builder().hook(Panicking).build().expect("a server can be built");
    let get = async |path: &str| {
        let request = Request::get(path).body(Full::<Bytes>::default()).expect("a request can be made");
        server.handle(request).await.expect("the connection is not cut")
    };
    assert_eq!(get("/version").await.status(), 500);
    let expected = r#"ERROR a request panicked method=GET path="/version" user="admin" panic="so it is""#;
    assert_eq!(log.text().trim(), expected);

    let mut watch = get("/api/v1/namespaces?watch=true").await.into_body();
    assert!(watch.frame().await.is_some_and(|frame| frame.is_err()));
    let expected = r#"ERROR response panicked and was truncated panic="ADDED is too much""#;
    assert_eq!(log.text().trim(), expected);
}
