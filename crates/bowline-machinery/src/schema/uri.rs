//! URIs as Go's `net/url` parses them, with its errors.

/// The parts of a URI that formats use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Uri {
    pub(super) scheme: String,
    pub(super) host: String,
    /// User and password, as written.
    pub(super) user: Option<String>,
    pub(super) query: String,
    pub(super) fragment: String,
}

/// Parses a URI of an HTTP request: absolute, or an absolute path; `#` has no special meaning.
///
/// # Errors
/// Go's message.
pub(super) fn parse_request(text: &str) -> Result<Uri, String> {
    parse(text, true).map_err(|message| parse_error(text, &message))
}

/// Parses a URI, or a relative reference.
///
/// # Errors
/// Go's message.
pub(super) fn parse_reference(text: &str) -> Result<Uri, String> {
    let (front, fragment) = text.split_once('#').unwrap_or((text, ""));
    let mut uri = parse(front, false).map_err(|message| parse_error(front, &message))?;
    check_escapes(fragment, false).map_err(|message| parse_error(text, &message))?;
    fragment.clone_into(&mut uri.fragment);
    Ok(uri)
}

fn parse_error(text: &str, message: &str) -> String {
    format!("parse {}: {message}", crate::quote::quoted(text))
}

fn parse(text: &str, is_request: bool) -> Result<Uri, String> {
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && is_request {
        return Err("empty url".to_owned());
    }
    if text == "*" {
        return Ok(Uri::default());
    }
    let (scheme, rest) = scheme(text)?;
    let mut uri = Uri { scheme: scheme.to_lowercase(), ..Uri::default() };
    let (mut rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    query.clone_into(&mut uri.query);
    if !rest.starts_with('/') {
        if !scheme.is_empty() {
            return Ok(uri);
        }
        if is_request {
            return Err("invalid URI for request".to_owned());
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let has_authority = !scheme.is_empty() || !is_request && !rest.starts_with("///");
    if has_authority && let Some(behind) = rest.strip_prefix("//") {
        let end = behind.find('/').unwrap_or(behind.len());
        let (authority, path) = behind.split_at(end);
        rest = path;
        let (user, host) =
            authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        check_host(&uri.scheme, host)?;
        if let Some(user) = user {
            check_user(user)?;
        }
        host.clone_into(&mut uri.host);
        uri.user = user.map(str::to_owned);
    }
    check_escapes(rest, false)?;
    Ok(uri)
}

fn scheme(text: &str) -> Result<(&str, &str), String> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..index], &text[index + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn check_user(user: &str) -> Result<(), String> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
    if !user.chars().all(is_fine) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    check_escapes(user, false)
}

fn check_host(scheme: &str, host: &str) -> Result<(), String> {
    match host.rfind('[') {
        Some(0) => {
            let end = host.rfind(']').ok_or("missing ']' in host")?;
            check_port(&host[end + 1..])?;
            let address = &host[1..end];
            let bare = address.split("%25").next().unwrap_or(address);
            check_escapes(bare, true)?;
            if bare.parse::<std::net::Ipv6Addr>().is_err() {
                let quoted = crate::quote::quoted(address);
                return Err(format!("invalid host: ParseAddr({quoted}): unable to parse IP"));
            }
            return Ok(());
        }
        Some(_) => return Err("invalid IP-literal".to_owned()),
        None => {}
    }
    let is_web = scheme == "http" || scheme == "https";
    if let Some(colon) = if is_web { host.find(':') } else { host.rfind(':') } {
        check_port(&host[colon..])?;
    }
    check_escapes(host, true)
}

fn check_port(port: &str) -> Result<(), String> {
    let digits = port.strip_prefix(':');
    if port.is_empty() || digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit())) {
        return Ok(());
    }
    Err(format!("invalid port {} after host", crate::quote::quoted(port)))
}

/// Checks that percent signs are followed by two hexadecimal digits and, in a host, that all characters are allowed.
fn check_escapes(text: &str, is_host: bool) -> Result<(), String> {
    let bytes = text.as_bytes();
    let mut index = 0;
    while let Some(byte) = bytes.get(index) {
        if *byte == b'%' {
            let escape = &bytes[index..bytes.len().min(index + 3)];
            let is_escape = matches!(escape, [_, a, b] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit());
            let is_refused = is_host && matches!(escape, [_, b'0'..=b'7', _]) && escape != b"%25";
            if !is_escape || is_refused {
                let escape = crate::quote::quoted(&String::from_utf8_lossy(escape));
                return Err(format!("invalid URL escape {escape}"));
            }
            index += 3;
            continue;
        }
        let is_fine = byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"".contains(byte);
        if is_host && byte.is_ascii() && !is_fine {
            let character = crate::quote::quoted(&char::from(*byte).to_string());
            return Err(format!("invalid character {character} in host name"));
        }
        index += 1;
    }
    Ok(())
}
