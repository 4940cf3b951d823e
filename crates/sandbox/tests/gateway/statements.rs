//! Statements that are not for clients (G7).

use crate::bed::{Bed, Database, count, metric, serving, write};
use bolt::message::{Extra, FailureClass, Fetch, Request, Run};
use sandbox::standin::memgraph::client::Message;

#[tokio::test]
async fn a_role_statement_is_refused_and_the_session_goes_on() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::start(Some(serving(4, 0)), &[main.server.bolt()]).await;
    let mut client = bed.client().await.unwrap();
    for statement in [
        "SET REPLICATION ROLE TO REPLICA WITH PORT 10000",
        "/* harmless */ drop replica x",
        "REGISTER REPLICA x SYNC TO '127.0.0.1:10000'",
    ] {
        let outcome = client.query(statement).await.unwrap();
        let failure = outcome.failure().expect(statement);
        assert_eq!(failure.class(), FailureClass::Client, "{failure}");
        assert!(failure.message.contains("not sent on"), "{failure}");
        write(&mut client).await.unwrap();
    }
    let role = client.query("SHOW REPLICATION ROLE").await.unwrap();
    assert_eq!(role.rows().unwrap()[0][0].as_str(), Some("main"));
    assert_eq!(count(&mut client).await, 3);
    assert_eq!(
        metric(&bed.gateway, "refused_total{kind=\"role_statement\"}")
            .await
            .to_string(),
        "3"
    );
}

#[tokio::test]
async fn a_refusal_does_not_overtake_the_answers_before_it_and_what_follows_is_ignored() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::start(Some(serving(4, 0)), &[main.server.bolt()]).await;
    let mut client = bed.client().await.unwrap();
    main.server
        .inject(&sandbox::standin::memgraph::Fault::SlowBolt { ms: 20 })
        .unwrap();
    for request in [
        Request::Begin(Extra::default()),
        Request::Run(Run::new("CREATE (:P)")),
        Request::Pull(Fetch::ALL),
        Request::Run(Run::new("DROP REPLICA x")),
        Request::Pull(Fetch::ALL),
        Request::Commit,
    ] {
        client.send(&request).await.unwrap();
    }
    for _ in 0..3 {
        let answer = client.receive().await.unwrap();
        assert!(matches!(answer, Message::Success(_)), "{answer:?}");
    }
    let refused = client.receive().await.unwrap();
    assert!(
        matches!(&refused, Message::Failure(failure) if failure.message.contains("not sent on")),
        "{refused:?}"
    );
    for _ in 0..2 {
        assert!(matches!(client.receive().await.unwrap(), Message::Ignored));
    }
    client.reset().await.unwrap();
    assert_eq!(count(&mut client).await, 0, "the transaction went with the reset");
    write(&mut client).await.unwrap();
    assert_eq!(count(&mut client).await, 1);
}

#[tokio::test]
async fn a_statement_hidden_behind_a_comment_without_end_is_not_sent_on() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::start(Some(serving(4, 0)), &[main.server.bolt()]).await;
    let mut client = bed.client().await.unwrap();
    let hidden = format!("/*{}*/ DROP REPLICA x", "x".repeat(1024 * 1024));
    // More is not kept back than the limit: the session ends instead.
    assert!(client.query(&hidden).await.is_err());
    assert!(metric(&bed.gateway, "refused_total{kind=\"undecided\"}").await > 0.0);
    let mut other = bed.client().await.unwrap();
    let short = format!("/*{}*/ DROP REPLICA x", "x".repeat(40 * 1024));
    let outcome = other.query(&short).await.unwrap();
    assert!(outcome.failure().unwrap().message.contains("not sent on"));
    write(&mut other).await.unwrap();
}
