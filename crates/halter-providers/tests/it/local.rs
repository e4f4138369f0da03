//! Looking for servers on this computer.

use halter_providers::limits::LOCAL_PROBE_MILLIS;
use halter_providers::local::listening;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::time::Instant;

#[tokio::test]
async fn who_listens_is_found_and_sent_nothing() {
    let first = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let second = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let closed = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = |listener: &TcpListener| listener.local_addr().unwrap();
    let asked = [address(&second), address(&closed), address(&first)];
    drop(closed);
    assert_eq!(listening(&asked).await, [asked[0], asked[2]]);
    let (mut connection, _) = first.accept().await.unwrap();
    let mut sent = Vec::new();
    connection.read_to_end(&mut sent).await.unwrap();
    assert!(sent.is_empty(), "{sent:?}");
}

/// The address is reserved for documentation: whoever tries it waits, and the
/// paused clock moves on.
#[tokio::test(start_paused = true)]
async fn other_computers_are_not_asked() {
    let elsewhere: SocketAddr = "192.0.2.1:11434".parse().unwrap();
    let began = Instant::now();
    assert!(listening(&[elsewhere]).await.is_empty());
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[test]
fn a_look_around_is_short() {
    assert_eq!(LOCAL_PROBE_MILLIS, 200);
}
