//! The parameters of a request, as far as any verb knows them. A value that cannot be read is a 400.

use bowline_machinery::Status;

/// Options of reads, writes and watches, as Kubernetes names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) label_selector: String,
    pub(crate) field_selector: String,
    pub(crate) watch: bool,
    pub(crate) allow_watch_bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) resource_version: String,
    pub(crate) resource_version_match: String,
    pub(crate) timeout_seconds: Option<u64>,
    pub(crate) limit: u64,
    pub(crate) continue_token: String,
    pub(crate) dry_run: Vec<String>,
    pub(crate) field_manager: String,
    pub(crate) force: bool,
    pub(crate) field_validation: String,
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) propagation_policy: Option<String>,
    pub(crate) pretty: bool,
    pub(crate) verbose: bool,
    pub(crate) exclude: Vec<String>,
}

impl Query {
    pub(crate) fn parse(query: &str) -> Result<Self, Status> {
        let mut parsed = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let value = value.into_owned();
            match &*name {
                "labelSelector" => parsed.label_selector = value,
                "fieldSelector" => parsed.field_selector = value,
                "watch" => parsed.watch = boolean(&value),
                "allowWatchBookmarks" => parsed.allow_watch_bookmarks = boolean(&value),
                "sendInitialEvents" => parsed.send_initial_events = Some(boolean(&value)),
                "resourceVersion" => parsed.resource_version = value,
                "resourceVersionMatch" => parsed.resource_version_match = value,
                "timeoutSeconds" if !value.is_empty() => {
                    // Negative ones count as none.
                    parsed.timeout_seconds = u64::try_from(integer(&value)?).ok();
                }
                "limit" if !value.is_empty() => parsed.limit = u64::try_from(integer(&value)?).unwrap_or(0),
                "continue" => parsed.continue_token = value,
                "dryRun" => parsed.dry_run.push(value),
                "force" => parsed.force = boolean(&value),
                "fieldManager" => parsed.field_manager = value,
                "fieldValidation" => parsed.field_validation = value,
                "gracePeriodSeconds" if !value.is_empty() => {
                    parsed.grace_period_seconds = Some(integer(&value)?);
                }
                "orphanDependents" => parsed.orphan_dependents = Some(boolean(&value)),
                "propagationPolicy" if !value.is_empty() => parsed.propagation_policy = Some(value),
                "pretty" => parsed.pretty = boolean(&value),
                "verbose" => parsed.verbose = true,
                "exclude" => parsed.exclude.push(value),
                _ => {}
            }
        }
        Ok(parsed)
    }
}

/// As Kubernetes reads it: anything but `false` and `0` is true, nothing at all too.
fn boolean(value: &str) -> bool {
    !matches!(value.to_ascii_lowercase().as_str(), "false" | "0")
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
        let query = query.expect("it can be read");
        assert!(query.watch && !query.allow_watch_bookmarks);
        assert_eq!((query.label_selector.as_str(), query.limit), ("a=b,c", 5));
        assert_eq!(query.dry_run, ["All"]);
        assert_eq!(Query::parse("watch=&unknown=1").map(|query| query.watch), Ok(true));
    }

    #[test]
    fn a_number_that_is_none_is_a_bad_request() {
        let error = Query::parse("limit=many").expect_err("it cannot be read");
        assert_eq!(
            (error.code, error.message.as_str()),
            (400, r#"strconv.ParseInt: parsing "many": invalid syntax"#)
        );
        assert!(Query::parse("timeoutSeconds=99999999999999999999").is_err());
    }
}
