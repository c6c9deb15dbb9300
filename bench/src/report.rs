//! Report of the runs: medians, paired ratios and targets, as lines of JSON or as a table.

use std::fmt;

use serde::Serialize;

use crate::subject::{OURS, Runs};

/// A measured quantity and its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
}

/// Target of a ratio between ours and a peer's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Target {
    AtLeast(f64),
    AtMost(f64),
}

/// One metric of one variant of the work, with a value per subject and run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) variant: String,
    pub(crate) metric: Metric,
    /// Key in the JSON object that a run prints.
    pub(crate) key: String,
    pub(crate) compared: Compared,
    /// Key of another row of ours to compare with.
    pub(crate) own: Option<String>,
    /// Absolute maximum of ours, for rows that are not ratios.
    pub(crate) at_most: Option<f64>,
    /// Targets by the names of peers; under our own name, the one for [`own`](Self::own).
    pub(crate) targets: Vec<(&'static str, Target)>,
}

/// Row of a peer that a row is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    /// The same row, which peers have too.
    Same,
    /// The row of another variant with the same metric, since peers lack this one.
    With(String),
    /// No row: peers have no comparable one.
    Nothing,
}

/// One workload of a scenario, after all subjects ran it.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) scenario: &'static str,
    pub(crate) rows: Vec<Row>,
    /// Ours first, then the peers.
    pub(crate) runs: Vec<Runs>,
}

#[derive(Serialize)]
struct Line<'a> {
    scenario: &'a str,
    subject: &'a str,
    variant: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    against: Option<&'a str>,
    metric: &'a str,
    value: f64,
    unit: &'a str,
    n: usize,
    runs: Vec<f64>,
}

impl Row {
    /// Whether runs of this subject have a value of it.
    pub(crate) fn is_of(&self, subject: &str) -> bool {
        self.compared == Compared::Same || subject == OURS
    }

    /// Whether the table has a line of this subject. A peer has one also if ours is compared with another variant.
    fn is_shown_of(&self, subject: &str) -> bool {
        self.compared != Compared::Nothing || subject == OURS
    }

    fn against(&self) -> Option<&str> {
        match &self.compared {
            Compared::Same | Compared::Nothing => None,
            Compared::With(variant) => Some(variant),
        }
    }

    fn target(&self, peer: &str) -> Option<Target> {
        self.targets.iter().find(|(name, _)| *name == peer).map(|(_, target)| *target)
    }
}

impl Target {
    pub(crate) fn is_met_by(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(bound) => ratio >= bound,
            Self::AtMost(bound) => ratio <= bound,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(bound) => write!(f, "≥ {bound}×"),
            Self::AtMost(bound) => write!(f, "≤ {bound}×"),
        }
    }
}

/// A row of every subject, whose key is the metric.
pub(crate) fn row(variant: &str, metric: Metric, targets: &[(&'static str, Target)]) -> Row {
    Row {
        variant: variant.to_owned(),
        metric,
        key: metric.name.to_owned(),
        compared: Compared::Same,
        own: None,
        at_most: None,
        targets: targets.to_vec(),
    }
}

impl Report {
    /// One JSON object a line, for each row and subject that has a run.
    pub(crate) fn json_lines(&self) -> String {
        let mut text = String::new();
        for row in &self.rows {
            for subject in self.runs.iter().filter(|runs| row.is_of(runs.subject)) {
                let runs: Vec<_> = subject.values(&row.key).flatten().collect();
                let Some(value) = median(&runs) else { continue };
                let line = Line {
                    scenario: self.scenario,
                    subject: subject.subject,
                    variant: &row.variant,
                    against: row.against().or_else(|| self.own_variant(row)),
                    metric: row.metric.name,
                    value,
                    unit: row.metric.unit,
                    n: runs.len(),
                    runs,
                };
                text += &serde_json::to_string(&line).expect("strings and numbers are always JSON");
                text.push('\n');
            }
        }
        text
    }

    /// Median and runs of every subject, and the paired ratios of ours to each peer's, beside the row's target for
    /// that peer.
    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        let mut variant = None;
        for row in &self.rows {
            if variant != Some(&row.variant) {
                text += &row.variant;
                text.push('\n');
                variant = Some(&row.variant);
            }
            let title = format!("{} ({})", row.metric.name, row.metric.unit);
            line(&mut text, &title, "median", ["runs".to_owned()], "");
            let key = self.peers_key(row);
            for subject in self.runs.iter().filter(|runs| row.is_shown_of(runs.subject)) {
                let (key, of) = match row.against() {
                    Some(variant) if subject.subject != OURS => (key, format!(" ({variant})")),
                    _ => (row.key.as_str(), String::new()),
                };
                let values: Vec<_> = subject.values(key).collect();
                let label = format!("  {}{of}", subject.subject);
                let median = median_of_some(&values);
                let bound = row.at_most.filter(|_| subject.subject == OURS);
                let verdict = bound.map(|bound| bounded(median, bound)).unwrap_or_default();
                line(&mut text, &label, &number(median), values.into_iter().map(number), &verdict);
            }
            let Some((ours, peers)) = self.runs.split_first() else { continue };
            for peer in peers.iter().filter(|peer| row.is_shown_of(peer.subject)) {
                let ratios = paired_ratios(ours.values(&row.key), peer.values(key));
                let ratio = median_of_some(&ratios);
                let label = format!("  ours / {}", peer.subject);
                let verdict = verdict(ratio, row.target(peer.subject));
                line(&mut text, &label, &times(ratio), ratios.into_iter().map(times), &verdict);
            }
            if let Some(own) = self.own(row) {
                let ratios = paired_ratios(ours.values(&row.key), ours.values(&own.key));
                let ratio = median_of_some(&ratios);
                let what = if own.variant == row.variant { own.metric.name } else { &own.variant };
                let verdict = verdict(ratio, row.target(OURS));
                let label = format!("  ours / own {what}");
                line(&mut text, &label, &times(ratio), ratios.into_iter().map(times), &verdict);
            }
        }
        text
    }

    /// The other row of ours to compare with.
    fn own(&self, row: &Row) -> Option<&Row> {
        self.rows.iter().find(|other| Some(&other.key) == row.own.as_ref())
    }

    /// The variant of that row, if nothing else differs.
    fn own_variant(&self, row: &Row) -> Option<&str> {
        let own = self.own(row).filter(|own| own.metric == row.metric)?;
        Some(&own.variant)
    }

    /// Key in a peer's output that a row is compared with.
    fn peers_key<'a>(&'a self, row: &'a Row) -> &'a str {
        let other = row.against().and_then(|variant| {
            self.rows.iter().find(|other| other.variant == variant && other.metric == row.metric)
        });
        &other.unwrap_or(row).key
    }
}

/// The median; for an even count, the mean of the middle two.
fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let above = *sorted.get(sorted.len() / 2)?;
    let below = sorted[(sorted.len() - 1) / 2];
    Some(f64::midpoint(below, above))
}

fn median_of_some(values: &[Option<f64>]) -> Option<f64> {
    let present: Vec<_> = values.iter().copied().flatten().collect();
    median(&present)
}

/// Ratios of ours to the peer's in the same pair, under the same load of the machine, where both ran and the peer's is
/// not zero.
fn paired_ratios(
    ours: impl Iterator<Item = Option<f64>>,
    peers: impl Iterator<Item = Option<f64>>,
) -> Vec<Option<f64>> {
    let ratio =
        |(ours, peers): (Option<f64>, Option<f64>)| Some(ours? / peers?).filter(|ratio| ratio.is_finite());
    ours.zip(peers).map(ratio).collect()
}

fn verdict(ratio: Option<f64>, target: Option<Target>) -> String {
    match (ratio, target) {
        (_, None) => String::new(),
        (Some(ratio), Some(target)) if target.is_met_by(ratio) => format!("target {target} met"),
        (_, Some(target)) => format!("target {target} MISSED"),
    }
}

fn bounded(value: Option<f64>, bound: f64) -> String {
    let met = value.is_some_and(|value| value <= bound);
    format!("target ≤ {bound} {}", if met { "met" } else { "MISSED" })
}

fn line(text: &mut String, label: &str, median: &str, runs: impl IntoIterator<Item = String>, verdict: &str) {
    let runs: Vec<_> = runs.into_iter().map(|run| format!("{run:>11}")).collect();
    let line = format!("  {label:<28} {median:>11}   {}   {verdict}", runs.join(" "));
    *text += line.trim_end();
    text.push('\n');
}

/// A number for display, with at least four digits; all digits before the point are kept.
pub(crate) fn number(value: Option<f64>) -> String {
    match value {
        None => "failed".to_owned(),
        Some(value) if value < 10.0 => format!("{value:.3}"),
        Some(value) if value < 1000.0 => format!("{value:.1}"),
        Some(value) => {
            let digits = format!("{value:.0}");
            let mut grouped = String::new();
            for (i, digit) in digits.chars().enumerate() {
                if i > 0 && (digits.len() - i).is_multiple_of(3) {
                    grouped.push(',');
                }
                grouped.push(digit);
            }
            grouped
        }
    }
}

fn times(ratio: Option<f64>) -> String {
    match ratio {
        None => "none".to_owned(),
        Some(ratio) if ratio < 0.1 => format!("{ratio:.4}×"),
        Some(ratio) => format!("{ratio:.2}×"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::Measured;

    const KEYS: Metric = Metric { name: "keys_per_s", unit: "keys/s" };
    const CPU: Metric = Metric { name: "cpu_s", unit: "s" };

    fn row(metric: Metric) -> Row {
        super::row("waiting n=7", metric, &[])
    }

    fn report(rows: Vec<Row>, runs: &[(&'static str, &[Option<f64>])]) -> Report {
        let measured = |value: f64| rows.iter().map(|row| (row.key.clone(), value)).collect::<Measured>();
        let runs = runs
            .iter()
            .map(|(subject, values)| Runs {
                subject,
                pairs: values.iter().map(|v| v.map(measured)).collect(),
            })
            .collect();
        Report { scenario: "workqueue", rows, runs }
    }

    #[test]
    fn a_median_is_in_the_middle_whatever_the_order() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[9.0, 1.0, 2.0, 4.0]), Some(3.0));
    }

    #[test]
    fn ratios_are_taken_within_a_pair_and_only_where_both_ran() {
        let ours = [Some(6.0), Some(8.0), None, Some(1.0)];
        let peers = [Some(2.0), Some(16.0), Some(1.0), None];
        assert_eq!(paired_ratios(ours.into_iter(), peers.into_iter()), [Some(3.0), Some(0.5), None, None]);
    }

    #[test]
    fn a_target_is_met_on_its_bound_and_missed_beyond_it() {
        assert!(Target::AtLeast(2.5).is_met_by(2.5));
        assert!(!Target::AtLeast(2.5).is_met_by(2.49));
        assert!(Target::AtMost(0.6).is_met_by(0.6));
        assert!(!Target::AtMost(0.6).is_met_by(0.61));
    }

    #[test]
    fn a_target_without_a_single_pair_is_missed() {
        assert_eq!(verdict(None, Some(Target::AtLeast(3.0))), "target ≥ 3× MISSED");
        assert_eq!(verdict(Some(4.0), Some(Target::AtLeast(3.0))), "target ≥ 3× met");
        assert_eq!(verdict(Some(4.0), None), "");
    }

    #[test]
    fn a_json_line_has_the_median_and_all_runs() {
        let report = report(
            vec![row(KEYS)],
            &[("bowline", &[Some(3.0), Some(1.5), Some(2.0)]), ("client-go", &[None])],
        );
        assert_eq!(
            report.json_lines(),
            concat!(
                r#"{"scenario":"workqueue","subject":"bowline","variant":"waiting n=7","metric":"keys_per_s","#,
                r#""value":2.0,"unit":"keys/s","n":3,"runs":[3.0,1.5,2.0]}"#,
                "\n",
            )
        );
    }

    #[test]
    fn the_table_shows_runs_ratios_and_verdicts() {
        let targets = vec![("client-go", Target::AtLeast(2.5)), ("controller-runtime", Target::AtLeast(8.0))];
        let report = report(
            vec![Row { targets, ..row(KEYS) }, row(CPU)],
            &[
                ("bowline", &[Some(3_000_000.0), Some(2_000_000.0)]),
                ("client-go", &[Some(1_000_000.0), Some(1_000_000.0)]),
                ("controller-runtime", &[Some(500_000.0), None]),
            ],
        );
        let table = report.table();
        let keys: Vec<_> = table.lines().take(7).collect();
        assert_eq!(
            keys.join("\n"),
            "\
waiting n=7
  keys_per_s (keys/s)               median          runs
    bowline                      2,500,000     3,000,000   2,000,000
    client-go                    1,000,000     1,000,000   1,000,000
    controller-runtime             500,000       500,000      failed
    ours / client-go                 2.50×         3.00×       2.00×   target ≥ 2.5× met
    ours / controller-runtime        6.00×         6.00×        none   target ≥ 8× MISSED"
        );
        assert!(!table[keys.join("\n").len()..].contains("target"), "only what has a target is judged");
    }

    #[test]
    fn a_row_of_ours_alone_is_held_against_the_variant_it_names() {
        const READY: Metric = Metric { name: "ready_ms", unit: "ms" };
        let compared = Compared::With("waiting n=7".to_owned());
        let alone =
            Row { variant: "in-process".to_owned(), key: "in-process".to_owned(), compared, ..row(READY) };
        let targets = vec![("kube-apiserver", Target::AtMost(0.005))];
        let rows = vec![row(READY), Row { targets, ..alone }];
        let runs = |subject, values: &[(&str, f64)]| {
            let measured = values.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect();
            Runs { subject, pairs: vec![Some(measured)] }
        };
        let ours = runs("bowline", &[("ready_ms", 50.0), ("in-process", 1.0)]);
        let report = Report {
            scenario: "apiserver-start",
            rows,
            runs: vec![ours, runs("kube-apiserver", &[("ready_ms", 4e3)])],
        };
        let json = report.json_lines();
        let lines: Vec<_> = json.lines().collect();
        assert_eq!(lines.len(), 3, "{json}");
        assert!(
            lines[2].contains(
                r#""variant":"in-process","against":"waiting n=7","metric":"ready_ms","value":1.0"#
            )
        );
        assert!(!lines[0].contains("against"), "{json}");
        let table = report.table();
        let last: Vec<_> = table.lines().skip(5).map(str::trim_end).collect();
        assert_eq!(
            last.join("\n"),
            "\
in-process
  ready_ms (ms)                     median          runs
    bowline                          1.000         1.000
    kube-apiserver (waiting n=7)       4,000         4,000
    ours / kube-apiserver          0.0003×       0.0003×   target ≤ 0.005× met"
        );
    }

    #[test]
    fn a_row_can_be_held_against_another_of_ours() {
        const PEAK: Metric = Metric { name: "rss_peak_mib", unit: "MiB" };
        const SETTLED: Metric = Metric { name: "rss_settled_mib", unit: "MiB" };
        let own = |key: &str, at_most| (Some(key.to_owned()), vec![(OURS, Target::AtMost(at_most))]);
        let (settled, above_settled) = own("rss_settled_mib", 1.15);
        let (first, of_first) = own("cpu_s", 0.3);
        let relist = Row { variant: "relist n=7".to_owned(), key: "relist".to_owned(), ..row(CPU) };
        let rows = vec![
            row(CPU),
            Row { own: settled, targets: above_settled, ..row(PEAK) },
            row(SETTLED),
            Row { compared: Compared::Nothing, own: first, targets: of_first, ..relist },
        ];
        let runs = |subject, values: &[(&str, f64)]| {
            let measured = values.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect();
            Runs { subject, pairs: vec![Some(measured)] }
        };
        let common = [("cpu_s", 2.0), ("rss_peak_mib", 12.0), ("rss_settled_mib", 10.0)];
        let ours = runs("bowline", &[&common[..], &[("relist", 0.5)]].concat());
        let report = Report { scenario: "informer-sync", rows, runs: vec![ours, runs("kube-rs", &common)] };

        let json = report.json_lines();
        let lines: Vec<_> = json.lines().collect();
        assert_eq!(lines.len(), 7, "the relist is ours alone: {json}");
        assert!(
            lines[6].contains(r#""variant":"relist n=7","against":"waiting n=7","metric":"cpu_s""#),
            "{json}"
        );
        assert!(!lines[2].contains("against"), "another metric is no variant: {json}");
        let table = report.table();
        let has = |line: &str| table.lines().any(|l| l.trim_end() == line);
        assert!(
            has("    ours / own rss_settled_mib       1.20×         1.20×   target ≤ 1.15× MISSED"),
            "{table}"
        );
        assert!(
            has("    ours / own waiting n=7           0.25×         0.25×   target ≤ 0.3× met"),
            "{table}"
        );
        assert!(!table.contains("failed"), "a peer has no line where it has no run: {table}");
    }

    #[test]
    fn a_row_can_be_bounded_as_such_and_has_no_ratio_to_nothing() {
        const CONFLICTS: Metric = Metric { name: "conflicts", unit: "answers" };
        let bounded = Row { at_most: Some(0.0), ..row(CONFLICTS) };
        let report = report(
            vec![bounded],
            &[("bowline", &[Some(0.0), Some(0.0)]), ("client-go", &[Some(0.0), Some(4.0)])],
        );
        let table = report.table();
        let lines: Vec<_> = table.lines().skip(2).map(str::trim_start).collect();
        assert_eq!(
            lines,
            [
                "bowline                          0.000         0.000       0.000   target ≤ 0 met",
                "client-go                        2.000         0.000       4.000",
                "ours / client-go               0.0000×          none     0.0000×",
            ]
        );
        assert_eq!(super::bounded(Some(1.0), 0.0), "target ≤ 0 MISSED");
        assert_eq!(super::bounded(None, 0.0), "target ≤ 0 MISSED");
    }

    #[test]
    fn numbers_are_grouped_when_they_are_long() {
        assert_eq!(number(Some(0.1234)), "0.123");
        assert_eq!(number(Some(155.58)), "155.6");
        assert_eq!(number(Some(1000.0)), "1,000");
        assert_eq!(number(Some(12_345_678.4)), "12,345,678");
    }
}
