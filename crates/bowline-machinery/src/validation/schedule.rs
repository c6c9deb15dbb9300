//! Cron schedules: five fields, or a predefined word.

/// A field: its minimum and maximum, and its names for numbers.
struct Field {
    least: u32,
    greatest: u32,
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field { least: 0, greatest: 59, names: &[] },
    Field { least: 0, greatest: 23, names: &[] },
    Field { least: 1, greatest: 31, names: &[] },
    Field {
        least: 1,
        greatest: 12,
        names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    Field { least: 0, greatest: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];

/// Validates a schedule. The error is that of the parser in Kubernetes.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    let schedule = match schedule.strip_prefix("TZ=").or_else(|| schedule.strip_prefix("CRON_TZ=")) {
        Some(rest) => rest.split_once(' ').map_or("", |(_, schedule)| schedule).trim(),
        None => schedule,
    };
    if schedule.starts_with('@') {
        return word(schedule);
    }
    let parts: Vec<_> = schedule.split_whitespace().collect();
    if parts.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", parts.len(), parts.join(" ")));
    }
    for (part, field) in parts.iter().zip(&FIELDS) {
        for range in part.split(',').filter(|range| !range.is_empty()) {
            field.check(range)?;
        }
    }
    Ok(())
}

fn word(word: &str) -> Result<(), String> {
    match word {
        "@yearly" | "@annually" | "@monthly" | "@weekly" | "@daily" | "@midnight" | "@hourly" => Ok(()),
        _ => match word.strip_prefix("@every ") {
            Some(duration) if is_duration(duration) => Ok(()),
            Some(duration) => {
                Err(format!("failed to parse duration {word}: time: invalid duration {duration:?}"))
            }
            None => Err(format!("unrecognized descriptor: {word}")),
        },
    }
}

/// Whether a text is a duration of Go: `1h30m`.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let digits = rest.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
        if digits.len() == rest.len() {
            return false;
        }
        let unit = ["ns", "us", "µs", "ms", "s", "m", "h"].iter().filter(|unit| digits.starts_with(**unit));
        let Some(unit) = unit.max_by_key(|unit| unit.len()) else { return false };
        rest = &digits[unit.len()..];
    }
    true
}

impl Field {
    /// Checks a number, a range, or `*`, with an optional step.
    fn check(&self, range: &str) -> Result<(), String> {
        let steps: Vec<_> = range.split('/').collect();
        let ends: Vec<_> = steps[0].split('-').collect();
        let (mut start, mut end) = (self.least, self.greatest);
        let all = matches!(ends[0], "*" | "?");
        if !all {
            start = self.number(ends[0])?;
            end = match ends.as_slice() {
                [_] => start,
                [_, end] => self.number(end)?,
                _ => return Err(format!("too many hyphens: {range}")),
            };
        }
        let step = match steps.as_slice() {
            [_] => 1,
            [_, step] => {
                if !all && ends.len() == 1 {
                    end = self.greatest;
                }
                number(step)?
            }
            _ => return Err(format!("too many slashes: {range}")),
        };
        if start < self.least {
            return Err(format!("beginning of range ({start}) below minimum ({}): {range}", self.least));
        }
        if end > self.greatest {
            return Err(format!("end of range ({end}) above maximum ({}): {range}", self.greatest));
        }
        if start > end {
            return Err(format!("beginning of range ({start}) beyond end of range ({end}): {range}"));
        }
        if step == 0 {
            return Err(format!("step of range should be a positive number: {range}"));
        }
        Ok(())
    }

    fn number(&self, text: &str) -> Result<u32, String> {
        let lower = text.to_ascii_lowercase();
        match self.names.iter().position(|name| **name == lower) {
            Some(place) => Ok(self.least + u32::try_from(place).unwrap_or(0)),
            None => number(text),
        }
    }
}

fn number(text: &str) -> Result<u32, String> {
    let number: i64 = text.parse().map_err(|_| {
        format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")
    })?;
    u32::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_five_fields_or_a_word() {
        for right in ["*/5 * * * *", "0 0 1-15/2 JAN-mar mon,FRI", "@daily", "@every 1h30m", "? 1 * * 0"] {
            assert_eq!(check(right), Ok(()), "{right}");
        }
        for (wrong, why) in [
            ("x", "expected exactly 5 fields, found 1: [x]"),
            ("@sometimes", "unrecognized descriptor: @sometimes"),
            ("99 * * * *", "end of range (99) above maximum (59): 99"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("@every x", "failed to parse duration @every x: time: invalid duration \"x\""),
        ] {
            assert_eq!(check(wrong), Err(why.to_owned()), "{wrong}");
        }
    }
}
