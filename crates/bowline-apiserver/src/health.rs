//! `/healthz`, `/livez` and `/readyz`.

use std::collections::BTreeSet;

use crate::query::Query;
use crate::request::Endpoint;

/// Health checks. A server that answers has passed all but the last. The names are kube-apiserver's:
/// the object store is called `etcd`.
pub(crate) const CHECKS: [&str; 3] = ["ping", "etcd", "poststarthook/bootstrap-controller"];

pub(crate) const ENDPOINTS: [&str; 3] = ["healthz", "livez", "readyz"];

/// Code and text of an answer.
pub(crate) fn answer(endpoint: Endpoint, check: Option<&str>, query: &Query, ready: bool) -> (u16, String) {
    let is_ok = |check: &str| ready || endpoint != Endpoint::Readyz || !check.starts_with("poststarthook");
    if let Some(check) = check {
        return match CHECKS.iter().find(|known| **known == check) {
            None => (404, "404 page not found\n".to_owned()),
            Some(check) if is_ok(check) => (200, "ok".to_owned()),
            Some(_) => (500, "internal server error: not finished\n".to_owned()),
        };
    }
    let name = match endpoint {
        Endpoint::Healthz => ENDPOINTS[0],
        Endpoint::Livez => ENDPOINTS[1],
        Endpoint::Readyz => ENDPOINTS[2],
    };
    let mut unknown: BTreeSet<&str> = query.exclude.iter().map(String::as_str).collect();
    let mut lines = String::new();
    let mut failed = false;
    for check in CHECKS {
        let line = if unknown.remove(check) {
            format!("[+]{check} excluded: ok\n")
        } else if is_ok(check) {
            format!("[+]{check} ok\n")
        } else {
            failed = true;
            format!("[-]{check} failed: reason withheld\n")
        };
        lines.push_str(&line);
    }
    if !unknown.is_empty() {
        let names: Vec<_> = unknown.iter().map(|name| format!("{name:?}")).collect();
        let names = names.join(",");
        lines = format!("{lines}warn: some health checks cannot be excluded: no matches for {names}\n");
    }
    if failed {
        return (500, format!("{lines}{name} check failed\n"));
    }
    if query.verbose { (200, format!("{lines}{name} check passed\n")) } else { (200, "ok".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_ready_lives_but_says_so() {
        let query = Query::default();
        assert_eq!(answer(Endpoint::Livez, None, &query, false), (200, "ok".to_owned()));
        let (code, text) = answer(Endpoint::Readyz, None, &query, false);
        assert_eq!(code, 500);
        assert!(text.ends_with("readyz check failed\n"), "{text}");
        assert_eq!(answer(Endpoint::Readyz, Some("ping"), &query, false).0, 200);
    }

    #[test]
    fn verbose_lists_every_check() {
        let query = Query { verbose: true, exclude: vec!["ping".to_owned()], ..Query::default() };
        let (code, text) = answer(Endpoint::Readyz, None, &query, true);
        assert_eq!(code, 200);
        assert!(
            text.starts_with("[+]ping excluded: ok\n") && text.ends_with("readyz check passed\n"),
            "{text}"
        );
        assert_eq!(answer(Endpoint::Healthz, Some("nothing"), &query, true).0, 404);
    }
}
