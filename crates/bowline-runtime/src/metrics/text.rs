//! Prometheus's text form, version 0.0.4, made from that of `OpenMetrics`: all that is written in this registry knows the
//! second only.

use std::borrow::Cow;

/// Writes in the text form what is there in the form of `OpenMetrics`. What differs:
/// - a counter is called as its samples are, with `_total`, and an info is a gauge with `_info`,
/// - there are no units, no exemplars and no end mark,
/// - a family without samples is left out, as Prometheus's own clients do.
pub(super) fn from_open_metrics(open: &str) -> String {
    let mut text = String::with_capacity(open.len());
    let mut help = "";
    let mut header = None;
    for line in open.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            help = described;
        } else if let Some(typed) = line.strip_prefix("# TYPE ") {
            header = typed.split_once(' ').map(|(name, kind)| (name, kind, help));
        } else if !line.starts_with('#') && !line.is_empty() {
            if let Some((name, kind, help)) = header.take() {
                let (name, kind) = renamed(name, kind);
                let help = help.split_once(' ').map_or("", |(_, help)| help);
                text.extend(["# HELP ", &name, " ", help, "\n# TYPE ", &name, " ", kind, "\n"]);
            }
            text.extend([without_exemplar(line), "\n"]);
        }
    }
    text
}

/// What a family is called in the text form, and its type.
fn renamed<'a>(name: &'a str, kind: &'a str) -> (Cow<'a, str>, &'a str) {
    match kind {
        "counter" => (format!("{name}_total").into(), kind),
        "info" => (format!("{name}_info").into(), "gauge"),
        "unknown" => (name.into(), "untyped"),
        _ => (name.into(), kind),
    }
}

/// A sample without what comes behind its value.
fn without_exemplar(line: &str) -> &str {
    // Labels may contain anything, so the mark counts only behind them.
    let mut is_quoted = false;
    let mut is_escaped = false;
    let mark = line.char_indices().find(|(_, character)| {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            '#' => return !is_quoted,
            _ => {}
        }
        false
    });
    mark.map_or(line, |(at, _)| line[..at].trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_keep_their_suffix_and_only_what_the_form_knows_is_left() {
        let open = "# HELP jobs Jobs: # and \\\\.\n# TYPE jobs counter\njobs_total{of=\"a # \\\" b\"} 3 # {trace=\"x\"} 1.0\n\
                    # HELP size_bytes Size.\n# TYPE size_bytes gauge\n# UNIT size_bytes bytes\nsize_bytes 5\n\
                    # HELP empty Nothing.\n# TYPE empty gauge\n\
                    # HELP build Build.\n# TYPE build info\nbuild_info{version=\"1\"} 1\n\
                    # HELP odd Odd.\n# TYPE odd unknown\nodd 1\n# EOF\n";
        let text = "# HELP jobs_total Jobs: # and \\\\.\n# TYPE jobs_total counter\njobs_total{of=\"a # \\\" b\"} 3\n\
                    # HELP size_bytes Size.\n# TYPE size_bytes gauge\nsize_bytes 5\n\
                    # HELP build_info Build.\n# TYPE build_info gauge\nbuild_info{version=\"1\"} 1\n\
                    # HELP odd Odd.\n# TYPE odd untyped\nodd 1\n";
        assert_eq!(from_open_metrics(open), text);
        assert_eq!(from_open_metrics("# EOF\n"), "");
    }
}
