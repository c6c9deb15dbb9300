//! Times in JSON: RFC 3339, as Go reads and writes it.

use super::DecodeError;
use super::decode_error::time_error;
use crate::calendar::{date, days_in_month, days_since_1970};
use crate::quote::quoted;

/// The precision of a written time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precision {
    /// Whole seconds; a fraction is read and dropped.
    Seconds,
    /// Six digits, all required.
    Micros,
}

/// Go's output for a time that it has parsed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// The same text.
    AsRead,
    /// Another text for the same time, in UTC.
    Otherwise(String),
    /// Nothing: in Go the first instant of the year 1 means that the time is unset.
    Nothing,
}

/// Parses a time as Go does.
pub(super) fn written(text: &str, precision: Precision) -> Result<Written, DecodeError> {
    let Instant { seconds, nanos } = Reader { text, rest: text, precision }.read()?;
    if seconds == YEAR_ONE && nanos == 0 {
        return Ok(Written::Nothing);
    }
    if is_canonical(text.as_bytes(), precision) {
        return Ok(Written::AsRead);
    }
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    Ok(Written::Otherwise(match precision {
        Precision::Seconds => format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"),
        Precision::Micros => {
            let micros = nanos / 1000;
            format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
        }
    }))
}

/// Whether a valid time is in UTC and has the required precision. Its length decides the rest.
fn is_canonical(text: &[u8], precision: Precision) -> bool {
    match precision {
        Precision::Seconds => text.len() == 20 && text.ends_with(b"Z"),
        Precision::Micros => text.len() == 27 && text.ends_with(b"Z") && text[19] == b'.',
    }
}

/// The first instant of the year 1, in seconds since 1970.
const YEAR_ONE: i64 = -62_135_596_800;

struct Instant {
    seconds: i64,
    nanos: u32,
}

/// Parses a text in the steps of Go's `time.Parse`, so that the error names the same part.
struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    precision: Precision,
}

impl Reader<'_> {
    fn read(mut self) -> Result<Instant, DecodeError> {
        let year = self.year()?;
        self.literal("-")?;
        let month = self.number("01", "month", 1..=12)?;
        self.literal("-")?;
        let day = self.number("02", "", 0..=99)?;
        self.literal("T")?;
        let hour = self.number("15", "hour", 0..=23)?;
        self.literal(":")?;
        let minute = self.number("04", "minute", 0..=59)?;
        self.literal(":")?;
        let second = self.number("05", "second", 0..=59)?;
        let nanos = match self.precision {
            Precision::Seconds => self.optional_fraction(),
            Precision::Micros => self.micros()?,
        };
        let offset = self.zone()?;
        if !self.rest.is_empty() {
            return Err(self.error(&format!(": extra text: {}", quoted(self.rest))));
        }
        if day < 1 || day > days_in_month(year, month) {
            return Err(self.error(": day out of range"));
        }
        let seconds =
            days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
        Ok(Instant { seconds, nanos })
    }

    fn year(&mut self) -> Result<i64, DecodeError> {
        let year = self.digits(4).ok_or_else(|| self.cannot("2006"))?;
        self.advance(4);
        Ok(year)
    }

    fn number(
        &mut self,
        layout: &str,
        name: &str,
        range: std::ops::RangeInclusive<i64>,
    ) -> Result<i64, DecodeError> {
        let (number, length) = match (self.digits(2), self.digits(1)) {
            (Some(number), _) => (number, 2),
            // Go accepts an hour of one digit.
            (None, Some(number)) if layout == "15" => (number, 1),
            _ => return Err(self.cannot(layout)),
        };
        self.advance(length);
        if range.contains(&number) { Ok(number) } else { Err(self.error(&format!(": {name} out of range"))) }
    }

    fn literal(&mut self, literal: &str) -> Result<(), DecodeError> {
        self.rest = self.rest.strip_prefix(literal).ok_or_else(|| self.cannot(literal))?;
        Ok(())
    }

    fn optional_fraction(&mut self) -> u32 {
        let Some(fraction) = self.rest.strip_prefix(['.', ',']) else { return 0 };
        let length = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if length == 0 {
            return 0;
        }
        let nanos = format!("{:0<9.9}", &fraction[..length]).parse().unwrap_or_default();
        self.advance(1 + length);
        nanos
    }

    fn micros(&mut self) -> Result<u32, DecodeError> {
        let digits = self.rest.strip_prefix(['.', ',']).and_then(|digits| digits.get(..6));
        let micros = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let micros: u32 =
            micros.and_then(|digits| digits.parse().ok()).ok_or_else(|| self.cannot(".000000"))?;
        self.advance(7);
        Ok(micros * 1000)
    }

    /// The offset from UTC in seconds, positive to the east.
    fn zone(&mut self) -> Result<i64, DecodeError> {
        const LAYOUT: &str = "Z07:00";
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let bytes = self.rest.as_bytes();
        let (sign, hours, minutes) = match bytes {
            [sign @ (b'+' | b'-'), a, b, b':', c, d, ..]
                if [a, b, c, d].iter().all(|byte| byte.is_ascii_digit()) =>
            {
                let number = |tens: u8, ones: u8| i64::from(tens - b'0') * 10 + i64::from(ones - b'0');
                (if *sign == b'+' { 1 } else { -1 }, number(*a, *b), number(*c, *d))
            }
            _ => return Err(self.cannot(LAYOUT)),
        };
        self.advance(6);
        if hours > 24 {
            return Err(self.error(": time zone offset hour out of range"));
        }
        if minutes > 60 {
            return Err(self.error(": time zone offset minute out of range"));
        }
        Ok(sign * (hours * 3600 + minutes * 60))
    }

    /// The number formed by the next `count` characters, if all are digits.
    fn digits(&self, count: usize) -> Option<i64> {
        let digits = self.rest.get(..count)?;
        if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
    }

    /// Skips `count` characters that are known to be ASCII.
    fn advance(&mut self, count: usize) {
        self.rest = &self.rest[count..];
    }

    fn error(&self, detail: &str) -> DecodeError {
        time_error(self.text, detail)
    }

    fn cannot(&self, element: &str) -> DecodeError {
        let layout = match self.precision {
            Precision::Seconds => "2006-01-02T15:04:05Z07:00",
            Precision::Micros => "2006-01-02T15:04:05.000000Z07:00",
        };
        self.error(&format!(" as \"{layout}\": cannot parse {} as \"{element}\"", quoted(self.rest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_in_utc_and_as_precisely_as_its_type() {
        let seconds = |text: &str| written(text, Precision::Seconds).unwrap();
        assert_eq!(seconds("2026-01-02T03:04:05Z"), Written::AsRead);
        for (read, text) in [
            ("2026-01-02T03:04:05.999999Z", "2026-01-02T03:04:05Z"),
            ("2026-01-02T03:04:05,5Z", "2026-01-02T03:04:05Z"),
            ("2026-01-02T3:04:05Z", "2026-01-02T03:04:05Z"),
            ("2026-01-01T00:30:00+01:00", "2025-12-31T23:30:00Z"),
            ("2024-02-28T23:30:00-01:00", "2024-02-29T00:30:00Z"),
            ("1900-02-28T23:59:59-00:01", "1900-03-01T00:00:59Z"),
            ("0001-01-01T00:00:00.5Z", "0001-01-01T00:00:00Z"),
        ] {
            assert_eq!(seconds(read), Written::Otherwise(text.to_owned()), "{read}");
        }

        let micros = |text: &str| written(text, Precision::Micros).unwrap();
        assert_eq!(micros("2026-01-02T03:04:05.000001Z"), Written::AsRead);
        assert_eq!(
            micros("2026-01-02T03:04:05,000001+00:00"),
            Written::Otherwise("2026-01-02T03:04:05.000001Z".to_owned())
        );
    }

    #[test]
    fn the_first_instant_of_the_year_one_is_no_time() {
        assert_eq!(written("0001-01-01T00:00:00Z", Precision::Seconds), Ok(Written::Nothing));
        assert_eq!(written("0001-01-01T01:00:00+01:00", Precision::Seconds), Ok(Written::Nothing));
    }
}
