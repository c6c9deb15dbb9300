//! Parsing of quantities. Kubernetes keeps a text that it takes for canonical. That depends on whether its fast path
//! applies, so the conditions of the fast path are here too.

use super::decimal::Decimal;
use super::{Quantity, QuantityError, QuantityFormat};

/// The smallest unit of Kubernetes.
const NANO: i64 = -9;

/// The parts of a text.
struct Parts<'a> {
    negative: bool,
    /// Digits before the point, without leading zeros; `0` if there are none.
    whole: &'a str,
    /// Digits after the point.
    fraction: &'a str,
    /// Whether the text has any digit.
    has_digits: bool,
    suffix: &'a str,
}

/// A unit: ten or two to the power of the exponent.
enum Unit {
    Ten(i64, QuantityFormat),
    Two(u32),
}

impl Quantity {
    /// Parses a text.
    ///
    /// # Errors
    /// In the words of Kubernetes, if the text is not a quantity. As in Kubernetes, the number may be missing: `-` and
    /// `.` are zero.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let parts = Parts::of(text)?;
        let unit = Unit::of(parts.suffix).ok_or(QuantityError::Suffix)?;
        let (amount, looks_canonical, format) = match unit {
            Unit::Ten(exponent, format) => {
                let exponent = exponent - i64::try_from(parts.fraction.len()).unwrap_or(i64::MAX / 2);
                let is_fast = parts.length() <= 18 && exponent >= NANO;
                if !is_fast && !parts.has_digits {
                    return Err(QuantityError::Number);
                }
                let looks_canonical = is_fast && exponent % 3 == 0 && parts.is_without_needless_zeros();
                (parts.decimal(exponent), looks_canonical, format)
            }
            Unit::Two(power) => parts.in_binary(power)?,
        };
        let text = (looks_canonical || text == "0").then(|| text.to_owned());
        Ok(Self { amount: amount.rounded(NANO), format, text })
    }
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Result<Self, QuantityError> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (digits, rest) = split_digits(unsigned);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), split_digits);
        let letters = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let number = letters.strip_prefix(['+', '-']).unwrap_or(letters);
        if !split_digits(number).1.is_empty() {
            return Err(QuantityError::Format);
        }
        let whole = match digits.trim_start_matches('0') {
            "" => "0",
            whole => whole,
        };
        let has_digits = !digits.is_empty() || !fraction.is_empty();
        Ok(Self { negative: text.starts_with('-'), whole, fraction, has_digits, suffix })
    }

    fn length(&self) -> usize {
        self.whole.len() + self.fraction.len()
    }

    /// No leading zero and fewer than three trailing ones.
    fn is_without_needless_zeros(&self) -> bool {
        let digits = || self.whole.bytes().chain(self.fraction.bytes());
        let behind = digits().rev().take_while(|digit| *digit == b'0').count();
        !self.whole.starts_with('0') && behind < 3
    }

    fn decimal(&self, exponent: i64) -> Decimal {
        Decimal::new(self.negative, self.whole.bytes().chain(self.fraction.bytes()), exponent)
    }

    /// The amount, whether the text looks canonical, and the format, which is decimal for amounts below one.
    fn in_binary(&self, power: u32) -> Result<(Decimal, bool, QuantityFormat), QuantityError> {
        // The fast path takes no fraction and at most fifteen digits after multiplication.
        let room = 14 - i64::from(power * 3 / 10) - i64::try_from(self.whole.len()).unwrap_or(i64::MAX / 2);
        if self.fraction.is_empty()
            && room >= 0
            && let Some(value) = self.whole.parse::<i64>().ok()
            && value.checked_mul(1 << power).is_some()
        {
            let looks_canonical = value % 8 != 0;
            return Ok((self.decimal(0).shifted_left(power), looks_canonical, QuantityFormat::BinarySi));
        }
        if !self.has_digits {
            return Err(QuantityError::Number);
        }
        let exponent = -i64::try_from(self.fraction.len()).unwrap_or(i64::MAX / 2);
        let amount = self.decimal(exponent).shifted_left(power).rounded(NANO);
        let limit = |text: &str| Decimal::new(self.negative, text.bytes(), 0);
        let (most, one) = (limit("9223372036854775807"), limit("1"));
        let is_beyond = |limit: &Decimal| if self.negative { amount < *limit } else { amount > *limit };
        let format = if amount.is_zero() || amount == one || is_beyond(&one) {
            QuantityFormat::BinarySi
        } else {
            QuantityFormat::DecimalSi
        };
        let amount = if is_beyond(&most) { most } else { amount };
        Ok((amount, false, format))
    }
}

impl Unit {
    fn of(suffix: &str) -> Option<Self> {
        let si = |exponent| Some(Self::Ten(exponent, QuantityFormat::DecimalSi));
        match suffix {
            "n" => si(-9),
            "u" => si(-6),
            "m" => si(-3),
            "" => si(0),
            "k" => si(3),
            "M" => si(6),
            "G" => si(9),
            "T" => si(12),
            "P" => si(15),
            "E" => si(18),
            "Ki" => Some(Self::Two(10)),
            "Mi" => Some(Self::Two(20)),
            "Gi" => Some(Self::Two(30)),
            "Ti" => Some(Self::Two(40)),
            "Pi" => Some(Self::Two(50)),
            "Ei" => Some(Self::Two(60)),
            _ => {
                let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
                Some(Self::Ten(i64::from(exponent), QuantityFormat::DecimalExponent))
            }
        }
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len())
}
