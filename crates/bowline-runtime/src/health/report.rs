//! Responses to probes, with the texts of Kubernetes' own servers.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use bowline_clock::Clock;
use http::StatusCode;

use super::check::{CheckFailure, HealthChecks, Outcome};
use crate::server::{Response, text};

/// Runs all checks except those that the query excludes. The response has details if a check failed or the query
/// requests them. `probe` is the name of the path, as in kube-apiserver: `readyz check passed`.
pub(super) async fn all(probe: &str, checks: &HealthChecks, clock: &Clock, query: &str) -> Response {
    let parameters: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
    let named = |name: &'static str| parameters.iter().filter(move |(parameter, _)| parameter == name);
    let is_verbose = named("verbose").next().is_some();
    let mut excluded: BTreeSet<&Cow<'_, str>> = named("exclude").map(|(_, check)| check).collect();

    let outcomes = checks.run(clock, |name| excluded.iter().any(|excluded| **excluded == name)).await;
    let is_well = !outcomes.iter().any(|(_, outcome)| matches!(outcome, Outcome::Failed(_)));
    if is_well && !is_verbose {
        return text(StatusCode::OK, "ok");
    }
    let mut report = String::new();
    for (name, outcome) in &outcomes {
        let line = match outcome {
            Outcome::Passed => format!("[+]{name} ok"),
            Outcome::Excluded => format!("[+]{name} excluded: ok"),
            Outcome::Failed(reason) => {
                format!("[-]{name} failed: {}", public(reason))
            }
        };
        report.extend([&line, "\n"]);
    }
    excluded.retain(|excluded| !outcomes.iter().any(|(name, _)| name == *excluded));
    if !excluded.is_empty() {
        let names = excluded.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(",");
        let _ = writeln!(report, "warn: some health checks cannot be excluded: no matches for {names}");
    }
    if is_well {
        text(StatusCode::OK, format!("{report}{probe} check passed\n"))
    } else {
        text(StatusCode::INTERNAL_SERVER_ERROR, format!("{report}{probe} check failed\n"))
    }
}

/// A reason in public form, on one line: its text may come from anywhere, and must not look like another check.
fn public(reason: &CheckFailure) -> String {
    reason
        .public_text()
        .map_or_else(|| "reason withheld".to_owned(), |reason| reason.replace(['\n', '\r'], " "))
}

/// Runs one check. Its reason is withheld as in the list of all, since probes are not authenticated.
pub(super) async fn one(checks: &HealthChecks, clock: &Clock, name: &str) -> Response {
    match checks.run_one(clock, name).await {
        None => text(StatusCode::NOT_FOUND, "404 page not found\n"),
        Some(Outcome::Failed(reason)) => {
            text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {}\n", public(&reason)))
        }
        Some(Outcome::Passed | Outcome::Excluded) => text(StatusCode::OK, "ok"),
    }
}
