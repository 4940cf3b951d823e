//! `mainstay drill`: breaks a cluster on purpose while clients write, and counts what they were promised.

mod cluster;
mod faults;
mod hand;
mod ledger;
mod pace;
mod phases;
mod place;
mod report;
mod reset;
mod round;
mod writer;

use self::faults::{Alive, Drill};
use self::hand::Clients;
use self::ledger::Write;
use self::pace::Pace;
use self::place::{Elsewhere, Place, Wanted};
use self::report::{Summary, foot, head, line};
use self::round::{Done, Plan, Witness, round, until_well};
use crate::kubernetes::install_tls;
use crate::sandbox::site::Options;
use crate::sentence::sentence;
use anyhow::{Context, Result, bail, ensure};
use bolt::message::Auth;
use clap::Args;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// What to drill, and where.
#[allow(clippy::struct_excessive_bools, reason = "each is a word of the command line")]
#[derive(Args)]
pub(crate) struct Arguments {
    /// What is broken.
    drill: Drill,
    /// How often.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// One line of JSON per round and one at the end, and nothing else on standard output.
    #[arg(long)]
    json: bool,
    /// kill-main only: MAIN is declared dead and still takes writes. In turn its pod is deleted with grace, it stands
    /// still until its successor is chosen, and it is hidden from the operators alone.
    #[arg(long)]
    alive: bool,
    /// Also what the operator says during each round, with the time since the fault, on standard error.
    #[arg(long)]
    reasons: bool,
    /// How many clients write at once.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    writers: u16,
    /// Command lines for sh that write in place of our own clients, given out in turn: each is called with host, port
    /// and the number of the drill, reads a number per line, creates (:Drill {run, id}), and prints acknowledged,
    /// failed or unknown. They log in by themselves: --username is not for them.
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["username", "password"])]
    client: Vec<String>,
    /// Milliseconds that each client waits after a write; 0 is as fast as it goes.
    #[arg(long, default_value_t = 2)]
    pace_ms: u64,
    /// Writes in a second, of all clients together, whatever an answer takes; as many --writers as that needs.
    #[arg(long, value_name = "WRITES", conflicts_with = "pace_ms")]
    rate: Option<NonZeroU32>,
    /// A client that notices anything but a wait is a broken promise, too: exit code 1 when a write failed or its outcome
    /// is not known. What a planned switchover promises.
    #[arg(long)]
    strict: bool,
    /// Seconds that the cluster may take to be serving and protected again.
    #[arg(long, default_value_t = 120)]
    patience: u64,
    /// The folder of a running sandbox. Without it the newest one that runs, or else one of its own.
    #[arg(long, value_name = "FOLDER", conflicts_with = "kubeconfig")]
    sandbox: Option<PathBuf>,
    /// On a sandbox of its own, whichever runs: a real memgraph binary in place of the stand-in.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["kubeconfig", "sandbox"])]
    memgraph: Option<PathBuf>,
    /// A cluster of a real Kubernetes, which must allow drills by an annotation.
    #[arg(long, value_name = "FILE", requires_all = ["cluster", "bolt"])]
    kubeconfig: Option<PathBuf>,
    /// With --kubeconfig: the MemgraphCluster.
    #[arg(long, requires = "kubeconfig")]
    cluster: Option<String>,
    /// With --kubeconfig: where it is.
    #[arg(long, requires = "kubeconfig")]
    namespace: Option<String>,
    /// With --kubeconfig: where its operators are, if elsewhere.
    #[arg(long, requires = "kubeconfig")]
    operator_namespace: Option<String>,
    /// With --kubeconfig: where its gateway is reached.
    #[arg(long, value_name = "HOST:PORT", requires = "kubeconfig")]
    bolt: Option<String>,
    /// With --kubeconfig: whom clients log in as.
    #[arg(long, env = "MAINSTAY_DRILL_USERNAME", requires = "kubeconfig")]
    username: Option<String>,
    /// With --kubeconfig: their password.
    #[arg(
        long,
        env = "MAINSTAY_DRILL_PASSWORD",
        hide_env_values = true,
        requires = "username"
    )]
    password: Option<String>,
    /// A rule that the operators of a sandbox of its own are to forget: shows that the drill can fail.
    #[cfg(feature = "rule-switches")]
    #[arg(long, value_name = "RULE", hide = true, conflicts_with_all = ["kubeconfig", "sandbox"])]
    without_rule: Vec<mainstay_core::memgraph::rules::Rule>,
    /// With --alive and a sandbox of its own: gateways hear nothing of the failover, databases are of 3.6, which drop
    /// what they had only prepared when they are promoted, and the fence is never given up.
    #[cfg(feature = "rule-switches")]
    #[arg(long, hide = true, requires = "alive", conflicts_with_all = ["kubeconfig", "sandbox", "memgraph"])]
    deaf_gateways: bool,
}

/// The drill could not be done.
const UNDONE: u8 = 2;

/// Drills. 0: every promise was kept; 1: one was broken; 2: it could not be done.
pub(crate) fn command(arguments: Arguments) -> ExitCode {
    install_tls();
    let strict = arguments.strict;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ran = match runtime {
        Ok(runtime) => runtime.block_on(run(arguments)),
        Err(error) => Err(error.into()),
    };
    match ran {
        Ok(summary) if summary.account.is_broken() => ExitCode::FAILURE,
        Ok(summary) if strict && summary.account.is_noticed() => {
            eprintln!("mainstay drill: clients noticed more than a wait");
            ExitCode::FAILURE
        }
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mainstay drill: {}", sentence(&error));
            ExitCode::from(UNDONE)
        }
    }
}

/// How the drill talks.
#[derive(Clone, Copy)]
struct Voice {
    json: bool,
    reasons: bool,
    round: u32,
}

impl Witness for Voice {
    fn lost(&mut self, write: &Write) {
        eprintln!("mainstay drill: round {} lost {write:?}", self.round);
    }

    fn reasons(&mut self, after: Duration, reasons: &[String]) {
        if self.reasons {
            eprintln!("  {:>6} ms  {}", after.as_millis(), reasons.join("; "));
        }
    }
}

async fn run(arguments: Arguments) -> Result<Summary> {
    // Before anything is started: what comes meanwhile is obeyed as soon as there is something to end.
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    let (plan, wanted, rounds, voice) = parse(arguments)?;
    if let Wanted::Cluster(_) = &wanted {
        ensure!(!plan.drill.needs_sandbox(), faults::FaultError::NeedsSandbox);
    }
    let place = Place::open(wanted).await?;
    let drilled = tokio::select! {
        drilled = drilled(&plan, &place, rounds, voice) => drilled,
        _ = terminate.recv() => Err(anyhow::anyhow!("ended by SIGTERM")),
        _ = interrupt.recv() => Err(anyhow::anyhow!("ended by Ctrl-C")),
    };
    let closed = place.close().await;
    let summary = drilled?;
    closed?;
    Ok(summary)
}

async fn drilled(plan: &Plan, place: &Place, rounds: u32, voice: Voice) -> Result<Summary> {
    let json = voice.json;
    let mut told = |reason: &str| {
        if !json {
            println!("  waiting: {reason}");
        }
    };
    if let Some(site) = &place.site {
        // It says more than an operator can about a database that does not start.
        site.until_protected(plan.patience, &mut told).await?;
    }
    until_well(&place.injector, plan.patience, told).await?;
    if !json {
        println!("{}", head());
    }
    let numbers = Arc::new(AtomicI64::new(0));
    let mut done: Vec<Done> = Vec::new();
    let mut failed = None;
    for number in 1..=rounds {
        let mut voice = Voice {
            round: number,
            ..voice
        };
        let ended = round(plan, number, &place.injector, &place.target, &numbers, &mut voice).await;
        match ended {
            Ok(round) if json => {
                println!("{}", serde_json::to_string(&round)?);
                done.push(round);
            }
            Ok(round) => {
                println!("{}", line(&round));
                done.push(round);
            }
            Err(error) => {
                failed = Some(anyhow::Error::from(error).context(format!("round {number}")));
                break;
            }
        }
    }
    let summary = Summary::of(plan.drill, plan.alive != Alive::No, place.stand_ins, &done);
    if json {
        println!("{}", serde_json::to_string(&summary)?);
    } else {
        print!("{}", foot(&summary));
    }
    // A broken promise is the worse news.
    match failed {
        Some(error) if !summary.account.is_broken() => Err(error),
        Some(error) => {
            eprintln!("mainstay drill: {}", sentence(&error));
            Ok(summary)
        }
        None => Ok(summary),
    }
}

fn parse(arguments: Arguments) -> Result<(Plan, Wanted, u32, Voice)> {
    let Arguments {
        drill,
        rounds,
        json,
        alive,
        reasons,
        writers,
        client,
        pace_ms,
        rate,
        strict: _,
        patience,
        sandbox,
        memgraph,
        kubeconfig,
        cluster,
        namespace,
        operator_namespace,
        bolt,
        username,
        password,
        #[cfg(feature = "rule-switches")]
        without_rule,
        #[cfg(feature = "rule-switches")]
        deaf_gateways,
    } = arguments;
    #[cfg(feature = "rule-switches")]
    let (operator, deaf) = (crate::operator::without(&without_rule), deaf_gateways);
    #[cfg(not(feature = "rule-switches"))]
    let (operator, deaf) = (vec![], false);
    ensure!(!alive || drill == Drill::KillMain, "--alive belongs to kill-main");
    let plan = Plan {
        drill,
        alive: match (alive, deaf) {
            (false, _) => Alive::No,
            (true, false) => Alive::Yes,
            (true, true) => Alive::BehindDeafGateways,
        },
        writers,
        clients: match client.as_slice() {
            [] => Clients::Own,
            commands => Clients::Programs(commands.iter().map(|line| line.as_str().into()).collect()),
        },
        pace: rate.map_or_else(|| Pace::Pause(Duration::from_millis(pace_ms)), Pace::Rate),
        patience: Duration::from_secs(patience),
    };
    let wanted = match (kubeconfig, cluster, bolt) {
        (None, _, _) => {
            let as_asked_for = memgraph.is_some() || !operator.is_empty() || deaf;
            let private = Options {
                memgraph,
                replicas: 3,
                port: Some(0),
                stand_in: if deaf {
                    vec!["--profile=3.6".to_owned()]
                } else {
                    vec![]
                },
                operator,
                waits_for_the_fence: deaf,
                announced: false,
            };
            if as_asked_for {
                Wanted::Private(private)
            } else {
                Wanted::Sandbox {
                    folder: sandbox,
                    private,
                }
            }
        }
        (Some(kubeconfig), Some(cluster), Some(bolt)) => {
            let namespace = namespace.unwrap_or_else(|| "default".to_owned());
            let password = password.unwrap_or_default();
            Wanted::Cluster(Elsewhere {
                kubeconfig,
                operators: operator_namespace.unwrap_or_else(|| namespace.clone()),
                namespace,
                cluster,
                bolt,
                auth: username.map_or(Auth::None, |name| Auth::basic(name, password)),
            })
        }
        _ => bail!("--kubeconfig needs --cluster and --bolt"),
    };
    let voice = Voice {
        json,
        reasons,
        round: 0,
    };
    Ok((plan, wanted, rounds, voice))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn refused(line: &str) -> String {
        match Program::try_parse_from(line.split(' ')) {
            Ok(Program { arguments }) => format!("taken, {} rounds", arguments.rounds),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_rate_is_asked_for_instead_of_a_pause() {
        let pace = |line: &str| {
            let Program { arguments } =
                Program::try_parse_from(line.split(' ')).unwrap_or_else(|error| panic!("{error}"));
            parse(arguments).unwrap().0.pace
        };
        assert_eq!(pace("drill switchover"), Pace::Pause(Duration::from_millis(2)));
        let rate = NonZeroU32::new(200).unwrap();
        assert_eq!(pace("drill switchover --writers 8 --rate 200"), Pace::Rate(rate));
    }

    #[test]
    fn what_would_be_ignored_is_refused() {
        assert_eq!(refused("drill kill-main"), "taken, 1 rounds");
        let elsewhere = "drill kill-main --kubeconfig x --cluster db --bolt h:1";
        assert_eq!(
            refused(&format!("{elsewhere} --namespace db --username a --password b")),
            "taken, 1 rounds"
        );
        for line in [
            "drill kill-main --rate 200 --pace-ms 5".to_owned(),
            "drill kill-main --rate 0".to_owned(),
            "drill kill-main --namespace db".to_owned(),
            "drill kill-main --username a".to_owned(),
            "drill kill-main --password b".to_owned(),
            format!("{elsewhere} --password b"),
            format!("{elsewhere} --username a --client writer"),
        ] {
            assert!(refused(&line).contains("error"), "{line}: {}", refused(&line));
        }
    }
}
