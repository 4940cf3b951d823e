//! Why a sandbox does not get ready: how its databases ended, what they logged last, what they answer.

use super::manifests::{CLUSTER, NAMESPACE};
use bolt::message::Auth;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod, PodStatus};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use mainstay_core::memgraph::objects::{BOLT_PORT, CLUSTER_LABEL, CONTAINER, ROLE_LABEL};
use operator::bolt::{Connection, Dial};
use operator::memgraph::database::{AskError, role};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How many of the last lines of a log are shown.
const LINES: usize = 20;
/// How long a database may take for each answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// An end may be chance. A server that ended twice before anybody used it will end again.
const TOO_OFTEN: i32 = 2;

/// What is wrong with the databases, as far as it can be seen.
#[derive(Debug)]
pub(crate) struct Diagnosis {
    findings: Vec<Finding>,
    folder: PathBuf,
}

#[derive(Debug, PartialEq, Eq)]
struct Finding {
    pod: String,
    what: String,
    /// It does not get better by waiting.
    hopeless: bool,
    log: Log,
}

/// What a run of a container said.
#[derive(Debug, PartialEq, Eq)]
struct Log {
    file: PathBuf,
    lines: Vec<String>,
}

impl Diagnosis {
    /// Of all databases of the sandbox in this folder. `ask`: those that run are asked, too.
    pub(crate) async fn make(client: Client, folder: &Path, ask: bool) -> Self {
        let pods: Api<Pod> = Api::namespaced(client, NAMESPACE);
        let ours = format!("{CLUSTER_LABEL}={CLUSTER},{ROLE_LABEL}=database");
        // Nobody else uses this client, and it cannot be cut off.
        let listed = pods.list(&ListParams::default().labels(&ours)).await;
        let mut findings = Vec::new();
        for pod in listed.map(|list| list.items).unwrap_or_default() {
            let status = pod.status.clone().unwrap_or_default();
            let mut found = of_containers(&status);
            if ask && found.iter().all(|found| found.container != CONTAINER) {
                found.extend(of_answer(&status).await);
            }
            let logs = folder
                .join("nodes/pods")
                .join(pod.uid().unwrap_or_default())
                .join("logs");
            for found in found {
                let Found {
                    container,
                    run,
                    what,
                    hopeless,
                } = found;
                findings.push(Finding {
                    pod: pod.name_any(),
                    what,
                    hopeless,
                    log: Log::read(logs.join(container).join(format!("{run}.log"))),
                });
            }
        }
        Self {
            findings,
            folder: folder.to_owned(),
        }
    }

    /// Is there something that does not get better by waiting?
    pub(crate) fn is_hopeless(&self) -> bool {
        self.findings.iter().any(|finding| finding.hopeless)
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            let Finding {
                pod,
                what,
                hopeless: _,
                log: Log { file, lines },
            } = finding;
            writeln!(f, "{pod}: {what}")?;
            if lines.is_empty() {
                writeln!(f, "    It logged nothing.")?;
            } else {
                writeln!(f, "    Its log is {} and ends with", file.display())?;
            }
            for line in lines {
                writeln!(f, "    | {line}")?;
            }
        }
        let folder = self.folder.display();
        write!(
            f,
            "Everything is kept in {folder}, logs in {folder}/nodes/pods/*/logs: remove it when it is not needed any more."
        )
    }
}

impl Log {
    /// The end of it, without the time and the name of the stream before each line.
    fn read(file: PathBuf) -> Self {
        // There is none of what was never run.
        let bytes = std::fs::read(&file).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let said = text
            .lines()
            .map(|line| line.splitn(4, ' ').nth(3).unwrap_or_default().to_owned());
        let mut lines: Vec<String> = said.collect();
        lines.drain(..lines.len().saturating_sub(LINES));
        Self { file, lines }
    }
}

/// Something that is wrong with a container.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    container: String,
    /// Of which of its runs, from zero.
    run: i32,
    what: String,
    hopeless: bool,
}

/// What its node says of the containers of a pod.
fn of_containers(status: &PodStatus) -> Vec<Found> {
    let init = status.init_container_statuses.iter().flatten();
    let all = status.container_statuses.iter().flatten();
    let init = init.filter(|status| ended(status).is_none_or(|(_, how)| how.exit_code != 0));
    init.chain(all).filter_map(of_container).collect()
}

fn of_container(status: &ContainerStatus) -> Option<Found> {
    let name = &status.name;
    let found = |run, what, hopeless| Found {
        container: name.clone(),
        run,
        what,
        // The others are ours, and may end until the API answers them.
        hopeless: hopeless && name == CONTAINER,
    };
    if let Some((times, how)) = ended(status) {
        let times_in_words = if times == 1 {
            "once".to_owned()
        } else {
            format!("{times} times, at last")
        };
        let how = in_words(how);
        return Some(found(
            times - 1,
            format!("{name} ended {times_in_words} {how}"),
            times >= TOO_OFTEN,
        ));
    }
    let waiting = status.state.as_ref()?.waiting.as_ref()?;
    let message = waiting.message.as_deref().unwrap_or_default();
    // What every container waits for before it is started has no message.
    (!message.is_empty()).then(|| {
        let why = waiting.reason.as_deref().unwrap_or_default();
        found(
            status.restart_count,
            format!("{name} does not start: {message}"),
            why == "RunContainerError",
        )
    })
}

/// How often it ended, and how it did the last time.
fn ended(status: &ContainerStatus) -> Option<(i32, &ContainerStateTerminated)> {
    let now = status.state.as_ref();
    let runs = now.is_some_and(|state| state.running.is_some());
    let last = now.and_then(|state| state.terminated.as_ref());
    let last = last.or_else(|| status.last_state.as_ref()?.terminated.as_ref())?;
    Some((status.restart_count + i32::from(!runs), last))
}

fn in_words(how: &ContainerStateTerminated) -> String {
    match how.signal {
        Some(signal) => {
            let name = match signal {
                4 => " (SIGILL: is it built for another processor?)",
                6 => " (SIGABRT)",
                9 => " (SIGKILL)",
                11 => " (SIGSEGV)",
                _ => "",
            };
            format!("by signal {signal}{name}")
        }
        None => format!("with exit code {}", how.exit_code),
    }
}

/// What a database that runs says itself.
async fn of_answer(status: &PodStatus) -> Option<Found> {
    let mut containers = status.container_statuses.iter().flatten();
    let database = containers.find(|container| container.name == CONTAINER)?;
    database.state.as_ref()?.running.as_ref()?;
    let ip: IpAddr = status.pod_ip.as_ref()?.parse().ok()?;
    let (why, hopeless) = asked(SocketAddr::new(ip, BOLT_PORT)).await.err()?;
    Some(Found {
        container: CONTAINER.to_owned(),
        run: database.restart_count,
        what: format!("{CONTAINER} runs, and when it is asked for its role: {why}"),
        hopeless,
    })
}

/// Why it cannot be used, and whether it ever will.
async fn asked(database: SocketAddr) -> Result<(), (String, bool)> {
    let dial = Dial {
        auth: Auth::None,
        reach: PATIENCE,
        login: PATIENCE,
    };
    let connected = Connection::open(database, &dial).await;
    let mut connection = connected.map_err(|error| (error.to_string(), false))?;
    match role(&mut connection, PATIENCE).await {
        Ok(_) => Ok(()),
        Err(error @ AskError::Client(_)) => Err((error.to_string(), false)),
        // Another server than one that we know.
        Err(error @ (AskError::Form(_) | AskError::Row(_))) => Err((error.to_string(), true)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bolt::packstream::OwnedDict;
    use bolt::server::{Event, ServerConfig, ServerInput, ServerOutput, ServerProfile, ServerSession};
    use bolt::time::Moment;
    use serde_json::{Value, json};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    fn of(statuses: &[Value]) -> Vec<Found> {
        let status = json!({
            "initContainerStatuses": [container("data-cleanup", 0, &terminated(0, None), &json!({}))],
            "containerStatuses": statuses,
        });
        of_containers(&serde_json::from_value(status).unwrap())
    }

    fn container(name: &str, restarts: i32, state: &Value, last: &Value) -> Value {
        json!({
            "name": name, "image": "i", "imageID": "i", "ready": false,
            "restartCount": restarts, "state": state, "lastState": last,
        })
    }

    fn terminated(code: i32, signal: Option<i32>) -> Value {
        json!({ "terminated": { "exitCode": code, "signal": signal } })
    }

    #[test]
    fn a_database_that_ended_twice_is_hopeless_and_one_that_ended_once_is_not_yet() {
        let waits = || json!({ "waiting": { "reason": "CrashLoopBackOff", "message": "back-off" } });
        let runs = || json!({ "running": {} });
        for (restarts, state, last, run, what, hopeless) in [
            (0, waits(), terminated(1, None), 0, "once with exit code 1", false),
            (1, runs(), terminated(1, None), 0, "once with exit code 1", false),
            (
                1,
                waits(),
                terminated(134, Some(6)),
                1,
                "2 times, at last by signal 6 (SIGABRT)",
                true,
            ),
            (
                2,
                runs(),
                terminated(0, None),
                1,
                "2 times, at last with exit code 0",
                true,
            ),
        ] {
            let found = of(&[container("memgraph", restarts, &state, &last)]);
            let expected = Found {
                container: "memgraph".to_owned(),
                run,
                what: format!("memgraph ended {what}"),
                hopeless,
            };
            assert_eq!(found, [expected]);
        }
    }

    #[test]
    fn what_cannot_even_be_run_is_hopeless_and_what_is_being_made_is_nothing_yet() {
        let refused = json!({ "waiting": { "reason": "RunContainerError", "message": "cannot start /x: Exec format error" } });
        let found = of(&[container("memgraph", 0, &refused, &json!({}))]);
        assert_eq!(
            found,
            [Found {
                container: "memgraph".to_owned(),
                run: 0,
                what: "memgraph does not start: cannot start /x: Exec format error".to_owned(),
                hopeless: true,
            }]
        );
        for state in [
            json!({ "waiting": { "reason": "PodInitializing" } }),
            json!({ "running": {} }),
        ] {
            assert_eq!(of(&[container("memgraph", 0, &state, &json!({}))]), []);
        }
    }

    #[test]
    fn what_is_ours_may_end_more_often() {
        let found = of(&[container("helper", 4, &terminated(1, None), &json!({}))]);
        assert!(
            matches!(found.as_slice(), [Found { hopeless: false, .. }]),
            "{found:?}"
        );
    }

    /// Answers for its role as a server before 3.6 does, once.
    async fn old_server(listener: TcpListener) -> std::io::Result<()> {
        let (mut stream, _) = listener.accept().await?;
        let config = ServerConfig::new(ServerProfile::MEMGRAPH_3_6);
        let mut session = ServerSession::new(config, Moment::START);
        let mut buffer = vec![0; 4096];
        loop {
            while let Some(output) = session.poll() {
                let event = match output {
                    ServerOutput::Transmit(bytes) => {
                        stream.write_all(&bytes).await?;
                        continue;
                    }
                    ServerOutput::Event(event) => event,
                    ServerOutput::Close => return Ok(()),
                };
                match event {
                    Event::Login(_) => session.accept().unwrap(),
                    Event::Run { .. } => session.run_started(&["replication role"]).unwrap(),
                    Event::Pull(_) => {
                        session.record(&[bolt::packstream::Value::from("main")]).unwrap();
                        session.fetched(false, OwnedDict::new()).unwrap();
                    }
                    _ => {}
                }
            }
            match stream.read(&mut buffer).await? {
                0 => return Ok(()),
                length => session.handle(Moment::START, ServerInput::Bytes(&buffer[..length])),
            }
        }
    }

    #[tokio::test]
    async fn a_server_that_is_too_old_is_called_so_and_hopeless() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(old_server(listener));
        let (why, hopeless) = asked(address).await.unwrap_err();
        assert!(why.contains("Memgraph 3.6 or later is needed"), "{why}");
        assert!(hopeless);
        serving.await.unwrap().unwrap();
        let (_, hopeless) = asked(address).await.unwrap_err();
        assert!(!hopeless, "one that does not listen yet may come");
    }

    #[test]
    fn it_shows_how_each_ended_its_last_lines_and_where_everything_is() {
        let finding = |pod: &str, lines: &[&str]| Finding {
            pod: pod.to_owned(),
            what: "memgraph ended 2 times, at last with exit code 1".to_owned(),
            hopeless: true,
            log: Log {
                file: "/s/nodes/pods/u/logs/memgraph/1.log".into(),
                lines: lines.iter().map(|line| (*line).to_owned()).collect(),
            },
        };
        let diagnosis = Diagnosis {
            findings: vec![finding("db-0", &["first", "last"]), finding("db-1", &[])],
            folder: "/s".into(),
        };
        assert!(diagnosis.is_hopeless());
        assert_eq!(
            diagnosis.to_string(),
            "db-0: memgraph ended 2 times, at last with exit code 1\n    \
             Its log is /s/nodes/pods/u/logs/memgraph/1.log and ends with\n    \
             | first\n    \
             | last\n\
             db-1: memgraph ended 2 times, at last with exit code 1\n    \
             It logged nothing.\n\
             Everything is kept in /s, logs in /s/nodes/pods/*/logs: remove it when it is not needed any more."
        );
    }
}
