//! The canonical form of a quantity, as Go writes what it has read. A stand-in for `crate::quantity`: it knows no
//! arithmetic, and numbers of more than 38 digits stay as they are.

pub(super) const FORMAT_WRONG: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const SUFFIX_WRONG: &str = "unable to parse quantity's suffix";

const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// How a quantity is scaled.
#[derive(Clone, Copy)]
enum Suffix {
    Decimal(i32),
    Exponent(i32),
    Binary(u32),
}

/// The text that Go writes for a quantity, or why it is none.
pub(super) fn canonical(text: &str) -> Result<String, &'static str> {
    if text.is_empty() {
        return Err(FORMAT_WRONG);
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let negative = text.starts_with('-');
    let (whole, rest) = split_digits(unsigned);
    let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), split_digits);
    let suffix = suffix(rest)?;
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    let (Ok(mantissa), Ok(places)) =
        (format!("{whole}{fraction}").parse::<i128>(), i32::try_from(fraction.len()))
    else {
        return Ok(text.to_owned());
    };
    if is_kept(whole, fraction, suffix, mantissa) {
        return Ok(text.to_owned());
    }
    let written = match suffix {
        Suffix::Binary(shift) => binary(mantissa, places, shift),
        Suffix::Decimal(exponent) => decimal(mantissa, exponent - places),
        Suffix::Exponent(exponent) => {
            in_thousands(mantissa, exponent - places).map(|(mantissa, exponent)| match exponent {
                0 => mantissa.to_string(),
                _ => format!("{mantissa}e{exponent}"),
            })
        }
    };
    Ok(match written {
        Some(written) if negative && mantissa != 0 => format!("-{written}"),
        Some(written) => written,
        None => text.to_owned(),
    })
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

fn suffix(text: &str) -> Result<Suffix, &'static str> {
    let rest = text.trim_start_matches(['e', 'E', 'i', 'n', 'u', 'm', 'k', 'K', 'M', 'G', 'T', 'P']);
    let rest = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    if !rest.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(FORMAT_WRONG);
    }
    if let Some((_, shift)) = BINARY.iter().find(|(known, _)| *known == text) {
        return Ok(Suffix::Binary(*shift));
    }
    if let Some((_, exponent)) = DECIMAL.iter().find(|(known, _)| *known == text) {
        return Ok(Suffix::Decimal(*exponent));
    }
    let exponent = text.strip_prefix(['e', 'E']).and_then(|exponent| exponent.parse().ok());
    exponent.map(Suffix::Exponent).ok_or(SUFFIX_WRONG)
}

/// Go keeps the text of what looks canonical to it at a glance, even if it is not: `1.500`.
fn is_kept(whole: &str, fraction: &str, suffix: Suffix, mantissa: i128) -> bool {
    let digits = whole.len() + fraction.len();
    match suffix {
        Suffix::Binary(shift) => {
            let digits = digits + shift as usize * 3 / 10 + 1;
            fraction.is_empty() && digits <= 15 && mantissa & 7 != 0
        }
        Suffix::Decimal(exponent) | Suffix::Exponent(exponent) => {
            let places = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
            let scale = exponent.saturating_sub(places);
            let ends_in_thousands = if fraction.is_empty() {
                whole.ends_with("000")
            } else {
                mantissa % 1000 == 0 && digits >= 3
            };
            digits <= 18 && scale >= -9 && scale % 3 == 0 && !ends_in_thousands && !whole.starts_with('0')
        }
    }
}

fn binary(mantissa: i128, places: i32, shift: u32) -> Option<String> {
    let scaled = mantissa.checked_mul(1 << shift)?;
    let unit = 10_i128.checked_pow(places.unsigned_abs())?;
    let number = scaled / unit;
    if number < 1024 || scaled % unit != 0 {
        // Small numbers and fractions are written in powers of ten.
        return decimal(scaled, -places);
    }
    let largest = BINARY.iter().rev().find(|(_, shift)| number % (1 << shift) == 0);
    Some(largest.map_or_else(|| number.to_string(), |(suffix, shift)| format!("{}{suffix}", number >> shift)))
}

fn decimal(mantissa: i128, exponent: i32) -> Option<String> {
    let (mantissa, exponent) = in_thousands(mantissa, exponent)?;
    let (suffix, _) = DECIMAL.iter().find(|(_, known)| *known == exponent)?;
    Some(format!("{mantissa}{suffix}"))
}

/// The same number with an exponent of ten that three divides, at least -9, and the fewest digits.
fn in_thousands(mut mantissa: i128, mut exponent: i32) -> Option<(i128, i32)> {
    if mantissa == 0 {
        return Some((0, 0));
    }
    while exponent < -9 {
        mantissa = mantissa / 10 + i128::from(mantissa % 10 != 0);
        exponent += 1;
    }
    while mantissa % 10 == 0 {
        mantissa /= 10;
        exponent += 1;
    }
    while exponent.rem_euclid(3) != 0 {
        mantissa = mantissa.checked_mul(10)?;
        exponent -= 1;
    }
    Some((mantissa, exponent))
}
