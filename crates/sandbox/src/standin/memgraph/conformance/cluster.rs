//! Three servers and what is asked of them.

use super::super::client::{Client, ClientError, Outcome};
use super::super::faults::Fault;
use super::super::process::{Place, Process, ProcessError, free_ports};
use super::Subject;
use bolt::message::{Auth, Run};
use bolt::packstream::{OwnedValue, Value};
use sim::memgraph::instance::Profile;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};
use thiserror::Error;
use tokio::time::sleep;

/// Why an item is not confirmed.
#[derive(Debug, Error)]
pub(super) enum Trouble {
    #[error("{0}")]
    Different(String),
    #[error("{0}")]
    NotTestable(String),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// Fails an item unless something holds.
pub(super) fn expect(holds: bool, otherwise: impl Into<String>) -> Result<(), Trouble> {
    if holds {
        Ok(())
    } else {
        Err(Trouble::Different(otherwise.into()))
    }
}

/// Three servers, 0 to 2.
pub(super) struct Cluster {
    subject: Subject,
    nodes: [Node; 3],
}

struct Node {
    place: Place,
    replication: u16,
    process: Option<Process>,
}

const PATIENCE: Duration = Duration::from_secs(30);

impl Cluster {
    pub(super) async fn start(subject: &Subject, folder: &Path) -> Result<Self, Trouble> {
        let node = |name: &str| {
            let [bolt_port, admin_port, replication, monitoring, metrics] = free_ports()?;
            let mut flags = vec!["--storage-wal-file-flush-every-n-tx=1".to_owned()];
            if subject.program.stand_in {
                flags.push(format!("--profile={}", profile_flag(subject.profile)));
                flags.push(format!("--time-scale={}", subject.scale));
            } else {
                flags.extend([
                    "--storage-wal-enabled=true".to_owned(),
                    "--storage-snapshot-interval-sec=300".to_owned(),
                    "--storage-snapshot-on-exit=true".to_owned(),
                    "--data-recovery-on-startup=true".to_owned(),
                    "--telemetry-enabled=false".to_owned(),
                    "--log-file=".to_owned(),
                    format!("--monitoring-port={monitoring}"),
                    format!("--metrics-port={metrics}"),
                ]);
            }
            let place = Place {
                host: Ipv4Addr::LOCALHOST.into(),
                bolt_port,
                admin_port,
                data: folder.join(name).join("data"),
                flags,
                environment: Vec::new(),
            };
            Ok::<_, Trouble>(Node {
                place,
                replication,
                process: None,
            })
        };
        let mut cluster = Self {
            nodes: [node("a")?, node("b")?, node("c")?],
            subject: subject.clone(),
        };
        for at in 0..3 {
            cluster.begin(at, &[]).await?;
        }
        Ok(cluster)
    }

    pub(super) const fn profile(&self) -> Profile {
        self.subject.profile
    }

    /// A time of the real server, here.
    pub(super) fn scaled(&self, seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds * self.subject.scale)
    }

    fn node(&mut self, at: usize) -> Result<&mut Node, Trouble> {
        self.nodes
            .get_mut(at)
            .ok_or_else(|| Trouble::Different(format!("there is no server {at}")))
    }

    fn process(&mut self, at: usize) -> Result<&mut Process, Trouble> {
        self.node(at)?
            .process
            .as_mut()
            .ok_or_else(|| Trouble::Different(format!("server {at} does not run")))
    }

    /// Starts a server on its disk, with more flags.
    pub(super) async fn begin(&mut self, at: usize, flags: &[String]) -> Result<(), Trouble> {
        let program = self.subject.program.clone();
        let node = self.node(at)?;
        let mut place = node.place.clone();
        place.flags.extend_from_slice(flags);
        let mut process = Process::start(&program, &place)?;
        process.open(PATIENCE).await?;
        node.process = Some(process);
        Ok(())
    }

    pub(super) async fn kill(&mut self, at: usize) -> Result<(), Trouble> {
        self.process(at)?.kill().await?;
        Ok(())
    }

    /// Waits until a server ends by itself.
    pub(super) async fn ended(&mut self, at: usize) -> Result<(), Trouble> {
        self.process(at)?.ended(PATIENCE).await?;
        Ok(())
    }

    pub(super) fn signal(&mut self, at: usize, name: &str) -> Result<(), Trouble> {
        Ok(self.process(at)?.signal(name)?)
    }

    /// Empties a folder of a server that does not run.
    pub(super) fn wipe(&mut self, at: usize, folders: &[&str]) -> Result<(), Trouble> {
        let data = self.node(at)?.place.data.clone();
        for folder in folders {
            let path = data.join(folder);
            std::fs::remove_dir_all(&path)?;
            std::fs::create_dir_all(&path)?;
        }
        Ok(())
    }

    /// Writes a file beside the data of a server.
    pub(super) fn file(&mut self, at: usize, name: &str, text: &str) -> Result<String, Trouble> {
        let path = self.node(at)?.place.data.with_file_name(name);
        std::fs::write(&path, text)?;
        Ok(path.display().to_string())
    }

    /// Only a stand-in can be made to fail on purpose.
    pub(super) fn inject(&mut self, at: usize, fault: &Fault) -> Result<(), Trouble> {
        if !self.subject.program.stand_in {
            return Err(Trouble::NotTestable(
                "a real server has no faults to order".to_owned(),
            ));
        }
        Ok(self.process(at)?.inject(fault)?)
    }

    pub(super) fn replication_port(&mut self, at: usize) -> Result<u16, Trouble> {
        Ok(self.node(at)?.replication)
    }

    pub(super) fn bolt(&mut self, at: usize) -> Result<std::net::SocketAddr, Trouble> {
        Ok(self.process(at)?.bolt())
    }

    pub(super) async fn client(&mut self, at: usize) -> Result<Client, Trouble> {
        let address = self.process(at)?.bolt();
        Ok(Client::connect(address, Auth::None).await?)
    }

    pub(super) async fn ask(&mut self, at: usize, query: &str) -> Result<Outcome, Trouble> {
        Ok(self.client(at).await?.query(query).await?)
    }

    /// The rows of a query that must work.
    pub(super) async fn rows(&mut self, at: usize, query: &str) -> Result<Vec<Vec<OwnedValue>>, Trouble> {
        self.rows_of(at, Run::new(query.to_owned())).await
    }

    pub(super) async fn rows_of(
        &mut self,
        at: usize,
        run: Run<'static>,
    ) -> Result<Vec<Vec<OwnedValue>>, Trouble> {
        match self.client(at).await?.run(&run).await? {
            Outcome::Done(table) => Ok(table.rows),
            Outcome::Refused { failure, on } => Err(Trouble::Different(format!(
                "`{}` on server {at} was refused on {on}: {failure}",
                run.query
            ))),
        }
    }

    /// The text of a refusal that must come.
    pub(super) async fn refusal(
        &mut self,
        at: usize,
        query: &str,
    ) -> Result<(String, String, &'static str), Trouble> {
        match self.ask(at, query).await? {
            Outcome::Done(_) => Err(Trouble::Different(format!(
                "`{query}` on server {at} was not refused"
            ))),
            Outcome::Refused { failure, on } => {
                Ok((failure.message.into_owned(), failure.code.into_owned(), on))
            }
        }
    }

    pub(super) async fn refused_with(&mut self, at: usize, query: &str, text: &str) -> Result<(), Trouble> {
        let (message, _, _) = self.refusal(at, query).await?;
        expect(
            message.contains(text),
            format!("`{query}`: expected `{text}`, got `{message}`"),
        )
    }

    /// Writes until it works: the first write after a replica was away may fail once.
    pub(super) async fn write(&mut self, at: usize, id: i64) -> Result<(), Trouble> {
        self.rows(at, &format!("CREATE (:W {{id: {id}}})"))
            .await
            .map(drop)
    }

    pub(super) async fn ids(&mut self, at: usize) -> Result<Vec<i64>, Trouble> {
        let rows = self.rows(at, "MATCH (n:W) RETURN n.id AS id ORDER BY id").await?;
        Ok(rows
            .iter()
            .filter_map(|row| row.first().and_then(Value::as_int))
            .collect())
    }

    pub(super) async fn has(&mut self, at: usize, ids: &[i64]) -> Result<(), Trouble> {
        let seen = self.ids(at).await?;
        expect(
            seen == ids,
            format!("server {at} should hold {ids:?} and holds {seen:?}"),
        )
    }

    pub(super) async fn role(&mut self, at: usize, role: &str) -> Result<(), Trouble> {
        let rows = self.rows(at, "SHOW REPLICATION ROLE").await?;
        let seen = rows.first().and_then(|row| row.first()).and_then(Value::as_str);
        expect(
            seen == Some(role),
            format!("server {at} should be {role} and is {seen:?}"),
        )
    }

    pub(super) async fn demote(&mut self, at: usize) -> Result<(), Trouble> {
        let port = self.replication_port(at)?;
        let query = format!("SET REPLICATION ROLE TO REPLICA WITH PORT {port}");
        self.rows(at, &query).await.map(drop)
    }

    pub(super) async fn promote(&mut self, at: usize) -> Result<(), Trouble> {
        self.rows(at, "SET REPLICATION ROLE TO MAIN").await.map(drop)
    }

    /// The query that registers `peer` as `r<peer>`.
    pub(super) fn registration(&mut self, mode: &str, peer: usize) -> Result<String, Trouble> {
        let port = self.replication_port(peer)?;
        Ok(format!("REGISTER REPLICA r{peer} {mode} TO '127.0.0.1:{port}'"))
    }

    pub(super) async fn register(&mut self, main: usize, mode: &str, peer: usize) -> Result<(), Trouble> {
        let query = self.registration(mode, peer)?;
        self.rows(main, &query).await.map(drop)
    }

    /// Server 0 MAIN, server 1 in `mode`.
    pub(super) async fn pair(&mut self, mode: &str) -> Result<(), Trouble> {
        self.demote(1).await?;
        self.register(0, mode, 1).await
    }

    /// Status of `r<peer>`: none if it is a zombie or not there.
    pub(super) async fn status(
        &mut self,
        main: usize,
        peer: usize,
    ) -> Result<Option<(String, i64)>, Trouble> {
        let name = format!("r{peer}");
        let rows = self.rows(main, "SHOW REPLICAS").await?;
        let info = rows
            .iter()
            .find(|row| row.first().and_then(Value::as_str) == Some(&name))
            .and_then(|row| row.get(4))
            .and_then(Value::as_dict)
            .and_then(|info| info.get("memgraph"))
            .and_then(Value::as_dict);
        Ok(info.and_then(|info| {
            let status = info.get("status")?.as_str()?.to_owned();
            Some((status, info.get("behind")?.as_int()?))
        }))
    }

    pub(super) async fn until(&mut self, main: usize, peer: usize, wanted: &str) -> Result<(), Trouble> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.status(main, peer).await?;
            if status.as_ref().is_some_and(|(status, _)| status == wanted) {
                return Ok(());
            }
            expect(
                Instant::now() < deadline,
                format!("r{peer} should become {wanted} and is {status:?}"),
            )?;
            sleep(Duration::from_millis(20)).await;
        }
    }
}

const fn profile_flag(profile: Profile) -> &'static str {
    match profile {
        Profile::V3_6 => "3.6",
        Profile::V3_9 => "3.9",
        Profile::V3_12 => "3.12",
        Profile::Next => "next",
    }
}
