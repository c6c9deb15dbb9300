//! The HTTP proxy of a configuration or environment.

use std::net::IpAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::uri::{Authority, Scheme};
use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use kube::Config;
use percent_encoding::percent_decode_str;

use super::TransportError;

/// A proxy that tunnels connections with CONNECT.
#[derive(Clone)]
pub(super) struct Proxy {
    tunnel: Tunnel<HttpConnector>,
    /// Name without secrets.
    name: String,
    server: Uri,
}

impl Proxy {
    /// The proxy for the configuration's server, if any. `variable` reads the environment.
    ///
    /// A proxy in the kubeconfig is always used. As in Go, one from the environment is not used for the local machine
    /// and for hosts in `NO_PROXY`.
    pub(super) fn find(
        config: &Config,
        connector: &HttpConnector,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, TransportError> {
        let Some(proxy) = &config.proxy_url else { return Ok(None) };
        let server = &config.cluster_url;
        let is_plain = server.scheme() == Some(&Scheme::HTTP);
        let port = server.port_u16().unwrap_or(if is_plain { 80 } else { 443 });
        let host = server.host().unwrap_or_default();
        let names = ["HTTPS_PROXY", "https_proxy"];
        let named = |name: &&str| variable(name).and_then(|value| value.parse().ok()).as_ref() == Some(proxy);
        let origin = names.into_iter().find(named);
        if origin.is_some() {
            let exempt =
                ["NO_PROXY", "no_proxy"].into_iter().filter_map(variable).find(|list| !list.is_empty());
            if is_exempt(host, port, exempt.as_deref().unwrap_or_default()) {
                return Ok(None);
            }
        }
        let authority = proxy.authority().map_or("", Authority::as_str);
        let (credentials, address) = authority.rsplit_once('@').unwrap_or(("", authority));
        let name = format!("{}://{address}", proxy.scheme_str().unwrap_or("http"));
        let unusable = || TransportError::Proxy {
            proxy: name.clone(),
            origin: origin.map_or("the configuration's `proxy-url`".to_owned(), |name| format!("${name}")),
        };
        let is_http = proxy.scheme().is_none_or(|scheme| *scheme == Scheme::HTTP);
        let target = name.parse::<Uri>().ok().filter(|_| is_http && !address.is_empty());
        let mut tunnel = Tunnel::new(target.ok_or_else(unusable)?, connector.clone());
        if !credentials.is_empty() {
            tunnel = tunnel.with_auth(basic(credentials).ok_or_else(unusable)?);
        }
        // The tunnel uses port 443 if the address has none.
        let server = format!("http://{host}:{port}").parse().map_err(|_| unusable())?;
        Ok(Some(Self { tunnel, name, server }))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn tunnel(&self) -> Tunnel<HttpConnector> {
        self.tunnel.clone()
    }

    /// The target of the tunnel.
    pub(super) fn server(&self) -> Uri {
        self.server.clone()
    }
}

fn basic(credentials: &str) -> Option<HeaderValue> {
    let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    let [user, password] = [user, password].map(|part| percent_decode_str(part).decode_utf8_lossy());
    let encoded = BASE64_STANDARD.encode(format!("{user}:{password}"));
    HeaderValue::from_str(&format!("Basic {encoded}")).ok()
}

/// Whether the environment's proxy is skipped for a server, by the rules of Go's `httpproxy`.
fn is_exempt(host: &str, port: u16, list: &str) -> bool {
    let host = bare(host).trim_end_matches('.').to_ascii_lowercase();
    let address = host.parse::<IpAddr>().ok();
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return true;
    }
    list.split(',').map(str::trim).filter(|entry| !entry.is_empty()).any(|entry| {
        let entry = entry.to_ascii_lowercase();
        if entry == "*" {
            return true;
        }
        if let (Some(address), Some((network, bits))) = (address, entry.split_once('/')) {
            return is_within(address, network, bits);
        }
        let (name, wanted) = match entry.rsplit_once(':') {
            Some((name, wanted)) if !name.contains(':') || name.ends_with(']') => (name, wanted.parse().ok()),
            _ => (entry.as_str(), Some(port)),
        };
        if wanted != Some(port) {
            return false;
        }
        match address {
            Some(address) => bare(name).parse() == Ok(address),
            None => is_named(&host, name),
        }
    })
}

/// `example.org` matches itself and its subdomains; `.example.org` and `*.example.org` only subdomains.
fn is_named(host: &str, name: &str) -> bool {
    let below = name.strip_prefix('*').unwrap_or(name);
    match below.strip_prefix('.') {
        Some(_) => host.len() > below.len() && host.ends_with(below),
        None => {
            host == name || host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.') && rest.len() > 1)
        }
    }
}

fn is_within(address: IpAddr, network: &str, bits: &str) -> bool {
    let (Ok(network), Ok(bits)) = (network.parse::<IpAddr>(), bits.parse::<u32>()) else { return false };
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let differs = address.to_bits() ^ network.to_bits();
            bits <= 32 && differs.checked_shr(32 - bits).unwrap_or(0) == 0
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            let differs = address.to_bits() ^ network.to_bits();
            bits <= 128 && differs.checked_shr(128 - bits).unwrap_or(0) == 0
        }
        _ => false,
    }
}

/// An IPv6 address without brackets.
fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(server: &str, proxy: &str, environment: &[(&str, &str)]) -> Result<Option<String>, String> {
        let mut config = Config::new(server.parse().unwrap());
        config.proxy_url = Some(proxy.parse().unwrap());
        let variable = |name: &str| {
            environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        let found = Proxy::find(&config, &HttpConnector::new(), variable);
        found.map(|proxy| proxy.map(|proxy| proxy.name)).map_err(|error| error.to_string())
    }

    #[test]
    fn no_proxy_follows_the_rules_of_go() {
        let list = "example.org, .below.net,*.star.net, ported.org:8443 ,10.0.0.0/8,192.168.1.7,fd00::/8,[2001:db8::1]:443";
        for (host, port) in [
            ("example.org", 443),
            ("API.Example.org", 6443),
            ("a.below.net", 443),
            ("a.b.star.net", 443),
            ("ported.org", 8443),
            ("10.9.8.7", 6443),
            ("192.168.1.7", 6443),
            ("[fd12::1]", 443),
            ("[2001:db8::1]", 443),
        ] {
            assert!(is_exempt(host, port, list), "{host}:{port}");
        }
        for (host, port) in [
            ("notexample.org", 443),
            ("below.net", 443),
            ("star.net", 443),
            ("ported.org", 443),
            ("11.0.0.1", 443),
            ("192.168.1.70", 443),
            ("[2001:db8::1]", 6443),
            ("[2001:db8::2]", 443),
        ] {
            assert!(!is_exempt(host, port, list), "{host}:{port}");
        }
        assert!(is_exempt("anything", 443, "*") && is_exempt("1.2.3.4", 443, "0.0.0.0/0"));
    }

    #[test]
    fn the_environments_proxy_is_never_used_for_the_local_machine() {
        let proxy = "http://user:secret@proxy.example:3128";
        let environment = [("https_proxy", proxy)];
        for server in ["https://127.0.0.1:6443", "https://localhost:6443", "https://[::1]:6443"] {
            assert_eq!(find(server, proxy, &environment), Ok(None), "{server}");
        }
        let through = Ok(Some("http://proxy.example:3128".to_owned()));
        assert_eq!(find("https://api.example", proxy, &environment), through);
        let exempt = [("https_proxy", proxy), ("NO_PROXY", "api.example")];
        assert_eq!(find("https://api.example", proxy, &exempt), Ok(None));
        // A proxy in the kubeconfig is always used.
        assert_eq!(find("https://127.0.0.1:6443", proxy, &[("NO_PROXY", "*")]), through);
    }

    #[test]
    fn an_unusable_proxy_is_reported_with_its_source_and_without_its_password() {
        let proxy = "socks5://user:secret@proxy.example:1080";
        let error = find("https://api.example", proxy, &[("HTTPS_PROXY", proxy)]).unwrap_err();
        assert!(error.contains("$HTTPS_PROXY") && error.contains("socks5://proxy.example:1080"), "{error}");
        assert!(!error.contains("secret"), "{error}");
        let error = find("https://api.example", "https://proxy.example", &[]).unwrap_err();
        assert!(error.contains("`proxy-url`"), "{error}");
    }
}
