//! A strict parser of Prometheus' text format, version 0.0.4, and of `OpenMetrics` 1.0.

use std::collections::{BTreeMap, BTreeSet};

/// A family of metrics.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) kind: String,
    pub(crate) samples: Vec<Sample>,
}

#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

impl Family {
    /// The names of all labels, without those of histogram buckets.
    pub(crate) fn labels(&self) -> BTreeSet<&str> {
        let labels = self.samples.iter().flat_map(|sample| sample.labels.keys().map(String::as_str));
        labels.filter(|label| self.kind != "histogram" || *label != "le").collect()
    }

    /// The bounds of the first histogram, as text.
    pub(crate) fn bounds(&self) -> String {
        let bounds = self.samples.iter().filter_map(|sample| sample.labels.get("le").map(String::as_str));
        let mut bounds: Vec<_> = bounds.collect();
        bounds.truncate(bounds.iter().position(|bound| *bound == "+Inf").map_or(0, |last| last + 1));
        bounds.join(",")
    }

    /// The value of the sample with these labels.
    pub(crate) fn value(&self, labels: &[(&str, &str)]) -> Option<f64> {
        let has = |sample: &&Sample| {
            labels.iter().all(|(name, value)| sample.labels.get(*name).is_some_and(|it| it == value))
        };
        self.samples.iter().find(has).map(|sample| sample.value)
    }
}

/// Parses a text; panics if it violates the format.
pub(crate) fn read(text: &str) -> BTreeMap<String, Family> {
    let families = read_form(text, false);
    for (name, family) in &families {
        assert!(!family.samples.is_empty(), "{name} is empty");
    }
    families
}

/// Parses `OpenMetrics`. Families may be empty, and counters' families have no suffix.
pub(crate) fn read_open(text: &str) -> BTreeMap<String, Family> {
    let text = text.strip_suffix("# EOF\n").expect("it ends with a mark");
    let families = read_form(text, true);
    for bound in families.values().flat_map(|family| &family.samples).filter_map(|it| it.labels.get("le")) {
        assert!(bound == "+Inf" || bound.contains(['.', 'e']), "a bound is not an integer: {bound}");
    }
    families
}

fn read_form(text: &str, is_open: bool) -> BTreeMap<String, Family> {
    let kinds: &[&str] = if is_open {
        &["counter", "gauge", "histogram", "summary", "unknown", "info", "stateset", "gaugehistogram"]
    } else {
        &["counter", "gauge", "histogram", "summary", "untyped"]
    };
    assert!(text.is_empty() || text.ends_with('\n'), "the last line has to end");
    let mut families = BTreeMap::new();
    let mut described: Option<&str> = None;
    let mut current: Option<String> = None;
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap_or_else(|| panic!("no help: {line}"));
            assert!(is_name(name) && !help.is_empty(), "{line}");
            let mut rest = help.replace("\\\\", "").replace("\\n", "");
            if is_open {
                rest = rest.replace("\\\"", "");
                assert!(!rest.contains('"'), "a quote: {line}");
            }
            assert!(!rest.contains('\\'), "an unknown escape: {line}");
            described = Some(name);
        } else if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (name, kind) = typed.split_once(' ').unwrap_or_else(|| panic!("no type: {line}"));
            assert_eq!(described.take(), Some(name), "help and type belong together");
            assert!(kinds.contains(&kind), "{line}");
            let family = Family { kind: kind.to_owned(), samples: Vec::new() };
            assert!(families.insert(name.to_owned(), family).is_none(), "{name} is there twice");
            current = Some(name.to_owned());
        } else if let Some(measured) = line.strip_prefix("# UNIT ").filter(|_| is_open) {
            let (name, unit) = measured.split_once(' ').unwrap_or_else(|| panic!("no unit: {line}"));
            assert!(current.as_deref() == Some(name) && name.ends_with(&format!("_{unit}")), "{line}");
        } else {
            assert!(!line.starts_with('#'), "there is nothing else: {line}");
            let name = current.as_ref().unwrap_or_else(|| panic!("no type before {line}"));
            let family = families.get_mut(name).expect("it was put there");
            let sample = read_sample(line);
            assert!(belongs(name, &family.kind, &sample.name, is_open), "{} is not of {name}", sample.name);
            let is_twice =
                family.samples.iter().any(|it| it.name == sample.name && it.labels == sample.labels);
            assert!(!is_twice, "there twice: {line}");
            family.samples.push(sample);
        }
    }
    for (name, family) in &families {
        check(name, family);
    }
    families
}

fn belongs(family: &str, kind: &str, sample: &str, is_open: bool) -> bool {
    match kind {
        "histogram" => ["_bucket", "_sum", "_count"].iter().any(|end| sample == format!("{family}{end}")),
        "counter" if is_open => ["_total", "_created"].iter().any(|end| sample == format!("{family}{end}")),
        "info" => sample == format!("{family}_info"),
        "counter" => sample == family && sample.ends_with("_total"),
        _ => sample == family,
    }
}

/// Checks the samples of a family against each other.
fn check(name: &str, family: &Family) {
    if family.kind == "counter" {
        assert!(family.samples.iter().all(|sample| sample.value >= 0.0), "{name} is negative");
    }
    if family.kind != "histogram" {
        return;
    }
    let mut series: BTreeMap<BTreeMap<String, String>, Vec<(f64, f64)>> = BTreeMap::new();
    for sample in family.samples.iter().filter(|sample| sample.name.ends_with("_bucket")) {
        let mut labels = sample.labels.clone();
        let bound = labels.remove("le").unwrap_or_else(|| panic!("a bucket of {name} without a bound"));
        series.entry(labels).or_default().push((read_value(&bound), sample.value));
    }
    assert!(!series.is_empty() || family.samples.is_empty(), "{name} has no buckets");
    for (labels, buckets) in series {
        assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{name}{labels:?}: {buckets:?}");
        let (bound, all) = buckets.last().copied().expect("there is one");
        assert!(bound == f64::INFINITY, "{name}{labels:?}: the last bucket is for all");
        let count = family.samples.iter().find(|it| it.name.ends_with("_count") && it.labels == labels);
        assert!(
            count.is_some_and(|count| count.value.total_cmp(&all).is_eq()),
            "{name}{labels:?}: the count is that of all"
        );
        let has_sum = family.samples.iter().any(|it| it.name.ends_with("_sum") && it.labels == labels);
        assert!(has_sum, "{name}{labels:?}: no sum");
    }
}

fn read_sample(line: &str) -> Sample {
    let end = line.find(['{', ' ']).unwrap_or_else(|| panic!("no value: {line}"));
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let mut labels = BTreeMap::new();
    if let Some(list) = rest.strip_prefix('{') {
        rest = read_labels(list, &mut labels, line);
    }
    let value = rest.strip_prefix(' ').unwrap_or_else(|| panic!("no space before the value: {line}"));
    Sample { name: name.to_owned(), labels, value: read_value(value) }
}

/// Parses labels. Returns the rest of the line.
fn read_labels<'l>(mut rest: &'l str, labels: &mut BTreeMap<String, String>, line: &str) -> &'l str {
    loop {
        if let Some(rest) = rest.strip_prefix('}') {
            return rest;
        }
        let (name, behind) =
            rest.split_once("=\"").unwrap_or_else(|| panic!("a label without a value: {line}"));
        assert!(is_name(name) && !name.contains(':'), "{line}");
        let mut value = String::new();
        let mut characters = behind.char_indices();
        let end = loop {
            let (at, character) = characters.next().unwrap_or_else(|| panic!("an open quote: {line}"));
            match character {
                '"' => break at,
                '\\' => match characters.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, escaped @ ('\\' | '"'))) => value.push(escaped),
                    other => panic!("an unknown escape {other:?}: {line}"),
                },
                other => value.push(other),
            }
        };
        assert!(labels.insert(name.to_owned(), value).is_none(), "{name} is there twice: {line}");
        rest = &behind[end + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
}

fn read_value(value: &str) -> f64 {
    match value {
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        "NaN" => f64::NAN,
        _ => value
            .parse()
            .ok()
            .filter(|value: &f64| value.is_finite())
            .unwrap_or_else(|| panic!("no value: {value}")),
    }
}

fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    !name.is_empty() && name.chars().all(is_part) && !name.starts_with(|c: char| c.is_ascii_digit())
}
