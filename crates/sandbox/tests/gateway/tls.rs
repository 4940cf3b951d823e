//! TLS with clients and with databases.

use crate::bed::{Bed, Database, PATIENCE, cluster, login_failure, metric, serving, until, write};
use crate::tunnel::{Authority, Folder, Pair, Tunnel};
use bolt::message::{Auth, Run};
use gateway::{BackendTls, ServerTls};
use mainstay_core::memgraph::ids::Ordinal;
use sandbox::standin::memgraph::client::{Client, ClientError};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const NAME: &str = "graph.example";

fn stored(folder: &Folder, pair: &Pair) -> ServerTls {
    ServerTls {
        certificate: folder.write("tls.crt", &pair.certificate),
        key: folder.write("tls.key", &pair.key),
        client_ca: None,
    }
}

async fn connect(to: SocketAddr) -> Result<Client, ClientError> {
    Client::connect_within(to, Auth::None, PATIENCE).await
}

#[tokio::test]
async fn g8_a_client_with_tls_is_served_and_one_without_is_not() {
    let main = Database::main(Some(4)).await;
    let authority = Authority::new("clients trust it");
    let folder = Folder::new();
    let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        config.front.tls = Some(stored(&folder, &authority.sign(NAME)));
    })
    .await;
    let tunnel = Tunnel::into_tls(bed.gateway.bolt(), authority.client(None), NAME).await;
    let mut client = connect(tunnel.address).await.unwrap();
    write(&mut client).await.unwrap();
    // Larger than any buffer on the way, in both directions.
    let text = "x".repeat(3 << 20);
    let echo = client
        .run(&Run::new("RETURN $text").with("text", text.as_str()))
        .await;
    let echo = echo.unwrap();
    assert_eq!(echo.rows().unwrap()[0][0].as_str().unwrap().len(), text.len());
    assert!(bed.client().await.is_err(), "without TLS");
    until("counted", async || {
        metric(&bed.gateway, "refused_total{kind=\"client_no_tls\"}").await > 0.0
    })
    .await;
    let stranger = Authority::new("nobody knows it");
    let wrong = Tunnel::into_tls(bed.gateway.bolt(), stranger.client(None), NAME).await;
    assert!(
        connect(wrong.address).await.is_err(),
        "the client does not trust it"
    );
    write(&mut client).await.unwrap();
}

#[tokio::test]
async fn a_session_with_tls_is_moved_like_any_other() {
    let (first, second) = (Database::main(Some(4)).await, Database::main(Some(5)).await);
    let authority = Authority::new("clients trust it");
    let folder = Folder::new();
    let addresses = [first.server.bolt(), second.server.bolt()];
    let mut bed = Bed::with(Some(serving(4, 0)), &addresses, |config| {
        config.front.tls = Some(stored(&folder, &authority.sign(NAME)));
    })
    .await;
    let tunnel = Tunnel::into_tls(bed.gateway.bolt(), authority.client(None), NAME).await;
    let mut client = connect(tunnel.address).await.unwrap();
    write(&mut client).await.unwrap();
    bed.records.send_replace(Some(serving(5, 1)));
    bed.confirmed(5).await;
    write(&mut client).await.unwrap();
    assert_eq!((first.count().await, second.count().await), (1, 1));
}

#[tokio::test]
async fn g8_a_changed_certificate_is_shown_to_new_clients_and_old_ones_go_on() {
    let main = Database::main(Some(4)).await;
    let (before, after) = (Authority::new("before"), Authority::new("after"));
    let folder = Folder::new();
    let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        config.front.tls = Some(stored(&folder, &before.sign(NAME)));
    })
    .await;
    let old = Tunnel::into_tls(bed.gateway.bolt(), before.client(None), NAME).await;
    let mut client = connect(old.address).await.unwrap();
    // A key that belongs to nothing changes nothing, and is counted.
    let next = after.sign(NAME);
    folder.write("tls.key", &next.key);
    until("seen", async || {
        metric(&bed.gateway, "tls_reload_errors_total").await > 0.0
    })
    .await;
    write(&mut connect(old.address).await.unwrap()).await.unwrap();
    folder.write("tls.crt", &next.certificate);
    until("taken up", async || {
        metric(&bed.gateway, "tls_reloads_total").await > 0.0
    })
    .await;
    let new = Tunnel::into_tls(bed.gateway.bolt(), after.client(None), NAME).await;
    write(&mut connect(new.address).await.unwrap()).await.unwrap();
    assert!(
        connect(old.address).await.is_err(),
        "the old one is not shown any more"
    );
    write(&mut client).await.unwrap();
}

#[tokio::test]
async fn where_clients_need_a_certificate_one_without_it_is_not_served() {
    let main = Database::main(Some(4)).await;
    let (authority, staff) = (Authority::new("clients trust it"), Authority::new("staff"));
    let folder = Folder::new();
    let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        let mut tls = stored(&folder, &authority.sign(NAME));
        tls.client_ca = Some(folder.write("ca.crt", &staff.pem()));
        config.front.tls = Some(tls);
    })
    .await;
    let member = staff.sign("alice");
    let known = authority.client(Some(&member));
    let known = Tunnel::into_tls(bed.gateway.bolt(), known, NAME).await;
    write(&mut connect(known.address).await.unwrap()).await.unwrap();
    let forged = Authority::new("staff").sign("mallory");
    for config in [authority.client(None), authority.client(Some(&forged))] {
        let tunnel = Tunnel::into_tls(bed.gateway.bolt(), config, NAME).await;
        assert!(connect(tunnel.address).await.is_err());
    }
    assert_eq!(main.count().await, 1);
}

#[tokio::test]
async fn g8_a_changed_authority_of_clients_counts_for_new_ones_and_old_ones_go_on() {
    let main = Database::main(Some(4)).await;
    let (authority, before, after) = (
        Authority::new("clients trust it"),
        Authority::new("staff"),
        Authority::new("new staff"),
    );
    let folder = Folder::new();
    let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        let mut tls = stored(&folder, &authority.sign(NAME));
        tls.client_ca = Some(folder.write("ca.crt", &before.pem()));
        config.front.tls = Some(tls);
    })
    .await;
    let gateway = bed.gateway.bolt();
    let (alice, bob) = (before.sign("alice"), after.sign("bob"));
    let old = Tunnel::into_tls(gateway, authority.client(Some(&alice)), NAME).await;
    let new = Tunnel::into_tls(gateway, authority.client(Some(&bob)), NAME).await;
    let mut client = connect(old.address).await.unwrap();
    assert!(connect(new.address).await.is_err(), "nobody knows it yet");
    // What is no authority changes nothing, and is counted.
    folder.write("ca.crt", "nonsense");
    until("seen", async || {
        metric(&bed.gateway, "tls_reload_errors_total").await > 0.0
    })
    .await;
    write(&mut connect(old.address).await.unwrap()).await.unwrap();
    folder.write("ca.crt", &after.pem());
    until("taken up", async || {
        metric(&bed.gateway, "tls_reloads_total").await > 0.0
    })
    .await;
    write(&mut connect(new.address).await.unwrap()).await.unwrap();
    assert!(connect(old.address).await.is_err(), "its time is over");
    write(&mut client).await.unwrap();
}

#[tokio::test]
async fn g8_a_changed_authority_of_databases_counts_for_new_connections_and_old_ones_go_on() {
    let main = Database::main(Some(4)).await;
    let (before, after) = (Authority::new("databases"), Authority::new("new databases"));
    let host = cluster().pod_host(Ordinal(0), "db");
    let folder = Folder::new();
    let database = Tunnel::out_of_tls(main.server.bolt(), &before.sign(&host)).await;
    let bed = Bed::with(Some(serving(4, 0)), &[database.address], |config| {
        config.timeouts.hold = Duration::from_millis(300);
        config.back.tls = Some(BackendTls {
            ca: folder.write("ca.crt", &before.pem()),
            server_name: None,
        });
    })
    .await;
    let mut client = bed.client().await.unwrap();
    write(&mut client).await.unwrap();
    folder.write("ca.crt", &after.pem());
    until("taken up", async || {
        metric(&bed.gateway, "tls_reloads_total").await > 0.0
    })
    .await;
    let refused = login_failure(bed.client().await);
    assert!(refused.message.contains("no TLS"), "{refused}");
    write(&mut client).await.unwrap();
    folder.write("ca.crt", &before.pem());
    until("taken up again", async || {
        metric(&bed.gateway, "tls_reloads_total").await > 1.0
    })
    .await;
    write(&mut bed.client().await.unwrap()).await.unwrap();
    assert_eq!(main.count().await, 3);
}

#[tokio::test]
async fn g8_a_database_with_tls_is_used_if_its_authority_and_name_are_right_and_only_then() {
    let main = Database::main(Some(4)).await;
    let (right, wrong) = (Authority::new("databases"), Authority::new("somebody else"));
    let host = cluster().pod_host(Ordinal(0), "db");
    let folder = Folder::new();
    let known = folder.write("right.crt", &right.pem());
    let unknown = folder.write("wrong.crt", &wrong.pem());
    for (signed_for, ca, server_name, served) in [
        (host.as_str(), &known, None, true),
        (NAME, &known, Some(NAME), true),
        (NAME, &known, None, false),
        (host.as_str(), &unknown, None, false),
    ] {
        let database = Tunnel::out_of_tls(main.server.bolt(), &right.sign(signed_for)).await;
        let bed = Bed::with(Some(serving(4, 0)), &[database.address], |config| {
            config.timeouts.hold = Duration::from_millis(200);
            config.back.tls = Some(BackendTls {
                ca: ca.clone(),
                server_name: server_name.map(str::to_owned),
            });
        })
        .await;
        if served {
            write(&mut bed.client().await.unwrap()).await.unwrap();
        } else {
            let refused = login_failure(bed.client().await);
            assert!(refused.message.contains("no TLS"), "{refused}");
            assert!(metric(&bed.gateway, "checks_total{kind=\"tls\"}").await > 0.0);
        }
    }
    assert_eq!(main.count().await, 2);
}

#[tokio::test]
async fn a_handshake_that_is_never_finished_is_closed() {
    let main = Database::main(Some(4)).await;
    let authority = Authority::new("clients trust it");
    let folder = Folder::new();
    let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        config.timeouts.client = Duration::from_millis(200);
        config.front.tls = Some(stored(&folder, &authority.sign(NAME)));
    })
    .await;
    // The begin of a ClientHello, and no more of it.
    let mut stream = TcpStream::connect(bed.gateway.bolt()).await.unwrap();
    stream
        .write_all(&[0x16, 0x03, 0x01, 0x01, 0x00, 0x01])
        .await
        .unwrap();
    let mut rest = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut rest))
        .await
        .expect("closed");
    assert!(metric(&bed.gateway, "refused_total{kind=\"client_silent\"}").await > 0.0);
}

#[tokio::test]
async fn a_gateway_whose_certificate_cannot_be_read_does_not_start() {
    let folder = Folder::new();
    let mut config = crate::bed::config("a");
    config.front.tls = Some(ServerTls {
        certificate: folder.path().join("nowhere.crt"),
        key: folder.path().join("nowhere.key"),
        client_ca: None,
    });
    let (_records, followed) = tokio::sync::watch::channel(None);
    let (told, _) = tokio::sync::watch::channel(None);
    let plane = gateway::Plane::Channel {
        records: followed,
        told,
    };
    let started = gateway::Gateway::start(config, plane, crate::bed::pods(&[])).await;
    assert!(
        matches!(started, Err(gateway::StartError::Secure(_))),
        "{started:?}"
    );
}
