//! Values in readable form, and escaped text from outside.

use std::fmt::{self, Write};
use std::time::{Duration, SystemTime};

use k8s_openapi::jiff::Timestamp;

/// A duration with suitable precision: `420 µs`, `12 ms`, `3.2 s`, `4 m 05 s`, `3 h 12 m`, `5 d 3 h`.
pub(super) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if duration < Duration::from_millis(1) {
        format!("{} µs", duration.as_micros())
    } else if duration < Duration::from_secs(1) {
        format!("{} ms", duration.as_millis())
    } else if duration < Duration::from_secs(60) {
        format!("{:.1} s", duration.as_secs_f64())
    } else if seconds < 3600 {
        format!("{} m {:02} s", seconds / 60, seconds % 60)
    } else if seconds < 48 * 3600 {
        format!("{} h {:02} m", seconds / 3600, seconds % 3600 / 60)
    } else {
        format!("{} d {} h", seconds / 86400, seconds % 86400 / 3600)
    }
}

/// A time as RFC 3339, to the millisecond, in UTC.
pub(super) fn time(time: SystemTime) -> String {
    match Timestamp::try_from(time) {
        Ok(time) => format!("{time:.3}"),
        Err(_) => "unknown".to_owned(),
    }
}

/// A text from outside, escaped for HTML: between tags, or as an attribute in double quotes.
pub(super) struct Html<T>(pub(super) T);

/// A text from outside, as one line for a terminal.
pub(super) struct Line<T>(pub(super) T);

impl<T: fmt::Display> fmt::Display for Html<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f, Some(entity)), "{}", self.0)
    }
}

impl<T: fmt::Display> fmt::Display for Line<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f, None), "{}", self.0)
    }
}

struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>, Option<fn(char) -> Option<&'static str>>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            if let Some(entity) = self.1.and_then(|entity| entity(character)) {
                self.0.write_str(entity)?;
            } else if is_deceptive(character) {
                write!(self.0, "{}", character.escape_default())?;
            } else {
                self.0.write_char(character)?;
            }
        }
        Ok(())
    }
}

fn entity(character: char) -> Option<&'static str> {
    match character {
        '&' => Some("&amp;"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        '"' => Some("&quot;"),
        '\'' => Some("&#39;"),
        _ => None,
    }
}

/// Whether a character could disguise a text from outside, so that pages and logs escape it: control characters, text
/// direction, line separators, and characters without width.
#[must_use]
pub fn is_deceptive(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_suitable_precision() {
        let shown = |millis| duration(Duration::from_millis(millis));
        assert_eq!(duration(Duration::from_micros(420)), "420 µs");
        assert_eq!(shown(12), "12 ms");
        assert_eq!(shown(3_249), "3.2 s");
        assert_eq!(shown(245_000), "4 m 05 s");
        assert_eq!(shown(3 * 3_600_000 + 12 * 60_000), "3 h 12 m");
        assert_eq!(shown(123 * 3_600_000), "5 d 3 h");
    }

    #[test]
    fn text_from_outside_is_neither_markup_nor_a_command() {
        let evil = "<a href=\"x\">&'\n\u{1b}[31m\u{202e}\u{200b}";
        assert_eq!(
            Html(evil).to_string(),
            "&lt;a href=&quot;x&quot;&gt;&amp;&#39;\\n\\u{1b}[31m\\u{202e}\\u{200b}"
        );
        assert_eq!(Line(evil).to_string(), "<a href=\"x\">&'\\n\\u{1b}[31m\\u{202e}\\u{200b}");
    }
}
