//! The reconciles of a running operator, read from its debug page.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use bowline::prelude::Clock;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;

/// Time limit for the page.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Largest page.
const LARGEST_PAGE: usize = 8 << 20;
/// Reconciles that are on the page, and IDs that are remembered.
const REMEMBERED: usize = 256;

/// Reads the reconciles that are new.
pub(super) struct Reconciles {
    address: SocketAddr,
    client: Client<HttpConnector, Empty<Bytes>>,
    /// IDs of reconciles that were returned before, the last ones.
    seen: VecDeque<String>,
}

#[derive(Deserialize)]
struct Page {
    reconciles: Vec<Reconcile>,
}

/// A finished reconcile.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reconcile {
    id: String,
    controller: String,
    object: String,
    triggers: Vec<String>,
    more_triggers: u64,
    took_seconds: f64,
    detail: String,
    pub(super) is_failure: bool,
}

impl Reconciles {
    /// For an operator that serves its page at a port which is free now.
    pub(super) fn new() -> std::io::Result<Self> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let client = Client::builder(TokioExecutor::new()).build_http();
        Ok(Self { address, client, seen: VecDeque::new() })
    }

    /// The flags with which the operator serves the page.
    pub(super) fn flags(&self) -> [String; 3] {
        [
            format!("--metrics-bind-address={}", self.address),
            "--metrics-secure=false".to_owned(),
            "--enable-debug".to_owned(),
        ]
    }

    /// The reconciles since the last call, oldest first. None while the operator does not answer.
    pub(super) async fn take(&mut self) -> Vec<Reconcile> {
        let page = Clock::real().timeout(TIMEOUT, self.page()).await;
        let Ok(Some(page)) = page else { return Vec::new() };
        let new: Vec<_> = page.reconciles.into_iter().filter(|run| !self.seen.contains(&run.id)).collect();
        for run in new.iter().rev() {
            self.seen.push_back(run.id.clone());
        }
        while self.seen.len() > REMEMBERED {
            self.seen.pop_front();
        }
        new.into_iter().rev().collect()
    }

    async fn page(&self) -> Option<Page> {
        let uri = format!("http://{}/debug?format=json&limit={REMEMBERED}", self.address);
        let answer = self.client.get(uri.parse().ok()?).await.ok()?;
        let body = Limited::new(answer.into_body(), LARGEST_PAGE).collect().await.ok()?;
        serde_json::from_slice(&body.to_bytes()).ok()
    }
}

/// `↻ game default/example, because: Game default/example created (done in 1.2ms)`.
impl std::fmt::Display for Reconcile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { controller, object, triggers, more_triggers, took_seconds, detail, .. } = self;
        let took = Duration::try_from_secs_f64(*took_seconds).unwrap_or_default();
        let more = if *more_triggers > 0 { format!(" and {more_triggers} more") } else { String::new() };
        write!(f, "↻ {controller} {object}, because: {}{more} ({detail} in {took:.1?})", triggers.join(", "))
    }
}
