//! Whose connection it is that came in over loopback.

use std::net::SocketAddr;

/// The user whose program is at the other end of a connection over IPv4
/// loopback, if that can be told: where there is no such table, there is no
/// other way to know.
pub(super) fn owner(peer: SocketAddr, local: SocketAddr) -> Option<u32> {
    let table = std::fs::read_to_string("/proc/net/tcp").ok()?;
    owner_in(&table, peer, local)
}

/// The user of the socket that is bound to `bound` and connected to `remote`.
fn owner_in(table: &str, bound: SocketAddr, remote: SocketAddr) -> Option<u32> {
    let (bound, remote) = (in_table(bound)?, in_table(remote)?);
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let matches = fields.next()? == bound && fields.next()? == remote;
        // State, queues, timer, retransmissions, then the user.
        matches.then(|| fields.nth(4)?.parse().ok()).flatten()
    })
}

/// An address as the kernel writes it in that table: bytes in the machine's
/// order.
fn in_table(address: SocketAddr) -> Option<String> {
    match address {
        SocketAddr::V4(it) => {
            let ip = u32::from_ne_bytes(it.ip().octets());
            Some(format!("{ip:08X}:{:04X}", it.port()))
        }
        SocketAddr::V6(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_user_of_a_connection_is_found_in_the_kernels_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n\
             0: 0100007F:0BB8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1\n\
             1: 0100007F:C350 0100007F:0BB8 01 00000000:00000000 00:00000000 00000000  1000        0 2\n\
             2: 0100007F:0BB8 0100007F:C350 01 00000000:00000000 00:00000000 00000000     7        0 3\n";
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        if cfg!(target_endian = "little") {
            assert_eq!(owner_in(table, at(50_000), at(3000)), Some(1000));
        }
        assert_eq!(owner_in(table, at(50_001), at(3000)), None);
        assert_eq!(owner_in("", at(50_000), at(3000)), None);
    }

    #[test]
    fn a_connection_of_this_program_is_its_users() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let local = listener.local_addr().unwrap();
        let _client = TcpStream::connect(local).unwrap();
        let (_, peer) = listener.accept().unwrap();
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(owner(peer, local), Some(own));
        let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
        assert_eq!(owner(nobody, local), None);
    }
}
