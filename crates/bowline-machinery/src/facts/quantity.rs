//! The canonical form of a quantity. A stand-in for `crate::quantity`, right for what fits 128 bits.

pub(super) const QUANTITY_FORMAT: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// The text that Go writes for a quantity, or why it is none.
pub(super) fn canonical(text: &str) -> Result<String, String> {
    let wrong = || QUANTITY_FORMAT.to_owned();
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return Err(wrong());
    }
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let mut mantissa: i128 = if digits.is_empty() { 0 } else { digits.parse().map_err(|_| wrong())? };
    let mut exponent = -i32::try_from(fraction.len()).map_err(|_| wrong())?;

    if let Some(&(_, shift)) = BINARY.iter().find(|(known, _)| *known == suffix) {
        mantissa = mantissa.checked_shl(shift).ok_or_else(wrong)?;
        if exponent == 0 && mantissa >= 1024 {
            let mut best = (mantissa, "");
            for (name, shift) in BINARY {
                if mantissa % (1_i128 << shift) == 0 {
                    best = (mantissa >> shift, name);
                }
            }
            return Ok(signed(negative, best.0, best.1));
        }
    } else if let Some(&(_, shift)) = DECIMAL.iter().find(|(known, _)| *known == suffix) {
        exponent += shift;
    } else {
        let exponent_text = suffix.strip_prefix(['e', 'E']).ok_or_else(wrong)?;
        exponent += exponent_text.parse::<i32>().map_err(|_| wrong())?;
        let (mantissa, exponent) = in_thousands(mantissa, exponent);
        let suffix = if exponent == 0 { String::new() } else { format!("e{exponent}") };
        return Ok(signed(negative, mantissa, &suffix));
    }
    let (mantissa, exponent) = in_thousands(mantissa, exponent);
    match DECIMAL.iter().find(|(_, known)| *known == exponent) {
        Some((suffix, _)) => Ok(signed(negative, mantissa, suffix)),
        None => Ok(text.to_owned()),
    }
}

/// The same number with an exponent of ten that three divides, at least -9, and the fewest digits.
fn in_thousands(mut mantissa: i128, mut exponent: i32) -> (i128, i32) {
    if mantissa == 0 {
        return (0, 0);
    }
    while exponent < -9 {
        mantissa = mantissa.div_euclid(10) + i128::from(mantissa.rem_euclid(10) != 0);
        exponent += 1;
    }
    while mantissa % 10 == 0 {
        mantissa /= 10;
        exponent += 1;
    }
    while exponent.rem_euclid(3) != 0 {
        mantissa = mantissa.saturating_mul(10);
        exponent -= 1;
    }
    (mantissa, exponent)
}

fn signed(negative: bool, mantissa: i128, suffix: &str) -> String {
    format!("{}{mantissa}{suffix}", if negative && mantissa != 0 { "-" } else { "" })
}
