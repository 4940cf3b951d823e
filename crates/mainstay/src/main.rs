//! Mainstay keeps stateful databases standing on Kubernetes.

mod ask;
mod drill;
mod gateway;
mod hibernate;
mod kubernetes;
mod office;
mod operator;
mod passing;
mod pod;
mod restore;
mod sandbox;
mod sentence;
mod show;
mod terminal;
mod wish;

use clap::{Parser, Subcommand};
use sentence::sentence;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;
use tokio::runtime::Builder;
use tracing_subscriber::EnvFilter;

/// Keeps stateful databases standing on Kubernetes.
#[derive(Parser)]
#[command(name = "mainstay", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// A Memgraph cluster on this machine: Kubernetes in memory, databases, operators and gateways as processes.
    ///
    /// Nothing has to be installed. Without --memgraph the databases are stand-ins. Ctrl-C ends all of it and leaves
    /// nothing behind; a second sandbox gets other addresses. docs/sandbox.md says more.
    Sandbox(Box<sandbox::Arguments>),
    /// Every cluster in one line: who is MAIN and since when, protected or not, and what it waits for.
    Status(Box<ask::StatusArguments>),
    /// What the operator saw, decided and did in its last turn, by which rule, with the age of the evidence.
    Why(Box<ask::WhyArguments>),
    /// Move MAIN to this pod, if it is protected and level, and wait for it.
    ///
    /// No write is lost. Transactions that run are waited for, within `spec.failover.drain`.
    Switchover(Box<office::SwitchoverArguments>),
    /// Make this pod MAIN although nobody is entitled to be: what only others have is lost.
    ///
    /// For the case that `mainstay why` says that a human must choose. It waits until the old MAIN is fenced.
    Override(Box<office::OverrideArguments>),
    /// Ask for the reset of an ASYNC replica that nobody calls diverged; its data is set aside.
    ///
    /// A diverged one is reset by itself. MAIN and its partner are never reset this way.
    Reset(Box<wish::PodArguments>),
    /// Approve a reset that is not done by itself: of a SYNC replica that is diverged, of one whose data is too old to
    /// judge, of one that may hold a write that nobody else has.
    ///
    /// It is about the process that runs now, and ends with it.
    Approve(Box<wish::PodArguments>),
    /// Plans that sleep on a schedule: preview and dry-run them, wake, suspend and repair them.
    ///
    /// docs/hibernation.md says more.
    #[command(subcommand)]
    Hibernate(hibernate::Hibernate),
    /// What resets set aside: list it, fetch it, or delete it for good.
    #[command(subcommand)]
    Quarantine(wish::Quarantine),
    /// Break a cluster on purpose while clients write, and report what they noticed and what was lost.
    ///
    /// On the sandbox that runs, or on one of its own, or with --kubeconfig on a cluster whose object has the annotation
    /// mainstay.dev/allow-drills=true.
    ///
    /// Exit code 1: an acknowledged write was lost, a write is there twice, or one is there although it was refused; with
    /// --strict also: a write failed, or its outcome is not known; with --goal-p99-ms also: the gaps were longer. 2: the
    /// drill could not be done to its end, and what was done of it broke no promise. docs/drills.md says more.
    Drill(Box<drill::Arguments>),
    /// Play a simulated Memgraph cluster: it starts, loses its MAIN, recovers, and says why it did what.
    ///
    /// The decisions are the real ones; databases, Kubernetes and network are models inside this process.
    Show {
        /// Only what happened and where it ended, without reasons and steps.
        #[arg(long)]
        brief: bool,
    },
    /// Run a gateway: clients connect to it, and it forwards to the MAIN of one Memgraph cluster.
    ///
    /// It forwards only to the MAIN that the cluster's record names, after the connection itself showed that it is
    /// MAIN in that term. When there is none, new connections are held for a while. docs/gateway.md says more.
    Gateway(Box<gateway::Arguments>),
    /// Run an operator: it keeps every MemgraphCluster of its namespaces serving and protected.
    ///
    /// Several may run; one of them leads. docs/operator.md says more.
    Operator(Box<operator::Arguments>),
    /// What runs inside a database pod.
    #[command(subcommand)]
    Pod(pod::Command),
    /// Print the definitions of all kinds, for `kubectl apply --server-side -f -`.
    Crd,
    /// Run a stand-in for a database, with the command line of the real server.
    ///
    /// `mainstay standin memgraph --data-directory=DIR --bolt-port=7687 --profile=3.12 --admin-port=9999`;
    /// `mainstay standin ring --workdir=DIR --listen-address=127.0.0.2 --seeds=127.0.0.2` is one of ScyllaDB.
    /// docs/stand-ins.md says what they can do.
    #[command(disable_help_flag = true)]
    Standin {
        /// Which one, and its flags.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Sandbox(arguments) => sandbox::command(*arguments),
        Command::Status(arguments) => ask::status(*arguments),
        Command::Why(arguments) => ask::why(*arguments),
        Command::Switchover(arguments) => office::switchover(*arguments),
        Command::Override(arguments) => office::overrule(*arguments),
        Command::Reset(arguments) => wish::reset(*arguments),
        Command::Approve(arguments) => wish::approve(*arguments),
        Command::Hibernate(command) => hibernate::command(command),
        Command::Quarantine(command) => wish::quarantine(command),
        Command::Drill(arguments) => drill::command(*arguments),
        Command::Show { brief } => show::command(brief),
        Command::Gateway(arguments) => gateway::command(*arguments),
        Command::Operator(arguments) => operator::command(*arguments),
        Command::Pod(command) => pod::command(command),
        Command::Crd => definition(),
        Command::Standin { args } => ::sandbox::standin::command(args),
    }
}

fn definition() -> ExitCode {
    match api::definitions() {
        Ok(all) => {
            // Documents of YAML, which JSON is.
            print!("{}", all.into_values().collect::<Vec<_>>().join("---\n"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("mainstay crd: {error}");
            ExitCode::FAILURE
        }
    }
}

/// For what still runs on threads of its own when the work is done.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Runs a command to its end on a runtime of its own; an error is told with all its reasons.
fn run_to_end(name: &str, work: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    run_on(&mut Builder::new_multi_thread(), name, work)
}

/// The same, of a server that runs for long: it logs to standard error and talks TLS.
fn serve_to_end(
    runtime: &mut Builder,
    name: &str,
    work: impl Future<Output = anyhow::Result<()>>,
) -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    kubernetes::install_tls();
    run_on(runtime, name, work)
}

fn run_on(runtime: &mut Builder, name: &str, work: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    let done = match runtime.enable_all().build() {
        Ok(runtime) => {
            let done = runtime.block_on(work);
            // A disk that is busy with something does not keep a program that is told to end.
            runtime.shutdown_timeout(LAST_WORDS);
            done
        }
        Err(error) => Err(error.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mainstay {name}: {}", sentence(&error));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::fs;
    use std::path::{Path, PathBuf};

    /// Files with sentences that tell people what to type.
    fn texts(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let page = path.extension().is_some_and(|extension| extension == "md");
            let sentences = path.ends_with("reason.rs") || path.ends_with("document.rs");
            if path.is_dir() {
                texts(&path, found);
            } else if page || sentences {
                found.push(path);
            }
        }
    }

    #[test]
    fn the_help_of_a_drill_says_what_it_needs_and_what_its_exit_code_means() {
        let mut command = Arguments::command();
        let drill = command.find_subcommand_mut("drill").unwrap();
        let help = drill.render_long_help().to_string();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for said in [
            "whose object has the annotation mainstay.dev/allow-drills=true",
            "with the annotation mainstay.dev/allow-drills=true",
            "there although it was refused",
            "with --strict also",
            "with --goal-p99-ms also",
            "demands TLS",
            "--alive[=<KIND>]",
        ] {
            assert!(help.contains(said), "{said}: {help}");
        }
    }

    #[test]
    fn every_command_that_a_sentence_names_exists() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut files = vec![root.join("README.md"), root.join("CHANGELOG.md")];
        texts(&root.join("docs"), &mut files);
        texts(&root.join("crates/core/src"), &mut files);
        let mut named = 0;
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            for (_, rest) in text
                .match_indices("`mainstay ")
                .map(|(at, m)| text.split_at(at + m.len()))
            {
                let line = rest.split(['`', '\n']).next().unwrap_or_default();
                let mut command = Arguments::command();
                for word in line.split_whitespace() {
                    if !command.has_subcommands() || word.starts_with(['-', '…']) {
                        break;
                    }
                    // `reset|approve` names several.
                    let next = word.split('|').map(|word| command.find_subcommand(word).cloned());
                    let next: Option<Vec<_>> = next.collect();
                    let next = next.unwrap_or_else(|| panic!("{}: `mainstay {line}`", file.display()));
                    named += 1;
                    command = next.into_iter().next().unwrap();
                }
            }
        }
        assert!(named > 30, "only {named} were found");
    }
}
