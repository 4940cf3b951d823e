//! Load balancers in front of the gateway, and proxies behind it.

use crate::bed::{Bed, Database, PATIENCE, connect, metric, serving, until, write};
use crate::scripted::login;
use crate::tunnel::Tunnel;
use bolt::message::Auth;
use sandbox::standin::memgraph::client::{Client, ClientError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// As a load balancer writes it, for a client with this address.
fn header(client: [u8; 4]) -> Vec<u8> {
    let mut bytes = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0C".to_vec();
    bytes.extend_from_slice(&client);
    bytes.extend_from_slice(&[127, 0, 0, 1, 0x15, 0xB3, 0x1E, 0x07]);
    bytes
}

async fn through(tunnel: &Tunnel) -> Result<Client, ClientError> {
    Client::connect_within(tunnel.address, Auth::None, PATIENCE).await
}

#[tokio::test]
async fn the_limits_of_a_source_are_those_of_the_client_that_is_named() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        config.front.proxy_protocol = true;
        config.limits.per_source = Some(1);
    })
    .await;
    let one = Tunnel::saying(bed.gateway.bolt(), header([10, 0, 0, 1])).await;
    let other = Tunnel::saying(bed.gateway.bolt(), header([10, 0, 0, 2])).await;
    let mut first = through(&one).await.unwrap();
    assert!(through(&one).await.is_err(), "the second of one client");
    assert!(metric(&bed.gateway, "refused_total{kind=\"too_many_of_source\"}").await > 0.0);
    let mut second = through(&other).await.unwrap();
    write(&mut first).await.unwrap();
    write(&mut second).await.unwrap();
    drop(first);
    until("room again", async || through(&one).await.is_ok()).await;
}

#[tokio::test]
async fn a_connection_that_does_not_say_who_it_is_from_is_closed_and_counted() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        config.front.proxy_protocol = true;
        config.timeouts.client = Duration::from_millis(200);
    })
    .await;
    assert!(connect(&bed.gateway).await.is_err(), "Bolt at once");
    let kind = "refused_total{kind=\"client_no_proxy_header\"}";
    until("counted", async || metric(&bed.gateway, kind).await > 0.0).await;
    let whole = header([10, 0, 0, 1]);
    let mut odd = whole.clone();
    odd[12] = 0x31;
    let mut large = whole.clone();
    large[14] = 0xFF;
    for bytes in [&odd[..], &large, b"PROXY TCP4 10.0.0.1 127.0.0.1 5555 7687\r\n"] {
        let mut stream = TcpStream::connect(bed.gateway.bolt()).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut rest = Vec::new();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut rest))
            .await
            .expect("closed");
        assert!(rest.is_empty());
    }
    assert_eq!(metric(&bed.gateway, kind).await.to_string(), "4");
    // And one that takes its time, a byte after the other.
    let mut slow = TcpStream::connect(bed.gateway.bolt()).await.unwrap();
    slow.write_all(&whole[..5]).await.unwrap();
    let mut rest = Vec::new();
    let _ = timeout(PATIENCE, slow.read_to_end(&mut rest))
        .await
        .expect("closed");
    assert!(metric(&bed.gateway, "refused_total{kind=\"client_silent\"}").await > 0.0);
    let good = Tunnel::saying(bed.gateway.bolt(), whole).await;
    write(&mut through(&good).await.unwrap()).await.unwrap();
}

#[tokio::test]
async fn a_proxy_before_the_database_is_told_who_the_client_is() {
    let main = Database::main(Some(4)).await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let proxy = Tunnel::told(main.server.bolt(), header([0; 4]).len(), told).await;
    let bed = Bed::with(Some(serving(4, 0)), &[proxy.address], |config| {
        config.front.proxy_protocol = true;
        config.back.proxy_protocol = true;
    })
    .await;
    let tunnel = Tunnel::saying(bed.gateway.bolt(), header([10, 0, 0, 7])).await;
    write(&mut through(&tunnel).await.unwrap()).await.unwrap();
    assert_eq!(heard.recv().await.unwrap(), header([10, 0, 0, 7]));
    assert_eq!(main.count().await, 1);
}

/// Each of its steps comes in time, and all of them together do not.
#[tokio::test]
async fn a_client_that_is_slow_with_every_step_of_its_login_has_the_time_of_one() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        config.front.proxy_protocol = true;
        config.timeouts.client = Duration::from_secs(1);
    })
    .await;
    let [proposals, hello, logon] = login("slow/1");
    let steps = [header([10, 0, 0, 1]), proposals, hello, logon];
    for (pause, sessions) in [(Duration::from_millis(400), "0"), (Duration::ZERO, "1")] {
        let mut stream = TcpStream::connect(bed.gateway.bolt()).await.unwrap();
        for step in &steps {
            tokio::time::sleep(pause).await;
            // It may be closed by now.
            stream.write_all(step).await.ok();
        }
        let counted = if pause.is_zero() {
            "admitted_total"
        } else {
            "refused_total{kind=\"client_silent\"}"
        };
        until(counted, async || metric(&bed.gateway, counted).await > 0.0).await;
        assert_eq!(metric(&bed.gateway, "admitted_total").await.to_string(), sessions);
    }
}
