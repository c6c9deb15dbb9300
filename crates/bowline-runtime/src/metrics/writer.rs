//! Fixes the output of prometheus-client: escapes help texts, and writes bucket bounds as Go's client does. Rules
//! compare a bound as text, so `le="1.0"` differs from `le="1"`.

use std::fmt;

/// Receives the output of prometheus-client. It comes in pieces; a help text and a bound are recognized by the pieces
/// before them. A test fails if that changes.
#[derive(Default)]
pub(super) struct Writer {
    text: String,
    /// In `OpenMetrics`, a bound is never an integer, and quotes in help texts are escaped.
    is_open: bool,
    next: Next,
}

/// The possible next piece.
#[derive(Default)]
enum Next {
    #[default]
    Anything,
    /// The name after `# HELP `, or a part of it.
    Name,
    Help,
    /// The value of the label `le`.
    Label,
    Bound,
}

impl Writer {
    pub(super) fn new(is_open: bool) -> Self {
        Self { is_open, ..Self::default() }
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    fn help(&mut self, help: &str) {
        for character in help.chars() {
            match character {
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                '"' if self.is_open => self.text.push_str("\\\""),
                other => self.text.push(other),
            }
        }
    }

    fn bound(&mut self, bound: &str) {
        match bound.parse::<f64>() {
            Ok(number) if number.is_finite() => {
                let number = shortest(number);
                self.text.push_str(&number);
                if self.is_open && !number.contains(['.', 'e']) {
                    self.text.push_str(".0");
                }
            }
            _ => self.text.push_str(bound),
        }
    }
}

impl fmt::Write for Writer {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        self.next = match (&self.next, piece) {
            (Next::Help, help) => {
                self.help(help);
                self.next = Next::Anything;
                return Ok(());
            }
            (Next::Bound, bound) => {
                self.bound(bound);
                self.next = Next::Anything;
                return Ok(());
            }
            (Next::Name, " ") => Next::Help,
            (Next::Name, _) => Next::Name,
            (Next::Label, "=\"") => Next::Bound,
            (_, "# HELP ") if self.text.is_empty() || self.text.ends_with('\n') => Next::Name,
            (_, "le") => Next::Label,
            _ => Next::Anything,
        };
        self.text.push_str(piece);
        Ok(())
    }
}

/// A number as Go prints it by default: the shortest digits, and an exponent of two digits below 0.0001 and from a
/// million on.
fn shortest(number: f64) -> String {
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::family::Family;
    use prometheus_client::metrics::histogram::Histogram;
    use prometheus_client::registry::{Registry, Unit};

    use super::*;

    /// The output of Go's `strconv.FormatFloat(number, 'g', -1, 64)`.
    #[test]
    fn numbers_are_written_as_by_go() {
        for (number, written) in [
            (0.0, "0"),
            (1.0, "1"),
            (-1.0, "-1"),
            (2.5, "2.5"),
            (60.0, "60"),
            (0.005, "0.005"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1e-8, "1e-08"),
            (10e-9 * 10.0 * 10.0 * 10.0, "9.999999999999999e-06"),
            (100_000.0, "100000"),
            (123_456.0, "123456"),
            (1_000_000.0, "1e+06"),
            (1_234_567.5, "1.2345675e+06"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
        ] {
            assert_eq!(shortest(number), written);
        }
    }

    #[test]
    fn help_texts_stay_on_their_line_and_bounds_are_those_of_go() {
        let mut registry = Registry::with_prefix_and_labels("app", [("of".into(), "me".into())].into_iter());
        let help = "A \"line\"\n# TYPE another \\n gauge";
        registry.register_with_unit("size", help, Unit::Bytes, Histogram::new([1e-8, 1.0, 2.5, 1e6]));
        let les = Family::<[(&str, &str); 1], Counter>::default();
        les.get_or_create(&[("of", "le")]).inc();
        registry.register("le", "# HELP ", les);
        let written = |is_open| {
            let mut writer = Writer::new(is_open);
            encode(&mut writer, &registry).unwrap();
            writer.finish()
        };
        let text = |help: &str, [first, second, last]: [&str; 3]| {
            format!(
                "# HELP app_size_bytes {help}\n# TYPE app_size_bytes histogram\n# UNIT app_size_bytes bytes\n\
                 app_size_bytes_sum{{of=\"me\"}} 0.0\napp_size_bytes_count{{of=\"me\"}} 0\n\
                 app_size_bytes_bucket{{of=\"me\",le=\"{first}\"}} 0\n\
                 app_size_bytes_bucket{{of=\"me\",le=\"{second}\"}} 0\n\
                 app_size_bytes_bucket{{of=\"me\",le=\"2.5\"}} 0\n\
                 app_size_bytes_bucket{{of=\"me\",le=\"{last}\"}} 0\n\
                 app_size_bytes_bucket{{of=\"me\",le=\"+Inf\"}} 0\n\
                 # HELP app_le # HELP .\n# TYPE app_le counter\napp_le_total{{of=\"me\",of=\"le\"}} 1\n# EOF\n"
            )
        };
        let help = r#"A "line"\n# TYPE another \\n gauge."#;
        assert_eq!(written(false), text(help, ["1e-08", "1", "1e+06"]));
        assert_eq!(written(true), text(&help.replace('"', "\\\""), ["1e-08", "1.0", "1e+06"]));
    }
}
