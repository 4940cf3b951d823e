//! The access log.

use crate::bed::{Bed, Database, serving, until, write};
use gateway::Percent;
use std::io;
use std::sync::{Arc, Mutex};
use tracing_subscriber::fmt::MakeWriter;

/// Lines that were written.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn of_access(&self) -> Vec<String> {
        let all = self.0.lock().unwrap();
        let all = String::from_utf8_lossy(&all);
        all.lines()
            .filter(|line| line.contains("access"))
            .map(str::to_owned)
            .collect()
    }
}

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn every_second_session_is_logged_when_it_ends_and_no_password_is() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(lines.clone())
        .with_ansi(false)
        .finish();
    // Of this thread, on which everything of this test runs.
    let _guard = tracing::subscriber::set_default(subscriber);
    let main = Database::main(Some(4)).await;
    let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        config.front.access_log = Percent::new(50).unwrap();
    })
    .await;
    for _ in 0..4 {
        let auth = bolt::message::Auth::basic("alice", "hunter2");
        let address = bed.gateway.bolt();
        let client = sandbox::standin::memgraph::client::Client::connect(address, auth).await;
        write(&mut client.unwrap()).await.unwrap();
    }
    until("logged", async || lines.of_access().len() >= 2).await;
    let logged = lines.of_access();
    assert_eq!(logged.len(), 2, "{logged:#?}");
    for line in &logged {
        for part in [
            "source=127.0.0.1:",
            "user=\"alice\"",
            "pod=0",
            "end=\"client\"",
            "ms=",
        ] {
            assert!(line.contains(part), "{part} in {line}");
        }
        assert!(!line.contains("up=0 ") && !line.contains("down=0 "), "{line}");
    }
    let all = String::from_utf8_lossy(&lines.0.lock().unwrap()).into_owned();
    assert!(!all.contains("hunter2"));
}
