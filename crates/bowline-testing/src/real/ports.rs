//! Free ports on loopback.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// Different ports that are free now.
///
/// The programs can neither inherit a socket nor report a port that they chose. So another process may take a port before
/// the program does; the caller then tries again.
pub(super) fn free_ports<const N: usize>() -> io::Result<[u16; N]> {
    let mut ports = [0; N];
    // All stay bound until the last is found, so that they differ.
    let mut held = Vec::with_capacity(N);
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_and_are_free() {
        let mut ports = free_ports::<16>().unwrap();
        ports.sort_unstable();
        assert!(ports.windows(2).all(|pair| pair[0] < pair[1]), "{ports:?}");
    }
}
