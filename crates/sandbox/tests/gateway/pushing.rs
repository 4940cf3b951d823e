//! The operator's push, and what else the admin port says.

use crate::bed::{Bed, Database, PATIENCE, TOKEN, data, http, metric, no_main, push, serving, until, write};
use mainstay_core::memgraph::ids::Term;
use mainstay_core::memgraph::objects::Confirmation;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

#[tokio::test]
async fn a_push_without_the_token_is_refused_and_changes_nothing() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::start(Some(serving(4, 0)), &[main.server.bolt()]).await;
    let mut client = bed.client().await.unwrap();
    let next = no_main(&serving(4, 0), 0);
    assert_eq!(push(&bed.gateway, &next, "wrong").await.0, 401);
    let body = serde_json::to_string(&data(&next)).unwrap();
    assert_eq!(http(&bed.gateway, "POST /v1/record HTTP/1.1", &body).await.0, 401);
    write(&mut client).await.unwrap();
    assert_eq!(bed.gateway.confirmation().term, Term(4));
}

#[tokio::test]
async fn a_push_cuts_and_is_answered_with_the_confirmation_afterwards() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::start(Some(serving(4, 0)), &[main.server.bolt()]).await;
    let _client = bed.client().await.unwrap();
    let next = no_main(&serving(4, 0), 1);
    let (status, body) = push(&bed.gateway, &next, TOKEN).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(metric(&bed.gateway, "sessions").await.to_string(), "0");
    assert_eq!(metric(&bed.gateway, "cut_sessions_total").await.to_string(), "1");
    let said: Confirmation = serde_json::from_str(&body).unwrap();
    assert_eq!((said.term, said.revision), (next.term, next.revision));
    assert!(said.heard.is_some());
    let (status, state) = http(&bed.gateway, "GET /v1/state HTTP/1.1", "").await;
    assert_eq!(status, 200);
    assert_eq!(
        serde_json::from_str::<Confirmation>(&state).unwrap().term,
        next.term
    );
}

#[tokio::test]
async fn a_push_that_is_older_is_answered_with_what_is_known() {
    let main = Database::main(Some(5)).await;
    let bed = Bed::start(Some(serving(5, 0)), &[main.server.bolt()]).await;
    let mut client = bed.client().await.unwrap();
    let (status, body) = push(&bed.gateway, &serving(4, 0), TOKEN).await;
    assert_eq!(status, 200);
    assert_eq!(serde_json::from_str::<Confirmation>(&body).unwrap().term, Term(5));
    write(&mut client).await.unwrap();
}

#[tokio::test]
async fn a_push_that_is_no_record_changes_nothing() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::start(Some(serving(4, 0)), &[main.server.bolt()]).await;
    let mut client = bed.client().await.unwrap();
    let head = format!("POST /v1/record HTTP/1.1\r\nAuthorization: Bearer {TOKEN}");
    let huge = format!("{{\"record\": \"{}\"}}", "x".repeat(2 * 1024 * 1024));
    for (body, status) in [
        ("", 400),
        ("{}", 422),
        ("{\"targetMainIndex\": \"1\"}", 422),
        ("{\"record\": \"{}\"}", 422),
        ("[1, 2]", 400),
        (&huge, 413),
    ] {
        let shown: String = body.chars().take(40).collect();
        assert_eq!(http(&bed.gateway, &head, body).await.0, status, "{shown}");
    }
    write(&mut client).await.unwrap();
}

#[tokio::test]
async fn the_admin_port_says_how_the_gateway_is() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::start(Some(serving(4, 0)), &[main.server.bolt()]).await;
    until("ready", async || {
        http(&bed.gateway, "GET /readyz HTTP/1.1", "").await.0 == 200
    })
    .await;
    assert_eq!(http(&bed.gateway, "GET /livez HTTP/1.1", "").await.0, 200);
    assert_eq!(http(&bed.gateway, "GET /elsewhere HTTP/1.1", "").await.0, 404);
    assert_eq!(http(&bed.gateway, "GET /v1/record HTTP/1.1", "").await.0, 405);
    write(&mut bed.client().await.unwrap()).await.unwrap();
    assert_eq!(metric(&bed.gateway, "term").await.to_string(), "4");
    for name in [
        "admitted_total",
        "bytes_total{kind=\"up\"}",
        "bytes_total{kind=\"down\"}",
        "cuts_total",
    ] {
        assert!(metric(&bed.gateway, name).await > 0.0, "{name}");
    }
}

#[tokio::test]
async fn whoever_connects_and_says_nothing_keeps_no_push_out() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::start(Some(serving(4, 0)), &[main.server.bolt()]).await;
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(bed.gateway.admin()).await.unwrap());
    }
    let next = no_main(&serving(4, 0), 1);
    let (status, body) = push(&bed.gateway, &next, TOKEN).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(bed.gateway.confirmation().term, Term(5));
}

#[tokio::test]
async fn whoever_does_not_read_its_answers_is_closed() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        config.timeouts.admin = Duration::from_millis(500);
    })
    .await;
    let mut stream = TcpStream::connect(bed.gateway.admin()).await.unwrap();
    let ask = b"GET /metrics HTTP/1.1\r\nHost: gateway\r\n\r\n";
    let asks = async { while stream.write_all(ask).await.is_ok() {} };
    timeout(PATIENCE, asks).await.expect("closed");
}
