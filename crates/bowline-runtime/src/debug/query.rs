//! The query of a request: selection and format.

use http::header::ACCEPT;
use http::request;

use super::report::Report;

/// Default number of reconciles and delayed requests.
const LIMIT: usize = 100;

/// Maximum number of reconciles: the length of the history.
const MOST: usize = 256;

/// The selection and format of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) form: Form,
    pub(super) controller: Option<String>,
    pub(super) object: Option<String>,
    pub(super) failed: bool,
    pub(super) limit: Option<usize>,
    pub(super) refresh: Option<u32>,
}

/// The format of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Form {
    Html,
    #[default]
    Text,
    Json,
}

impl Query {
    /// Parses the query and `Accept` of a request, or returns the error.
    pub(super) fn parse(request: &request::Parts) -> Result<Self, String> {
        let accepted =
            request.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        let mut query = Self { form: Form::accepted(accepted), ..Self::default() };
        for (name, value) in form_urlencoded::parse(request.uri.query().unwrap_or_default().as_bytes()) {
            // A browser also sends empty form fields.
            if value.is_empty() {
                continue;
            }
            match &*name {
                "format" => query.form = Form::named(&value)?,
                "controller" => query.controller = Some(value.into_owned()),
                "object" => query.object = Some(value.into_owned()),
                "failed" => query.failed = matches!(&*value, "true" | "1" | "on"),
                "limit" => query.limit = Some(number(&name, &value, MOST)?),
                "refresh" => query.refresh = Some(number(&name, &value, 3600)?),
                _ => {
                    let known = "format, controller, object, failed, limit, refresh";
                    return Err(format!("there is no {name:?} to ask for: use some of {known}"));
                }
            }
        }
        Ok(query)
    }

    /// Applies the selection to a report. Problems stay.
    pub(super) fn select(&self, mut report: Report) -> Report {
        if let Some(controller) = &self.controller {
            report.controllers.retain(|report| report.name == *controller);
            report.running.retain(|report| report.controller == *controller);
            report.delayed.retain(|report| report.controller == *controller);
            report.delayed_count = report.controllers.iter().map(|controller| controller.delayed).sum();
            report.reconciles.retain(|report| report.controller == *controller);
        }
        if let Some(object) = &self.object {
            report.running.retain(|report| is_object(&report.object, object));
            report.delayed.retain(|report| is_object(&report.object, object));
            report.reconciles.retain(|report| is_object(&report.object, object));
        }
        if self.failed {
            report.reconciles.retain(|report| report.is_failure);
        }
        report.reconciles.truncate(self.limit());
        report.delayed.truncate(self.limit());
        report
    }

    /// Whether the selection hides anything.
    pub(super) fn is_narrow(&self) -> bool {
        self.controller.is_some() || self.object.is_some() || self.failed
    }

    /// Maximum number of reconciles.
    pub(super) fn limit(&self) -> usize {
        self.limit.unwrap_or(LIMIT)
    }

    /// The query string for a link.
    pub(super) fn encode(&self) -> String {
        let mut encoded = form_urlencoded::Serializer::for_suffix("?".to_owned(), 1);
        let mut put = |name: &str, value: Option<&str>| {
            value.map(|value| encoded.append_pair(name, value));
        };
        put("controller", self.controller.as_deref());
        put("object", self.object.as_deref());
        put("failed", self.failed.then_some("true"));
        put("limit", self.limit.map(|limit| limit.to_string()).as_deref());
        put("refresh", self.refresh.map(|refresh| refresh.to_string()).as_deref());
        encoded.finish()
    }
}

impl Form {
    /// The format that a client accepts: browsers name HTML, `curl` none.
    fn accepted(accept: &str) -> Self {
        let ranges = accept.split(',').map(|range| range.split(';').next().unwrap_or_default().trim());
        let known = ranges.filter_map(|range| match range {
            "text/html" | "application/xhtml+xml" => Some(Self::Html),
            "application/json" => Some(Self::Json),
            "text/plain" | "*/*" => Some(Self::Text),
            _ => None,
        });
        known.into_iter().next().unwrap_or_default()
    }

    fn named(name: &str) -> Result<Self, String> {
        match name {
            "html" => Ok(Self::Html),
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(format!("there is no format {name:?}: use html, text or json")),
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Html => "text/html; charset=utf-8",
            Self::Text => "text/plain; charset=utf-8",
            Self::Json => "application/json",
        }
    }
}

fn is_object(object: &str, wanted: &str) -> bool {
    object == wanted || object.split_once('/').is_some_and(|(_, name)| name == wanted)
}

fn number<N: TryFrom<usize>>(name: &str, value: &str, most: usize) -> Result<N, String> {
    let number = value.parse().ok().filter(|number| (1..=most).contains(number));
    number
        .and_then(|number: usize| N::try_from(number).ok())
        .ok_or_else(|| format!("{name}={value:?} makes no sense: use a number from 1 to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &str, accept: &str) -> Result<Query, String> {
        let request = http::Request::get(format!("/debug{query}")).header(ACCEPT, accept).body(()).unwrap();
        Query::parse(&request.into_parts().0)
    }

    #[test]
    fn browsers_get_html_and_other_clients_their_accepted_format() {
        let form = |query, accept| parse(query, accept).unwrap().form;
        assert_eq!(form("", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"), Form::Html);
        assert_eq!(form("", "*/*"), Form::Text);
        assert_eq!(form("", ""), Form::Text);
        assert_eq!(form("", "application/json"), Form::Json);
        assert_eq!(form("?format=json", "text/html"), Form::Json);
    }

    #[test]
    fn a_query_survives_the_round_trip() {
        let text = "?controller=foo&object=default%2Fa+b&failed=true&limit=7&refresh=5";
        let query = parse(text, "").unwrap();
        assert_eq!(query.object.as_deref(), Some("default/a b"));
        assert_eq!(query.encode(), text);
        assert_eq!(parse("?controller=&object=&limit=", "").unwrap(), Query::default());
    }

    #[test]
    fn invalid_queries_are_refused_with_a_message() {
        let refused = |query| parse(query, "").unwrap_err();
        assert_eq!(refused("?limit=0"), r#"limit="0" makes no sense: use a number from 1 to 256"#);
        assert_eq!(refused("?limit=257"), r#"limit="257" makes no sense: use a number from 1 to 256"#);
        assert_eq!(refused("?format=xml"), r#"there is no format "xml": use html, text or json"#);
        assert!(refused("?namespace=a").starts_with(r#"there is no "namespace" to ask for"#));
    }
}
