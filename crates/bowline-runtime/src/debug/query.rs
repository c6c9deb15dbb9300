//! What a request wants to see, and in which form.

use http::header::ACCEPT;
use http::request;

use super::report::Report;

/// How many reconciles are shown.
const LIMIT: usize = 100;

/// How many reconciles can be shown: as many as a journal keeps.
const MOST: usize = 256;

/// What a request wants to see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) form: Form,
    pub(super) controller: Option<String>,
    pub(super) object: Option<String>,
    pub(super) failed: bool,
    pub(super) limit: Option<usize>,
    pub(super) refresh: Option<u32>,
}

/// How a page is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Form {
    Html,
    #[default]
    Text,
    Json,
}

impl Query {
    /// What a request asks for, or what is wrong with that.
    pub(super) fn parse(request: &request::Parts) -> Result<Self, String> {
        let accepted =
            request.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        let mut query = Self { form: Form::accepted(accepted), ..Self::default() };
        for (name, value) in form_urlencoded::parse(request.uri.query().unwrap_or_default().as_bytes()) {
            // A form sends what was left empty too.
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

    /// What of a report is asked for. What needs attention stays.
    pub(super) fn select(&self, mut report: Report) -> Report {
        if let Some(controller) = &self.controller {
            report.controllers.retain(|report| report.name == *controller);
            report.running.retain(|report| report.controller == *controller);
            report.reconciles.retain(|report| report.controller == *controller);
        }
        if let Some(object) = &self.object {
            report.running.retain(|report| is_object(&report.object, object));
            report.reconciles.retain(|report| is_object(&report.object, object));
        }
        if self.failed {
            report.reconciles.retain(|report| report.is_failure);
        }
        report.reconciles.truncate(self.limit.unwrap_or(LIMIT));
        report
    }

    /// Whether less is shown than there is.
    pub(super) fn is_narrow(&self) -> bool {
        self.controller.is_some() || self.object.is_some() || self.failed
    }

    /// How many reconciles are shown.
    pub(super) fn limit(&self) -> usize {
        self.limit.unwrap_or(LIMIT)
    }

    /// The same as the query of a link.
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
    /// What a client accepts that there is: browsers name HTML, `curl` nothing.
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
    fn browsers_get_html_and_others_what_they_ask_for() {
        let form = |query, accept| parse(query, accept).unwrap().form;
        assert_eq!(form("", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"), Form::Html);
        assert_eq!(form("", "*/*"), Form::Text);
        assert_eq!(form("", ""), Form::Text);
        assert_eq!(form("", "application/json"), Form::Json);
        assert_eq!(form("?format=json", "text/html"), Form::Json);
    }

    #[test]
    fn a_query_is_read_and_written_alike() {
        let text = "?controller=foo&object=default%2Fa+b&failed=true&limit=7&refresh=5";
        let query = parse(text, "").unwrap();
        assert_eq!(query.object.as_deref(), Some("default/a b"));
        assert_eq!(query.encode(), text);
        assert_eq!(parse("?controller=&object=&limit=", "").unwrap(), Query::default());
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_words() {
        let refused = |query| parse(query, "").unwrap_err();
        assert_eq!(refused("?limit=0"), r#"limit="0" makes no sense: use a number from 1 to 256"#);
        assert_eq!(refused("?limit=257"), r#"limit="257" makes no sense: use a number from 1 to 256"#);
        assert_eq!(refused("?format=xml"), r#"there is no format "xml": use html, text or json"#);
        assert!(refused("?namespace=a").starts_with(r#"there is no "namespace" to ask for"#));
    }
}
