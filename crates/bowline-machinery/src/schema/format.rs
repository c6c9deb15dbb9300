//! Formats of strings and numbers, checked as Go's libraries do.

mod mail;
mod net;
mod time;

use std::sync::LazyLock;

use regex::Regex;

use super::uri;

pub(super) use time::rfc3339_in_utc;

/// The `format` of a schema.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Format {
    name: String,
    /// Whether custom resources are checked for it: Kubernetes ignores formats that it does not know for the type.
    is_checked: bool,
}

impl Format {
    pub(super) fn new(name: String) -> Self {
        Self { name, is_checked: false }
    }

    /// Decides whether the format is checked, once the schema's type is known.
    pub(super) fn resolve(&mut self, kind: &str, int_or_string: bool) {
        self.is_checked = match kind {
            _ if int_or_string => check(&self.name).is_some(),
            "" | "string" => check(&self.name).is_some(),
            "integer" => matches!(self.name.as_str(), "int32" | "int64"),
            "number" => matches!(self.name.as_str(), "float" | "double"),
            _ => false,
        };
    }

    /// As written.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// As written if custom resources are checked for it, else empty.
    pub(super) fn checked(&self) -> &str {
        if self.is_checked { &self.name } else { "" }
    }
}

/// Whether a text has a format; `None` if texts have no such format.
pub(super) fn holds(format: &str, text: &str) -> Option<bool> {
    if format.is_empty() {
        return None;
    }
    Some(check(format)?(text))
}

type Check = fn(&str) -> bool;

/// Dashes in a format's name are ignored.
fn check(format: &str) -> Option<Check> {
    Some(match format.replace('-', "").as_str() {
        "bsonobjectid" => |text| text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "byte" => |text| PATTERNS.base64.is_match(text),
        "cidr" => net::is_cidr,
        "creditcard" => is_credit_card,
        "date" => time::is_date,
        "datetime" => time::is_date_time,
        "duration" => time::is_duration,
        "email" => mail::is_address,
        "hexcolor" => |text| PATTERNS.hex_color.is_match(text),
        "hostname" => is_hostname,
        "ipv4" => net::is_ipv4,
        "ipv6" => net::is_ipv6,
        "isbn" => |text| is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10,
        "isbn13" => is_isbn13,
        "k8slongname" => |text| text.len() <= 253 && PATTERNS.long_name.is_match(text),
        "k8sshortname" => |text| text.len() <= 63 && PATTERNS.short_name.is_match(text),
        "mac" => net::is_mac,
        "password" => |_| true,
        "rgbcolor" => |text| PATTERNS.rgb_color.is_match(text),
        "ssn" => |text| text.len() == 11 && PATTERNS.ssn.is_match(text),
        "uri" => |text| uri::parse_request(text).is_ok(),
        "uuid" => |text| PATTERNS.uuid.is_match(text),
        "uuid3" => |text| PATTERNS.uuid3.is_match(text),
        "uuid4" => |text| PATTERNS.uuid4.is_match(text),
        "uuid5" => |text| PATTERNS.uuid5.is_match(text),
        _ => return None,
    })
}

struct Patterns {
    base64: Regex,
    credit_card: Regex,
    hex_color: Regex,
    hostname: Regex,
    long_name: Regex,
    rgb_color: Regex,
    short_name: Regex,
    ssn: Regex,
    uuid: Regex,
    uuid3: Regex,
    uuid4: Regex,
    uuid5: Regex,
}

static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "the patterns are constants, and the tests use each")]
    let pattern = |text: &str| Regex::new(text).expect("a valid pattern");
    let label = r"[a-zA-Z0-9\p{S}\p{L}]";
    let segment = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
    let byte = r"(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])";
    let space = r"[\t\n\f\r ]*";
    let uuid = |third: &str, fourth: &str| {
        pattern(&format!("(?i)^[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{third}-?{fourth}-?[0-9a-f]{{12}}$"))
    };
    Patterns {
        base64: pattern("^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$"),
        credit_card: pattern(concat!(
            "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}",
            "|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$"
        )),
        hex_color: pattern("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"),
        hostname: pattern(&format!(
            r"^({label}((-?{label}{{0,62}})?)|({label}(([-a-zA-Z0-9\p{{S}}\p{{L}}]{{0,61}}{label})?)(\.))+([a-zA-Z\p{{L}}]){{2,63}})$"
        )),
        long_name: pattern(&format!(r"^{segment}(\.{segment})*$")),
        rgb_color: pattern(&format!(
            r"^rgb\({space}{byte}{space},{space}{byte}{space},{space}{byte}{space}\)$"
        )),
        short_name: pattern(&format!("^{segment}$")),
        ssn: pattern("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"),
        uuid: uuid("[0-9a-f]{4}", "[0-9a-f]{4}"),
        uuid3: uuid("3[0-9a-f]{3}", "[0-9a-f]{4}"),
        uuid4: uuid("4[0-9a-f]{3}", "[89ab][0-9a-f]{3}"),
        uuid5: uuid("5[0-9a-f]{3}", "[89ab][0-9a-f]{3}"),
    }
});

fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && PATTERNS.hostname.is_match(text) && text.split('.').all(|label| label.len() <= 63)
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let sum: u32 = digits
        .bytes()
        .rev()
        .map(|byte| u32::from(byte - b'0'))
        .enumerate()
        .map(|(index, digit)| if index % 2 == 0 { digit } else { digit * 2 % 10 + digit * 2 / 10 })
        .sum();
    PATTERNS.credit_card.is_match(&digits) && sum.is_multiple_of(10)
}

/// The characters of an ISBN without separators.
fn isbn(text: &str) -> Vec<u8> {
    let between = |byte: &u8| matches!(byte, b'\t' | b'\n' | 0xc | b'\r' | b' ' | b'-');
    text.bytes().filter(|byte| !between(byte)).collect()
}

fn is_isbn10(text: &str) -> bool {
    let [digits @ .., last] = &*isbn(text) else { return false };
    if digits.len() != 9
        || !digits.iter().all(u8::is_ascii_digit)
        || !(last.is_ascii_digit() || *last == b'X')
    {
        return false;
    }
    let last = if *last == b'X' { 10 } else { u32::from(last - b'0') };
    let sum: u32 = (1..).zip(digits).map(|(factor, digit)| factor * u32::from(digit - b'0')).sum();
    (sum + 10 * last).is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let digits = isbn(text);
    if digits.len() != 13 || !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let factors = [1, 3].into_iter().cycle();
    let sum: u32 = factors.zip(&digits).map(|(factor, digit)| factor * u32::from(digit - b'0')).sum();
    sum.is_multiple_of(10)
}
