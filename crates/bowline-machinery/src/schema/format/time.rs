//! Dates, times and durations, as Go parses them.

use crate::calendar;
use std::sync::LazyLock;

use regex::Regex;

/// `2006-01-02`
pub(super) fn is_date(text: &str) -> bool {
    date(text).is_some()
}

/// A date and a time with a zone. Text after a second `t` is ignored.
pub(super) fn is_date_time(text: &str) -> bool {
    #[expect(clippy::expect_used, reason = "the pattern is a constant")]
    static TIME: LazyLock<Regex> = LazyLock::new(|| {
        let pattern = "^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";
        Regex::new(pattern).expect("a valid pattern")
    });
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (Some(first), Some(second)) = (parts.next(), parts.next()) else { return false };
    let Some(found) = TIME.captures(second) else { return false };
    is_date(first) && &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59"
}

/// A duration of Go, or a text that contains a number and a unit: `3 days`.
pub(super) fn is_duration(text: &str) -> bool {
    #[expect(clippy::expect_used, reason = "the pattern is a constant")]
    static PART: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("([0-9]+)[\\t\\n\\f\\r ]*([A-Za-zµ]+)").expect("a valid pattern"));
    if is_go_duration(text) {
        return true;
    }
    let mut is_known = false;
    for part in PART.captures_iter(text) {
        if part[1].parse::<i64>().is_err() {
            return false;
        }
        is_known |= is_unit(&part[2].to_lowercase());
    }
    is_known
}

fn is_unit(unit: &str) -> bool {
    const EXACT: [&str; 13] = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk", "μs", "min"];
    const PREFIXES: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    EXACT.contains(&unit) || PREFIXES.iter().any(|prefix| unit.starts_with(prefix))
}

/// `-1.5h30m`
fn is_go_duration(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    if text == "0" {
        return true;
    }
    let mut rest = text;
    let mut total = 0.0_f64;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, behind) = rest.split_at(number_end);
        let unit_end = behind.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(unit_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let is_number = !(fraction.contains('.') || whole.is_empty() && fraction.is_empty());
        let nanoseconds = match unit {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 6e10,
            "h" => 3.6e12,
            _ => return false,
        };
        total += nanoseconds * number.parse::<f64>().unwrap_or(0.0);
        if !is_number || total >= 9.223_372_036_854_776e18 {
            return false;
        }
        rest = behind;
    }
    !text.is_empty()
}

/// A time of RFC 3339, in whole seconds and in UTC.
pub(in crate::schema) fn rfc3339_in_utc(text: &str) -> Option<String> {
    let (day, clock) = text.split_once('T')?;
    let (year, month, day) = date(day)?;
    let zone_at = clock.find(['Z', '+', '-'])?;
    let (clock, zone) = clock.split_at(zone_at);
    let (clock, fraction) = clock.split_once(['.', ',']).unwrap_or((clock, "0"));
    let mut parts = clock.split(':');
    let mut part = |limit| two_digits(parts.next()?).filter(|number| *number < limit);
    let (hour, minute, second) = (part(24)?, part(60)?, part(60)?);
    let is_fraction = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if parts.next().is_some() || !is_fraction {
        return None;
    }
    let offset = match zone.split_at_checked(1)? {
        ("Z", "") => 0,
        (sign, zone) => {
            let (hours, minutes) = zone.split_once(':')?;
            let minutes = two_digits(hours).filter(|hours| *hours <= 24)? * 60
                + two_digits(minutes).filter(|minutes| *minutes < 60)?;
            if sign == "-" { -minutes } else { minutes }
        }
    };
    let minutes = hour * 60 + minute - offset;
    let days = calendar::days_since_1970(year, i64::from(month), i64::from(day));
    let (year, month, day) = calendar::date(days + i64::from(minutes.div_euclid(24 * 60)));
    let (hour, minute) = (minutes.rem_euclid(24 * 60) / 60, minutes.rem_euclid(60));
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"))
}

fn two_digits(text: &str) -> Option<i32> {
    (text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

fn date(text: &str) -> Option<(i64, i32, i32)> {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' || !text.is_ascii() {
        return None;
    }
    let year: i64 = text[..4].bytes().all(|byte| byte.is_ascii_digit()).then(|| text[..4].parse().ok())??;
    let month = two_digits(&text[5..7]).filter(|month| (1..=12).contains(month))?;
    let length = calendar::days_in_month(year, i64::from(month));
    let day = two_digits(&text[8..]).filter(|day| (1..=length).contains(&i64::from(*day)))?;
    Some((year, month, day))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_brought_to_utc() {
        let rows = [
            ("2020-01-02T03:04:05Z", Some("2020-01-02T03:04:05Z")),
            ("2020-01-01T00:30:00.5+01:00", Some("2019-12-31T23:30:00Z")),
            ("2020-02-28T23:30:00-01:00", Some("2020-02-29T00:30:00Z")),
            ("2021-02-28T23:30:00-01:00", Some("2021-03-01T00:30:00Z")),
            ("2021-02-29T00:00:00Z", None),
            ("2021-01-01T24:00:00Z", None),
            ("2021-01-01", None),
        ];
        for (text, expected) in rows {
            assert_eq!(rfc3339_in_utc(text).as_deref(), expected, "{text}");
        }
    }
}
