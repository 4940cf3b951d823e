//! What is on its way to a MAIN when its gateway leaves it must not arrive later (G2).

use crate::bed::{Bed, PATIENCE, metric, no_main, serving, until};
use crate::scripted::{VERSION, let_in, log_in};
use bolt::message::{Request, Run};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

/// A MAIN that has room for little of what it is sent.
fn narrow() -> TcpListener {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    socket.listen(8).unwrap()
}

/// The client has left, so that nothing is left to cut; but the system still has what it said.
#[tokio::test]
async fn what_a_client_said_that_left_does_not_reach_the_old_main_after_the_record_was_confirmed() {
    let listener = narrow();
    let address = listener.local_addr().unwrap();
    let mut bed = Bed::with(Some(serving(4, 0)), &[address], |config| {
        config.timeouts.half_closed = Duration::from_millis(100);
    })
    .await;
    let mut client = TcpStream::connect(bed.gateway.bolt()).await.unwrap();
    let main = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let_in(&mut stream).await.unwrap();
        stream
    };
    let (mut main, logged_in) = tokio::join!(main, log_in(&mut client));
    logged_in.unwrap();
    let mut said = Vec::new();
    let large = Run::new("CREATE (:P {x: $x})").with("x", "x".repeat(500_000));
    Request::Run(large).frame(VERSION, &mut said).unwrap();
    client.write_all(&said).await.unwrap();
    client.shutdown().await.unwrap();
    until("it left", async || metric(&bed.gateway, "sessions").await < 1.0).await;
    assert!(metric(&bed.gateway, "bytes_total{kind=\"up\"}").await > 500_000.0);
    bed.records.send_replace(Some(no_main(&serving(4, 0), 1)));
    bed.confirmed(5).await;
    // From here on the operator may promote another one, whatever this one does with what it reads.
    let mut heard = Vec::new();
    timeout(PATIENCE, main.read_to_end(&mut heard))
        .await
        .unwrap()
        .ok();
    assert!(heard.len() < said.len(), "{} of {}", heard.len(), said.len());
}
