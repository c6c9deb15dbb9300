//! Durations as Go writes them: `15s`, `1m30s`, `1.5h`.

use std::time::Duration;

/// The units, the longer name before one that it ends with.
const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000), // U+00B5, micro sign
    ("μs", 1_000), // U+03BC, Greek letter mu
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Parses a duration. Fractions of a nanosecond are dropped.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let wrong = || "a duration is like 500ms, 15s, 1m30s or 1.5h".to_owned();
    if text.starts_with('-') {
        return Err("a duration cannot be negative".to_owned());
    }
    let mut rest = text;
    let mut sum = 0_u128;
    while !rest.is_empty() {
        let (number, after) = split(rest, |char| char.is_ascii_digit() || char == '.');
        let (unit, after) = split(after, |char| !char.is_ascii_digit() && char != '.');
        let (_, nanoseconds) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let part = times(number, *nanoseconds).ok_or_else(wrong)?;
        sum = sum.saturating_add(part);
        rest = after;
    }
    let too_long = || "the duration is too long".to_owned();
    match sum {
        0 if text.is_empty() => Err(wrong()),
        // Go's limit, about 292 years.
        sum => i64::try_from(sum).map(|sum| Duration::from_nanos(sum.unsigned_abs())).map_err(|_| too_long()),
    }
}

/// The beginning of a text, and the rest.
fn split(text: &str, begins: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|char| !begins(char)).unwrap_or(text.len()))
}

/// A decimal number of units.
fn times(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    // Further digits are less than a nanosecond in every unit.
    let fraction = &fraction[..fraction.len().min(18)];
    let digits = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<u128>().ok() };
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    digits(whole)?.checked_mul(unit)?.checked_add(digits(fraction)?.checked_mul(unit)? / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, nanoseconds) in [
            ("0", 0),
            ("0s", 0),
            ("15s", 15_000_000_000),
            ("1m30s", 90_000_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("5.s", 5_000_000_000),
            ("300ms", 300_000_000),
            ("2h45m0.5s", 9_900_500_000_000),
            ("1us2µs3μs4ns", 6_004),
            ("0.3333333333333333333333s", 333_333_333),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanoseconds)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        let wrong = "a duration is like 500ms, 15s, 1m30s or 1.5h";
        for text in ["", "15", "s", "15 s", "fifteen", "1d", "1.2.3s", ".s", "1m30", "+1s", "1e3s"] {
            assert_eq!(parse(text), Err(wrong.to_owned()), "{text}");
        }
        assert_eq!(parse("-5s").unwrap_err(), "a duration cannot be negative");
        assert_eq!(parse("2562048h").unwrap_err(), "the duration is too long");
        assert!(parse(&format!("{}h", "9".repeat(60))).is_err());
    }
}
