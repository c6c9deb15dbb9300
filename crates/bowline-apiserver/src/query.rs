//! Query parameters of all verbs. An invalid value is a 400 for the verbs that use it.

use std::collections::BTreeSet;

use bowline_machinery::Status;
use bowline_storage::Revision;

/// Options of reads, writes and watches, as Kubernetes names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a parameter of its own")]
pub(crate) struct Query {
    pub(crate) label_selector: String,
    pub(crate) field_selector: String,
    pub(crate) watch: bool,
    pub(crate) allow_watch_bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) resource_version: String,
    pub(crate) resource_version_match: String,
    pub(crate) timeout_seconds: Option<i64>,
    pub(crate) limit: u64,
    /// Errors of the options that only lists and watches have.
    pub(crate) list_error: Option<Status>,
    /// Likewise, that only deletes have.
    pub(crate) delete_error: Option<Status>,
    pub(crate) continue_token: String,
    pub(crate) dry_run: Vec<String>,
    pub(crate) field_manager: String,
    pub(crate) force: bool,
    pub(crate) field_validation: String,
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) propagation_policy: Option<String>,
    pub(crate) pretty: Option<bool>,
    pub(crate) verbose: bool,
    pub(crate) exclude: Vec<String>,
    /// The fault kit's decisions about the request.
    #[cfg(feature = "faults")]
    pub(crate) faults: crate::faults::RequestFaults,
}

impl Query {
    pub(crate) fn parse(query: &str) -> Self {
        let mut parsed = Self::default();
        let mut seen = BTreeSet::new();
        let pairs = query.split('&').filter(|pair| is_pair(pair));
        for (name, value) in pairs.flat_map(|pair| form_urlencoded::parse(pair.as_bytes())) {
            // Of a repeated option, the first value counts; some options are lists.
            if !matches!(&*name, "dryRun" | "exclude") && !seen.insert(name.clone()) {
                continue;
            }
            let value = value.into_owned();
            match &*name {
                "labelSelector" => parsed.label_selector = value,
                "fieldSelector" => parsed.field_selector = value,
                "watch" => parsed.watch = boolean(&value),
                "allowWatchBookmarks" => parsed.allow_watch_bookmarks = boolean(&value),
                "sendInitialEvents" => parsed.send_initial_events = Some(boolean(&value)),
                "resourceVersion" => parsed.resource_version = value,
                "resourceVersionMatch" => parsed.resource_version_match = value,
                "timeoutSeconds" => parsed.timeout_seconds = parsed.list_integer(&value),
                "limit" => {
                    // A negative one counts as absent.
                    let limit = parsed.list_integer(&value).unwrap_or_default();
                    parsed.limit = u64::try_from(limit).unwrap_or_default();
                }
                "continue" => parsed.continue_token = value,
                "dryRun" => parsed.dry_run.push(value),
                "force" => parsed.force = boolean(&value),
                "fieldManager" => parsed.field_manager = value,
                "fieldValidation" => parsed.field_validation = value,
                "gracePeriodSeconds" => match integer(&value) {
                    Ok(seconds) => parsed.grace_period_seconds = Some(seconds),
                    Err(error) => parsed.delete_error = Some(error),
                },
                "orphanDependents" => parsed.orphan_dependents = Some(boolean(&value)),
                "propagationPolicy" if !value.is_empty() => parsed.propagation_policy = Some(value),
                "pretty" if !value.is_empty() => parsed.pretty = Some(go_boolean(&value)),
                "verbose" => parsed.verbose = true,
                "exclude" => parsed.exclude.push(value),
                _ => {}
            }
        }
        parsed
    }

    /// The revision that reads see: `None` is the newest.
    #[cfg_attr(
        not(feature = "faults"),
        expect(clippy::unused_self, reason = "only the fault kit makes reads stale")
    )]
    pub(crate) fn stale_at(&self) -> Option<Revision> {
        #[cfg(feature = "faults")]
        return self.faults.stale_at;
        #[cfg(not(feature = "faults"))]
        None
    }

    /// A number for lists and watches only. Other verbs ignore an invalid value.
    fn list_integer(&mut self, value: &str) -> Option<i64> {
        match integer(value) {
            Ok(number) => Some(number),
            Err(error) => {
                self.list_error.get_or_insert(error);
                None
            }
        }
    }
}

/// As Go parses a query: pairs with a semicolon or an invalid escape are skipped.
fn is_pair(pair: &str) -> bool {
    let escapes = pair.split('%').skip(1);
    let is_escape = |text: &str| text.len() >= 2 && text.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    !pair.contains(';') && escapes.into_iter().all(is_escape)
}

/// As Kubernetes parses it: anything but `false` and `0` is true, also the empty string.
fn boolean(value: &str) -> bool {
    !matches!(value.to_ascii_lowercase().as_str(), "false" | "0")
}

/// The strings that Go's `strconv.ParseBool` parses as true.
fn go_boolean(value: &str) -> bool {
    matches!(value, "1" | "t" | "T" | "TRUE" | "true" | "True")
}

fn integer(value: &str) -> Result<i64, Status> {
    value.parse().map_err(|error: std::num::ParseIntError| {
        let why = match error.kind() {
            std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        Status::bad_request(format!("strconv.ParseInt: parsing {value:?}: {why}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_as_kubernetes_reads_them() {
        let query =
            Query::parse("watch=1&labelSelector=a%3Db%2Cc&limit=5&dryRun=All&allowWatchBookmarks=false");
        assert!(query.watch && !query.allow_watch_bookmarks);
        assert_eq!((query.label_selector.as_str(), query.limit), ("a=b,c", 5));
        assert_eq!(query.dry_run, ["All"]);
        assert!(Query::parse("watch=&unknown=1").watch);
    }

    #[test]
    fn a_number_that_is_none_is_a_bad_request_for_lists_alone() {
        let query = Query::parse("limit=many&timeoutSeconds=99999999999999999999");
        let error = query.list_error.expect("it cannot be read");
        assert_eq!(
            (error.code, error.message.as_str()),
            (400, r#"strconv.ParseInt: parsing "many": invalid syntax"#)
        );
        assert!(Query::parse("timeoutSeconds=").list_error.is_some());
    }

    #[test]
    fn of_an_option_that_is_given_twice_the_first_counts() {
        let query = Query::parse("limit=1&limit=2&dryRun=All&dryRun=x&labelSelector=&labelSelector=a");
        assert_eq!((query.limit, query.label_selector.as_str()), (1, ""));
        assert_eq!(query.dry_run, ["All", "x"]);
    }
}
