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
mod undo;
mod verdict;
mod writer;

use self::faults::{Alive, Drill, Living};
use self::hand::Clients;
use self::ledger::{Account, Write};
use self::pace::Pace;
use self::place::{Elsewhere, Place, Wanted};
use self::report::{Asked, Course, Summary, foot, head, line};
use self::round::{Done, Plan, Witness, round, until_well};
use self::verdict::Verdict;
use crate::kubernetes::install_tls;
use crate::sandbox::site::Options;
use crate::sentence::sentence;
use crate::terminal::{Ending, say, warn};
use anyhow::{Error, Result, anyhow, bail, ensure};
use bolt::message::Auth;
use clap::Args;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

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
    /// kill-main only: MAIN is declared dead and still takes writes. Only `stall` promotes somebody against a MAIN that
    /// lives; the summary says how many rounds led to a new term, and by which rule. With --kubeconfig its pod is deleted,
    /// whosever turn it is.
    #[arg(long, value_name = "KIND", num_args = 0..=1, require_equals = true, default_missing_value = "in-turn")]
    alive: Option<Living>,
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
    /// Of 100 gaps 99 are to be this long at most, or the exit code is 1. For a quiet machine, or one that measures: on a
    /// busy one the gaps are those of the machine.
    #[arg(long, value_name = "MILLISECONDS")]
    goal_p99_ms: Option<u64>,
    /// Seconds that the cluster may take to be serving and protected again.
    #[arg(long, default_value_t = 120)]
    patience: u64,
    /// The folder of a running sandbox. Without it the newest one that runs, or else one of its own.
    #[arg(long, value_name = "FOLDER", conflicts_with = "kubeconfig")]
    sandbox: Option<PathBuf>,
    /// On a sandbox of its own, whichever runs: a real memgraph binary in place of the stand-in.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["kubeconfig", "sandbox"])]
    memgraph: Option<PathBuf>,
    /// A cluster of a real Kubernetes, whose owner allowed drills with the annotation mainstay.dev/allow-drills=true of the
    /// MemgraphCluster.
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
    /// With --kubeconfig: where its gateway is reached. Writes are read back over a plain connection: a cluster whose
    /// gateway demands TLS, or a PROXY header, cannot be drilled.
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

/// What a drill came to.
struct Ended {
    /// What was done of it, if a round was begun.
    summary: Option<Summary>,
    /// What kept it from its end, or its cluster from being mended.
    errors: Vec<Error>,
}

/// Drills. 0: every promise was kept; 1: one was broken; 2: it could not be done.
pub(crate) fn command(arguments: Arguments) -> ExitCode {
    install_tls();
    let (strict, json) = (arguments.strict, arguments.json);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ran = match runtime {
        Ok(runtime) => runtime.block_on(run(arguments)),
        Err(error) => Err(error.into()),
    };
    let Ended { summary, errors } = ran.unwrap_or_else(|error| Ended {
        summary: None,
        errors: vec![error],
    });
    if let Some(summary) = &summary {
        // Nobody may be there to read it, and the exit code is for whoever is.
        told(summary, json).ok();
    }
    for error in &errors {
        warn(format_args!("mainstay drill: {}", sentence(error)));
    }
    let verdict = Verdict::of(summary.as_ref(), !errors.is_empty(), strict);
    let noticed = |summary: Summary| summary.account.is_noticed() && !summary.account.is_broken();
    if strict && verdict == Verdict::Broken && summary.is_some_and(noticed) {
        warn("mainstay drill: clients noticed more than a wait");
    }
    ExitCode::from(verdict.code())
}

fn told(summary: &Summary, json: bool) -> Result<()> {
    let text = if json {
        serde_json::to_string(summary)?
    } else {
        foot(summary).trim_end_matches('\n').to_owned()
    };
    Ok(say(text)?)
}

/// How the drill talks.
#[derive(Clone, Copy)]
struct Voice {
    json: bool,
    reasons: bool,
}

/// Who is told of one round.
struct Told<'a> {
    voice: Voice,
    round: u32,
    settled: &'a mut Account,
}

impl Witness for Told<'_> {
    fn lost(&mut self, write: &Write) {
        warn(format_args!(
            "mainstay drill: round {} lost {write:?}",
            self.round
        ));
    }

    fn settled(&mut self, account: Account) {
        *self.settled = account;
    }

    fn warn(&mut self, sentence: &str) {
        warn(format_args!("mainstay drill: round {}: {sentence}", self.round));
    }

    fn reasons(&mut self, after: Duration, reasons: &[String]) {
        if self.voice.reasons {
            warn(format_args!(
                "  {:>6} ms  {}",
                after.as_millis(),
                reasons.join("; ")
            ));
        }
    }
}

async fn run(arguments: Arguments) -> Result<Ended> {
    // Before anything is started: what comes meanwhile is obeyed as soon as there is something to end.
    let mut ending = Ending::listen()?;
    let goal_p99_ms = arguments.goal_p99_ms;
    let (plan, wanted, rounds, voice) = parse(arguments)?;
    if let Wanted::Cluster(_) = &wanted {
        let needs_sandbox = plan.drill.needs_sandbox() || plan.alive.needs_sandbox();
        ensure!(!needs_sandbox, faults::FaultError::NeedsSandbox);
    }
    let place = Place::open(wanted).await?;
    let asked = Asked {
        drill: plan.drill,
        alive: plan.alive != Alive::No,
        stand_ins: place.stand_ins,
        rounds,
        goal_p99_ms,
    };
    let mut course = Course::default();
    let mut errors = Vec::new();
    let told = tokio::select! {
        drilled = drilled(&plan, &place, rounds, voice, &mut course) => {
            errors.extend(drilled.err());
            None
        }
        told = ending.told() => Some(told),
    };
    if let Some(by) = told {
        course.interrupted = true;
        errors.push(anyhow!("ended by {by}"));
    }
    // Before anything is said: whoever reads it may be gone, or too slow to wait for with a MAIN that stands still.
    errors.extend(place.close().await.err());
    let summary = course.begun.then(|| Summary::of(&asked, &course));
    Ok(Ended { summary, errors })
}

/// Does so many rounds. What came of those that were done is known also when this ends, or is ended, before the last.
async fn drilled(plan: &Plan, place: &Place, rounds: u32, voice: Voice, course: &mut Course) -> Result<()> {
    let mut told = |reason: &str| {
        if !voice.json {
            say(format_args!("  waiting: {reason}")).ok();
        }
    };
    if let Some(site) = &place.site {
        // It says more than an operator can about a database that does not start.
        site.until_protected(plan.patience, &mut told).await?;
    }
    until_well(&place.injector, plan.patience, told).await?;
    if !voice.json {
        say(head())?;
    }
    course.begun = true;
    let numbers = Arc::new(AtomicI64::new(0));
    for number in 1..=rounds {
        let mut told = Told {
            voice,
            round: number,
            settled: &mut course.settled,
        };
        let ended = round(plan, number, &place.injector, &place.target, &numbers, &mut told).await;
        let done = ended.map_err(|error| Error::from(error).context(format!("round {number}")))?;
        let row = row(&done, voice.json);
        course.push(done);
        say(row?)?;
    }
    Ok(())
}

fn row(done: &Done, json: bool) -> Result<String> {
    Ok(if json {
        serde_json::to_string(done)?
    } else {
        line(done)
    })
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
        goal_p99_ms: _,
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
    ensure!(
        alive.is_none() || drill == Drill::KillMain,
        "--alive belongs to kill-main"
    );
    ensure!(
        !deaf || matches!(alive, Some(Living::InTurn | Living::Hide)),
        "--deaf-gateways hides MAIN, and does nothing else"
    );
    let plan = Plan {
        drill,
        alive: match (alive, deaf) {
            (None, _) => Alive::No,
            (Some(living), false) => Alive::Yes(living),
            (Some(_), true) => Alive::BehindDeafGateways,
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
    let voice = Voice { json, reasons };
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
    fn a_main_that_lives_is_declared_dead_in_turn_or_as_the_word_says() {
        let alive = |line: &str| {
            let Program { arguments } =
                Program::try_parse_from(line.split(' ')).unwrap_or_else(|error| panic!("{error}"));
            parse(arguments).unwrap().0.alive
        };
        assert_eq!(alive("drill kill-main"), Alive::No);
        // The drill is no kind, wherever it stands.
        for line in ["drill kill-main --alive", "drill --alive kill-main"] {
            assert_eq!(alive(line), Alive::Yes(Living::InTurn), "{line}");
        }
        for (kind, living) in [
            ("in-turn", Living::InTurn),
            ("delete", Living::Delete),
            ("stall", Living::Stall),
            ("hide", Living::Hide),
        ] {
            assert_eq!(
                alive(&format!("drill kill-main --alive={kind}")),
                Alive::Yes(living)
            );
        }
    }

    #[test]
    fn a_loss_counts_as_soon_as_it_is_known_whether_or_not_its_round_is_done() {
        let mut course = Course::default();
        let voice = Voice {
            json: true,
            reasons: false,
        };
        let mut told = Told {
            voice,
            round: 3,
            settled: &mut course.settled,
        };
        let lost = Account {
            lost: 1,
            ..Account::default()
        };
        told.settled(lost);
        let asked = Asked {
            drill: Drill::KillMain,
            alive: false,
            stand_ins: None,
            rounds: 1_000,
            goal_p99_ms: None,
        };
        let summary = Summary::of(&asked, &course);
        assert_eq!(Verdict::of(Some(&summary), true, false), Verdict::Broken);
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
