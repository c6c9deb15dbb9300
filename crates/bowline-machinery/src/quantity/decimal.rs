//! Decimal numbers of any length, with the arithmetic of quantities.

use std::cmp::Ordering;

/// `digits` times ten to the power of `exponent`. Unique per number: no leading or trailing zeros, and zero has no
/// digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    negative: bool,
    /// Each from 0 to 9, the highest first.
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    /// From ASCII digits.
    pub(super) fn new(negative: bool, digits: impl IntoIterator<Item = u8>, exponent: i64) -> Self {
        let digits = digits.into_iter().map(|digit| digit - b'0').collect();
        Self { negative, digits, exponent }.normal()
    }

    pub(super) fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    pub(super) fn is_negative(&self) -> bool {
        self.negative
    }

    /// Multiplied by two to the power of `power`, which is at most 60.
    pub(super) fn shifted_left(self, power: u32) -> Self {
        let factor = 1_u128 << power;
        let mut carry = 0_u128;
        let mut reversed = Vec::with_capacity(self.digits.len() + 20);
        for digit in self.digits.iter().rev() {
            carry += u128::from(*digit) * factor;
            reversed.push(last_digit(carry));
            carry /= 10;
        }
        while carry > 0 {
            reversed.push(last_digit(carry));
            carry /= 10;
        }
        reversed.reverse();
        Self { digits: reversed, ..self }.normal()
    }

    /// A multiple of ten to the power of `exponent`, rounded away from zero.
    pub(super) fn rounded(mut self, exponent: i64) -> Self {
        let Ok(dropped) = usize::try_from(exponent - self.exponent) else { return self };
        if dropped == 0 || self.is_zero() {
            return self;
        }
        // The last digit is never zero, so that the dropped part is not zero.
        self.digits.truncate(self.digits.len().saturating_sub(dropped));
        self.exponent = exponent;
        if let Some(place) = self.digits.iter().rposition(|digit| *digit < 9) {
            self.digits[place] += 1;
            self.digits[place + 1..].fill(0);
        } else {
            self.digits.fill(0);
            self.digits.insert(0, 1);
        }
        self.normal()
    }

    /// The sum of two non-negative numbers. `None` if one is negative, or if the result would have too many digits.
    pub(super) fn plus(&self, other: &Self) -> Option<Self> {
        const LONGEST: usize = 1000;
        if self.negative || other.negative {
            return None;
        }
        let exponent = self.exponent.min(other.exponent);
        let from_behind = |number: &Self| {
            let zeros = usize::try_from(number.exponent - exponent).ok().filter(|zeros| *zeros < LONGEST)?;
            Some(
                std::iter::repeat_n(0, zeros).chain(number.digits.iter().rev().copied()).collect::<Vec<u8>>(),
            )
        };
        let (mut sum, added) = (from_behind(self)?, from_behind(other)?);
        sum.resize(sum.len().max(added.len()) + 1, 0);
        let mut carry = 0;
        for (place, digit) in sum.iter_mut().enumerate() {
            let total = *digit + added.get(place).copied().unwrap_or(0) + carry;
            (*digit, carry) = (total % 10, total / 10);
        }
        sum.reverse();
        Some(Self { negative: false, digits: sum, exponent }.normal())
    }

    /// The number divided by ten to the power of `exponent`, rounded away from zero, if it fits.
    pub(super) fn scaled(&self, exponent: i64) -> Option<i64> {
        let rounded = self.clone().rounded(exponent);
        let zeros = usize::try_from(rounded.exponent - exponent).ok().filter(|zeros| *zeros < 20);
        if rounded.is_zero() {
            return Some(0);
        }
        let digits = rounded.digits.iter().copied().chain(std::iter::repeat_n(0, zeros?));
        let magnitude = digits.map(i64::from).try_fold(0_i64, |number, digit| {
            // Downwards, since the range has one more negative number.
            number.checked_mul(10)?.checked_sub(digit)
        })?;
        if rounded.negative { Some(magnitude) } else { magnitude.checked_neg() }
    }

    /// The value as an integer, if it is one and fits.
    pub(super) fn whole(&self) -> Option<i64> {
        if self.exponent < 0 { None } else { self.scaled(0) }
    }

    /// The number as an integer and a power of ten, the largest one divisible by three.
    pub(super) fn in_thousands(&self) -> (String, i64) {
        let zeros = self.exponent.rem_euclid(3);
        let mut number = String::with_capacity(self.digits.len() + 3);
        if self.negative {
            number.push('-');
        }
        number.extend(self.digits.iter().map(|digit| char::from(b'0' + digit)));
        number.extend((0..zeros).map(|_| '0'));
        (number, self.exponent - zeros)
    }

    fn normal(mut self) -> Self {
        let behind = self.digits.iter().rev().take_while(|digit| **digit == 0).count();
        self.digits.truncate(self.digits.len() - behind);
        let before = self.digits.iter().take_while(|digit| **digit == 0).count();
        self.digits.drain(..before);
        if self.digits.is_empty() {
            return Self { negative: false, digits: Vec::new(), exponent: 0 };
        }
        self.exponent += i64::try_from(behind).unwrap_or(i64::MAX);
        self
    }

    /// The number of digits before the point, for numbers other than zero.
    fn magnitude(&self) -> i64 {
        self.exponent.saturating_add(i64::try_from(self.digits.len()).unwrap_or(i64::MAX))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let sign = |decimal: &Self| match (decimal.is_zero(), decimal.negative) {
            (true, _) => 0,
            (_, true) => -1,
            (_, false) => 1,
        };
        let size = || self.magnitude().cmp(&other.magnitude()).then_with(|| self.digits.cmp(&other.digits));
        match (sign(self), sign(other)) {
            (1, 1) => size(),
            (-1, -1) => size().reverse(),
            (mine, theirs) => mine.cmp(&theirs),
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn last_digit(number: u128) -> u8 {
    u8::try_from(number % 10).unwrap_or_default()
}
