//! SOCKS5 (RFC 1928): `CONNECT` without authentication, and nothing else.

use super::{ConnectError, Way, tunnel};
use crate::limits::PROXY_HEAD_TIME;
use halter_policy::{Destination, Host};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

pub(super) const VERSION: u8 = 5;

const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;

/// What a request is answered with.
#[derive(Clone, Copy)]
enum SocksReply {
    Connected = 0,
    NotAllowed = 2,
    HostUnreachable = 4,
    Refused = 5,
    NotSupported = 7,
    AddressNotSupported = 8,
}

pub(super) async fn serve(mut stream: TcpStream, way: &Way) -> io::Result<()> {
    let asked = timeout(PROXY_HEAD_TIME, request(&mut stream)).await;
    let Some(asked) = asked.map_err(|_| io::ErrorKind::TimedOut)?? else {
        return Ok(());
    };
    let outcome = match asked {
        Ok(destination) => way.connect(&destination).await.map_err(|it| reply_to(&it)),
        Err(reply) => Err(reply),
    };
    match outcome {
        Ok(outside) => {
            answer(&mut stream, SocksReply::Connected).await?;
            tunnel::run(stream, outside).await
        }
        Err(reply) => {
            answer(&mut stream, reply).await?;
            stream.shutdown().await
        }
    }
}

/// Reads a request; absent: the client speaks no method of ours, and has been
/// told.
async fn request(stream: &mut TcpStream) -> io::Result<Option<Result<Destination, SocksReply>>> {
    let [_version, methods] = bytes(stream).await?;
    let mut offered = vec![0; methods.into()];
    stream.read_exact(&mut offered).await?;
    if !offered.contains(&NO_AUTHENTICATION) {
        stream.write_all(&[VERSION, NO_METHOD]).await?;
        stream.shutdown().await?;
        return Ok(None);
    }
    stream.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
    let [version, command, _reserved, kind] = bytes(stream).await?;
    let host = match kind {
        1 => Ok(Host::address(
            Ipv4Addr::from(bytes::<4>(stream).await?).into(),
        )),
        4 => Ok(Host::address(
            Ipv6Addr::from(bytes::<16>(stream).await?).into(),
        )),
        3 => {
            let [length] = bytes(stream).await?;
            let mut name = vec![0; length.into()];
            stream.read_exact(&mut name).await?;
            let name = String::from_utf8(name).unwrap_or_default();
            Host::parse(&name).map_err(|_| SocksReply::HostUnreachable)
        }
        _ => return Ok(Some(Err(SocksReply::AddressNotSupported))),
    };
    let port = u16::from_be_bytes(bytes(stream).await?);
    if (version, command) != (VERSION, CONNECT) {
        return Ok(Some(Err(SocksReply::NotSupported)));
    }
    if port == 0 {
        return Ok(Some(Err(SocksReply::HostUnreachable)));
    }
    Ok(Some(host.map(|host| Destination {
        host,
        port: Some(port),
    })))
}

async fn bytes<const COUNT: usize>(stream: &mut TcpStream) -> io::Result<[u8; COUNT]> {
    let mut read = [0; COUNT];
    stream.read_exact(&mut read).await?;
    Ok(read)
}

fn reply_to(error: &ConnectError) -> SocksReply {
    match error {
        ConnectError::Refused(_) => SocksReply::NotAllowed,
        ConnectError::Unreachable { source, .. }
            if source.kind() == io::ErrorKind::ConnectionRefused =>
        {
            SocksReply::Refused
        }
        _ => SocksReply::HostUnreachable,
    }
}

/// The address that it is bound to is nobody's business.
async fn answer(stream: &mut TcpStream, reply: SocksReply) -> io::Result<()> {
    stream
        .write_all(&[VERSION, reply as u8, 0, 1, 0, 0, 0, 0, 0, 0])
        .await
}
