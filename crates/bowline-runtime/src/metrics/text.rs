//! The text format 0.0.4 of Prometheus, converted from `OpenMetrics`, the only format that the registry writes.

use std::borrow::Cow;

/// Converts the `OpenMetrics` format to the text format. Differences:
/// - a counter has the name of its samples, with `_total`, and an info is a gauge with `_info`,
/// - there are no units, no exemplars and no end mark,
/// - a family without samples is omitted, as in Prometheus's own clients.
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

/// The name and type of a family in the text format.
fn renamed<'a>(name: &'a str, kind: &'a str) -> (Cow<'a, str>, &'a str) {
    match kind {
        "counter" => (format!("{name}_total").into(), kind),
        "info" => (format!("{name}_info").into(), "gauge"),
        "unknown" => (name.into(), "untyped"),
        _ => (name.into(), kind),
    }
}

/// A sample without the exemplar after its value.
fn without_exemplar(line: &str) -> &str {
    // Labels may contain any text, so the mark counts only after them.
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
    fn counters_keep_their_suffix_and_unsupported_parts_are_dropped() {
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
