//! What a probe is told, in the words that Kubernetes' own servers use.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use bowline_clock::Clock;
use http::StatusCode;

use super::check::{Checks, Outcome};
use crate::server::{Response, text};

/// All checks but those that the query excludes. The details are told if one failed, or if the query asks for them.
pub(super) async fn all(checks: &Checks, clock: &Clock, query: &str) -> Response {
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
                // It may come from anywhere, and must not look like another check.
                let reason = reason.public().map(|reason| reason.replace(['\n', '\r'], " "));
                format!("[-]{name} failed: {}", reason.as_deref().unwrap_or("reason withheld"))
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
        text(StatusCode::OK, report + "healthz check passed\n")
    } else {
        text(StatusCode::INTERNAL_SERVER_ERROR, report + "healthz check failed\n")
    }
}

/// One check, with the reason if it failed: who asks for one by its name knows the program.
pub(super) async fn one(checks: &Checks, clock: &Clock, name: &str) -> Response {
    match checks.run_one(clock, name).await {
        None => text(StatusCode::NOT_FOUND, "404 page not found\n"),
        Some(Outcome::Failed(reason)) => {
            text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {reason}\n"))
        }
        Some(Outcome::Passed | Outcome::Excluded) => text(StatusCode::OK, "ok"),
    }
}
