//! Negotiates the format of metrics.

use http::HeaderMap;
use http::header::ACCEPT;

/// A format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Prometheus' text format, version 0.0.4.
    Text,
    /// `OpenMetrics` 1.0.
    OpenMetrics,
}

impl Form {
    /// The format that the client prefers; of two with equal weight, the first one. Text by default.
    pub(super) fn preferred(headers: &HeaderMap) -> Self {
        let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let mut best = (0, Self::Text);
        for range in accepted.flat_map(|value| value.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let form = parts.next().and_then(Self::named);
            let (mut quality, mut is_known) = (1000, true);
            for (name, value) in parts.filter_map(|parameter| parameter.split_once('=')) {
                match name.trim().to_ascii_lowercase().as_str() {
                    "q" => quality = thousandths(value.trim()),
                    "version" if form == Some(Self::OpenMetrics) => {
                        is_known = matches!(value.trim().trim_matches('"'), "1.0.0" | "0.0.1");
                    }
                    _ => {}
                }
            }
            if let Some(form) = form.filter(|_| is_known)
                && quality > best.0
            {
                best = (quality, form);
            }
        }
        best.1
    }

    /// The format for a media range.
    fn named(range: &str) -> Option<Self> {
        match range.to_ascii_lowercase().as_str() {
            "*/*" | "text/*" | "text/plain" => Some(Self::Text),
            "application/openmetrics-text" => Some(Self::OpenMetrics),
            _ => None,
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A quality in thousandths; 0 if it is invalid.
fn thousandths(quality: &str) -> u16 {
    let quality = quality.parse::<f32>().ok().filter(|quality| (0.0..=1.0).contains(quality));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is from 0 to 1000")]
    quality.map_or(0, |quality| (quality * 1000.0).round() as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_gets_its_preferred_format() {
        use Form::{OpenMetrics, Text};
        for (accept, form) in [
            ("", Text),
            ("*/*", Text),
            ("application/json", Text),
            ("application/openmetrics-text", OpenMetrics),
            ("Application/OpenMetrics-Text; Version=1.0.0", OpenMetrics),
            ("application/openmetrics-text; version=2.0.0", Text),
            ("application/openmetrics-text; q=0", Text),
            ("application/openmetrics-text; q=nonsense", Text),
            ("application/openmetrics-text;q=0.5, text/plain", Text),
            ("text/plain;q=0.5, application/openmetrics-text", OpenMetrics),
            ("text/plain, application/openmetrics-text", Text),
            ("application/openmetrics-text, text/plain", OpenMetrics),
            // Sent by Prometheus 2 and 3.
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
                 text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                OpenMetrics,
            ),
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                 application/openmetrics-text;version=0.0.1;q=0.5,\
                 text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                OpenMetrics,
            ),
            (
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7,\
                 text/plain;version=0.0.4;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.4",
                Text,
            ),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]);
            assert_eq!(Form::preferred(&headers), form, "{accept}");
        }
        assert_eq!(Form::preferred(&HeaderMap::new()), Text);
    }
}
