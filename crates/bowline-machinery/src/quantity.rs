//! Quantities of resources: `500m`, `1Gi`, `1e3`. Owns how they are read, compared, rounded and written; where in an
//! object they are is a schema's to know.

mod decimal;
mod parse;

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;

use self::decimal::Decimal;

/// A number with a unit. Exact down to 10⁻⁹; what is smaller is rounded away from zero when it is read.
///
/// Printed it is what Kubernetes writes back: in its canonical form, unless what was read looked canonical, which may
/// leave a sign or zeros in front. Two quantities are equal if their numbers are, whatever the unit.
#[derive(Clone, Debug)]
pub struct Quantity {
    amount: Decimal,
    format: QuantityFormat,
    /// What was read, where Kubernetes takes it for canonical.
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

/// Why a text is no quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantityError {
    /// It does not look like one.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// There is no number in it.
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// There is no such unit, or its exponent is beyond 32 bits.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

impl Quantity {
    /// From an object's JSON: a string, a number, or null for zero.
    ///
    /// A number that was written with an exponent is read without it, as its text is gone.
    ///
    /// # Errors
    /// If it is something else, or no quantity.
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

    /// As a whole number, rounded away from zero. `None` if it does not fit, for which Go gives some number.
    #[must_use]
    pub fn value(&self) -> Option<i64> {
        self.amount.scaled(0)
    }

    /// As a whole number of thousandths, rounded away from zero. `None` if it does not fit.
    #[must_use]
    pub fn milli_value(&self) -> Option<i64> {
        self.amount.scaled(-3)
    }

    /// Rounded away from zero to whole thousandths; `None` if it is such already.
    #[must_use]
    pub fn rounded_to_milli(&self) -> Option<Self> {
        let amount = self.amount.clone().rounded(-3);
        (amount != self.amount).then_some(Self { amount, format: self.format, text: None })
    }

    /// The sum of two quantities that are not negative, in the units of the first; `None` if one is.
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
