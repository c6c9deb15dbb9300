//! `/healthz`, `/livez` and `/readyz`.

use crate::query::Query;
use crate::request::Endpoint;

/// What is checked. A server that answers at all has all of it.
const CHECKS: [&str; 4] = ["ping", "storage", "registry", "poststarthook/bootstrap-controller"];

/// Code and text of an answer.
pub(crate) fn answer(endpoint: Endpoint, check: Option<&str>, query: &Query, ready: bool) -> (u16, String) {
    let is_ok = |check: &str| ready || endpoint != Endpoint::Readyz || !check.starts_with("poststarthook");
    if let Some(check) = check {
        return match CHECKS.iter().find(|known| **known == check) {
            None => (404, "404 page not found\n".to_owned()),
            Some(check) if is_ok(check) => (200, "ok".to_owned()),
            Some(check) => (500, format!("internal server error: {check} failed: it has not finished\n")),
        };
    }
    let name = match endpoint {
        Endpoint::Healthz => "healthz",
        Endpoint::Livez => "livez",
        Endpoint::Readyz => "readyz",
    };
    let mut lines = String::new();
    let mut failed = false;
    for check in CHECKS {
        let line = if query.exclude.iter().any(|excluded| excluded == check) {
            format!("[+]{check} excluded: ok\n")
        } else if is_ok(check) {
            format!("[+]{check} ok\n")
        } else {
            failed = true;
            format!("[-]{check} failed: not finished\n")
        };
        lines.push_str(&line);
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
