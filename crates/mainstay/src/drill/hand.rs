//! What makes one write: our own Bolt client, or a program that uses somebody's driver.

use super::ledger::{Answer, Number};
use super::writer::{PATIENCE, Target, connect};
use bolt::message::{Failure, Run};
use sandbox::standin::memgraph::client::{Client, Outcome};
use std::io;
use std::process::Stdio;
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// Who writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Clients {
    /// Our own client, one connection each.
    #[default]
    Own,
    /// Command lines for `sh`, given out in turn. Each is called with host, port and the number of the drill, is told a
    /// number per line, writes `(:Drill {run, id})` with it, and answers `acknowledged`, `failed` or `unknown`.
    Programs(Vec<Arc<str>>),
}

/// The means of one client.
pub(crate) enum Hand {
    Own(Option<Client>),
    Program {
        command: Arc<str>,
        running: Option<Box<Running>>,
    },
}

/// A program at work.
pub(crate) struct Running {
    // Killed when it is dropped.
    _child: Child,
    asked: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Clients {
    /// What the client with this number is called: its command line.
    pub(crate) fn name(&self, client: u16) -> &str {
        let Self::Programs(commands) = self else {
            return "mainstay";
        };
        let turn = usize::from(client) % commands.len().max(1);
        commands.get(turn).map_or("mainstay", |command| command)
    }

    /// The hand of the client with this number.
    pub(crate) fn hand(&self, client: u16) -> Hand {
        match self {
            Self::Own => Hand::Own(None),
            Self::Programs(commands) => {
                let turn = usize::from(client) % commands.len().max(1);
                commands
                    .get(turn)
                    .map_or(Hand::Own(None), |command| Hand::Program {
                        command: Arc::clone(command),
                        running: None,
                    })
            }
        }
    }
}

impl Hand {
    /// One write, and what its client was told of it.
    pub(crate) async fn write(&mut self, target: &Target, number: Number) -> Answer {
        match self {
            Self::Own(connection) => {
                let answer = over_bolt(connection, target, number).await;
                if answer != Answer::Acknowledged {
                    *connection = None;
                }
                answer
            }
            Self::Program { command, running } => {
                let Ok(mut program) = running.take().map_or_else(|| Running::start(command, target), Ok)
                else {
                    // Nothing was sent.
                    return Answer::Failed;
                };
                // A driver is its own judge of its connection: only a program that fails to answer is started anew.
                let Ok(Ok(Some(answer))) = timeout(PATIENCE, program.write(number)).await else {
                    return Answer::Unknown;
                };
                *running = Some(program);
                answer
            }
        }
    }
}

impl Running {
    fn start(command: &str, target: &Target) -> io::Result<Box<Self>> {
        let Target { bolt, auth: _, run } = target;
        let mut child = Command::new("sh")
            .arg("-c")
            .arg(format!("exec {command} \"$@\""))
            .arg("sh")
            .args([bolt.ip().to_string(), bolt.port().to_string(), run.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (Some(asked), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        Ok(Box::new(Self {
            _child: child,
            asked,
            answers: BufReader::new(answers).lines(),
        }))
    }

    /// `None`: it said something else, or ended.
    async fn write(&mut self, number: Number) -> io::Result<Option<Answer>> {
        self.asked.write_all(format!("{number}\n").as_bytes()).await?;
        Ok(match self.answers.next_line().await?.as_deref() {
            Some("acknowledged") => Some(Answer::Acknowledged),
            Some("failed") => Some(Answer::Failed),
            Some("unknown") => Some(Answer::Unknown),
            Some(_) | None => None,
        })
    }
}

async fn over_bolt(connection: &mut Option<Client>, target: &Target, number: Number) -> Answer {
    let client = match connection {
        Some(client) => client,
        none => match connect(target).await {
            Ok(client) => none.insert(client),
            // Nothing was sent.
            Err(_) => return Answer::Failed,
        },
    };
    let run = Run::new("CREATE (:Drill {run: $run, id: $id})")
        .with("run", target.run)
        .with("id", number);
    match client.run_without_reset(&run).await {
        Ok(Outcome::Done(_)) => Answer::Acknowledged,
        Ok(Outcome::Refused { failure, on }) => judge(on, &failure),
        Err(_) => Answer::Unknown,
    }
}

/// A refused RUN never began, unless a gateway says in its place that it does not know. A refused PULL is a refused
/// commit, and the text says what became of it.
fn judge(on: &str, failure: &Failure<'_>) -> Answer {
    let (code, text) = (&failure.code, &failure.message);
    if code.ends_with(".OutcomeUnknown") {
        return Answer::Unknown;
    }
    let never = [
        "aborted on all instances",
        "not main anymore",
        "forbidden on the replica",
        "asked to abort",
        "Nothing of this was committed",
    ];
    if on == "RUN" || never.iter().any(|sentence| text.contains(sentence)) {
        Answer::Failed
    } else {
        Answer::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bolt::message::Auth;
    use std::net::{Ipv4Addr, SocketAddr};

    #[test]
    fn only_a_failure_that_says_so_means_that_nothing_was_committed() {
        let judge = |on, text: &str| judge(on, &Failure::client(text.to_owned()));
        assert_eq!(judge("RUN", "whatever"), Answer::Failed);
        for never in [
            "Transaction was aborted on all instances.",
            "Cannot commit because instance is not main anymore.",
            "The MAIN was changed. Nothing of this was committed: try again.",
        ] {
            assert_eq!(judge("PULL", never), Answer::Failed, "{never}");
        }
        assert_eq!(
            judge("PULL", "Transaction is still committed on the main instance"),
            Answer::Unknown
        );
        assert_eq!(judge("PULL", "Replication Exception"), Answer::Unknown);
    }

    #[test]
    fn a_gateway_that_does_not_know_is_believed_wherever_it_says_so() {
        let unknown = Failure::new("Memgraph.ClientError.Transaction.OutcomeUnknown", "");
        assert_eq!(judge("RUN", &unknown), Answer::Unknown);
        assert_eq!(judge("PULL", &unknown), Answer::Unknown);
    }

    #[tokio::test]
    async fn a_program_answers_for_each_number_and_one_that_ends_is_started_anew() {
        let script = "sh -c 'read n; [ \"$2 $3\" = \"7687 5\" ] && echo acknowledged; read n; echo $n' sh";
        let mut hand = Clients::Programs(vec![script.into()]).hand(3);
        let target = Target {
            bolt: SocketAddr::from((Ipv4Addr::LOCALHOST, 7687)),
            auth: Auth::None,
            run: 5,
        };
        let mut said = Vec::new();
        for number in 0..4 {
            said.push(hand.write(&target, number).await);
        }
        let [acknowledged, unknown] = [Answer::Acknowledged, Answer::Unknown];
        assert_eq!(said, [acknowledged, unknown, acknowledged, unknown]);
    }
}
