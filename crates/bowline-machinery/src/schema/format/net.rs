//! Network addresses, as Go parses them.

use std::net::Ipv6Addr;

/// Accepts leading zeros, as older versions of Go do.
pub(super) fn is_ipv4(text: &str) -> bool {
    text.contains('.') && (is_dotted(text) || is_colons(text))
}

pub(super) fn is_ipv6(text: &str) -> bool {
    text.contains(':') && text.parse::<Ipv6Addr>().is_ok()
}

pub(super) fn is_ip(text: &str) -> bool {
    text.parse::<std::net::IpAddr>().is_ok()
}

pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let limit = match (is_dotted(address), is_colons(address)) {
        (true, _) => 32,
        (_, true) => 128,
        _ => return false,
    };
    is_at_most(length, limit)
}

pub(super) fn is_mac(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (group, separator) = match bytes {
        [_, _, separator @ (b':' | b'-'), ..] => (2, Some(*separator)),
        [_, _, _, _, b'.', ..] => (4, Some(b'.')),
        _ => (2, None),
    };
    let groups: Vec<&[u8]> = match separator {
        Some(separator) => bytes.split(|byte| *byte == separator).collect(),
        None => bytes.chunks(group).collect(),
    };
    let is_group = |bytes: &&[u8]| bytes.len() == group && bytes.iter().all(u8::is_ascii_hexdigit);
    matches!(groups.len() * group / 2, 6 | 8 | 20) && groups.iter().all(is_group)
}

/// Four numbers with dots between them.
fn is_dotted(text: &str) -> bool {
    text.split('.').count() == 4 && text.split('.').all(|part| is_at_most(part, 255))
}

/// An address of IP version 6; one of version 4 at its end may have leading zeros.
fn is_colons(text: &str) -> bool {
    let Some((front, end)) = text.rsplit_once(':') else { return false };
    if is_dotted(end) {
        return format!("{front}:0.0.0.0").parse::<Ipv6Addr>().is_ok();
    }
    text.parse::<Ipv6Addr>().is_ok()
}

fn is_at_most(text: &str, limit: u32) -> bool {
    let digits = text.trim_start_matches('0');
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number && digits.len() <= 3 && digits.parse().unwrap_or(0) <= limit
}
