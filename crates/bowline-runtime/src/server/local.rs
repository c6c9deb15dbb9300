//! Checks that a request names the server by an IP address or as `localhost`, not by a DNS name.

use std::net::IpAddr;

use http::header::HOST;
use http::request::Parts;
use http::uri::Authority;

/// Whether all host names of a request are local: at least one `Host` header, each of them, and the authority in the
/// request line.
pub(super) fn is_local(head: &Parts) -> bool {
    let mut hosts = head.headers.get_all(HOST).iter().peekable();
    hosts.peek().is_some()
        && hosts.all(|host| host.to_str().is_ok_and(is_local_name))
        && head.uri.authority().is_none_or(|authority| is_local_name(authority.as_str()))
}

/// Whether `HOST` or `HOST:PORT` is an IP address or `localhost`.
fn is_local_name(name: &str) -> bool {
    let Ok(authority) = name.parse::<Authority>() else { return false };
    let host = authority.host();
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    !name.contains('@') && (host.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_local() {
        for (host, expected) in [
            ("127.0.0.1", true),
            ("127.0.0.1:8080", true),
            ("10.0.0.1:8080", true),
            ("[::1]", true),
            ("[::1]:8080", true),
            ("localhost", true),
            ("LOCALHOST:8080", true),
            ("", false),
            ("evil.example", false),
            ("evil.example:8080", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("localhost@evil.example", false),
            ("evil.example@localhost", false),
            ("2130706433", false),
        ] {
            let request = http::Request::get("/debug").header(HOST, host).body(()).unwrap();
            assert_eq!(is_local(&request.into_parts().0), expected, "{host:?}");
        }
    }

    #[test]
    fn every_host_name_of_a_request_must_be_local() {
        let two = http::Request::get("/debug").header(HOST, "localhost").header(HOST, "evil.example");
        let absolute = http::Request::get("http://evil.example/debug").header(HOST, "localhost");
        for request in [two, absolute, http::Request::get("/debug")] {
            assert!(!is_local(&request.body(()).unwrap().into_parts().0));
        }
    }
}
