//! Quantities of resources: `500m`, `1Gi`, `1e3`. Owns parsing, comparison, rounding and printing. A schema defines
//! which fields are quantities.

mod decimal;
mod parse;

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;

use self::decimal::Decimal;

/// A number with a unit. Exact down to 10⁻⁹; smaller parts are rounded away from zero when parsed.
///
/// Prints the text that Kubernetes writes back: the canonical form, or the original text if Kubernetes takes that for
/// canonical, possibly with a sign or leading zeros. Two quantities are equal if their numbers are, whatever the unit.
#[derive(Clone, Debug)]
pub struct Quantity {
    amount: Decimal,
    format: QuantityFormat,
    /// The original text, where Kubernetes takes it for canonical.
    text: Option<String>,
}

/// The family of units that a quantity is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuantityFormat {
    /// `1e3`
    DecimalExponent,
    /// `1Ki`
    BinarySi,
    /// `1k`, and no unit.
    DecimalSi,
}

/// The text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantityError {
    /// The text does not match the grammar.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The text contains no number.
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// The unit is unknown, or its exponent is beyond 32 bits.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

impl Quantity {
    /// Reads a JSON value: a string, a number, or null for zero.
    ///
    /// A number with an exponent loses it, as JSON parsing does not keep the text.
    ///
    /// # Errors
    /// If the value has another type or is not a quantity.
    pub fn from_value(value: &Value) -> Result<Self, QuantityError> {
        match value {
            Value::Null => Self::parse("0"),
            Value::String(text) => Self::parse(text.trim()),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => Err(QuantityError::Format),
        }
    }

    /// The family of units.
    #[must_use]
    pub fn format(&self) -> QuantityFormat {
        self.format
    }

    /// Whether it is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.amount.is_zero()
    }

    /// Whether it is less than zero.
    #[must_use]
    pub fn is_negative(&self) -> bool {
        self.amount.is_negative()
    }

    /// The value as an integer, rounded away from zero. `None` if it does not fit, where Go returns a wrong number.
    #[must_use]
    pub fn value(&self) -> Option<i64> {
        self.amount.scaled(0)
    }

    /// The value in thousandths, rounded away from zero. `None` if it does not fit.
    #[must_use]
    pub fn milli_value(&self) -> Option<i64> {
        self.amount.scaled(-3)
    }

    /// The quantity rounded away from zero to whole thousandths; `None` if it needs no rounding.
    #[must_use]
    pub fn rounded_to_milli(&self) -> Option<Self> {
        let amount = self.amount.clone().rounded(-3);
        (amount != self.amount).then_some(Self { amount, format: self.format, text: None })
    }

    /// The sum of two non-negative quantities, in the units of the first; `None` if one is negative.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Option<Self> {
        let amount = self.amount.plus(&other.amount)?;
        Some(Self { amount, format: self.format, text: None })
    }

    /// The canonical form: no fraction, the largest unit that allows it. Above `E` Kubernetes writes no unit at all.
    #[must_use]
    pub fn canonical(&self) -> String {
        if self.is_zero() {
            return "0".to_owned();
        }
        let whole = (self.format == QuantityFormat::BinarySi).then(|| self.amount.whole()).flatten();
        if let Some(mut number) = whole.filter(|number| number.unsigned_abs() >= 1024) {
            let units = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
            let mut unit = 0;
            while number % 1024 == 0 {
                number /= 1024;
                unit += 1;
            }
            return format!("{number}{}", units[unit]);
        }
        let (number, exponent) = self.amount.in_thousands();
        let suffix = match (self.format, exponent) {
            (_, 0) => String::new(),
            (QuantityFormat::DecimalExponent, _) => format!("e{exponent}"),
            _ => decimal_unit(exponent).to_owned(),
        };
        format!("{number}{suffix}")
    }
}

fn decimal_unit(exponent: i64) -> &'static str {
    match exponent {
        -9 => "n",
        -6 => "u",
        -3 => "m",
        3 => "k",
        6 => "M",
        9 => "G",
        12 => "T",
        15 => "P",
        18 => "E",
        _ => "",
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.write_str(text),
            None => f.write_str(&self.canonical()),
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.amount == other.amount
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.amount.cmp(&other.amount)
    }
}

#[cfg(test)]
mod tests;
