//! Scenarios as text: what happens, line by line, and what must come of it.
//!
//! A scenario names a world, the rule whose absence it shows, and the violation. It is played twice: without
//! the rule it must end in that violation; with every rule in force the same things are tried (what is not
//! possible any more is skipped), everybody may then finish their work, and nothing may be violated.
//!
//! A rule that is there for the way back is shown by `expect: not whole`: without it the cluster is not serving,
//! protected and open again although everybody did all they can, and with it it is. `expect: nobody serves` is
//! judged right after the last line: with the rule somebody serves by then.

use super::world::{Action, Budget, Config, State, describe, pod_letter};
use super::worlds;
use mainstay_core::memgraph::Rule;
use mainstay_core::memgraph::record::State as Phase;
use mainstay_core::memgraph::rules::UnknownRule;
use mainstay_core::memgraph::spec::FenceTimeout;
use std::fmt::Write as _;
use thiserror::Error;

/// A scenario that cannot be read.
#[derive(Debug, Error)]
pub enum ScenarioError {
    /// No catalogue world has this name.
    #[error("no world is called `{0}`")]
    UnknownWorld(String),
    /// The header has no line of this kind.
    #[error("the header has no `{0}:` line")]
    Missing(&'static str),
    /// A line that is no action.
    #[error("line {line}: `{text}` is nothing that can happen")]
    UnknownAction {
        /// Where.
        line: usize,
        /// What.
        text: String,
    },
    /// A header line that means nothing.
    #[error("line {line}: `{text}` is no header")]
    UnknownHeader {
        /// Where.
        line: usize,
        /// What.
        text: String,
    },
    /// A rule that does not exist.
    #[error(transparent)]
    UnknownRule(#[from] UnknownRule),
    /// A setting that does not exist.
    #[error("`{0}` is no setting of a world")]
    UnknownSetting(String),
}

/// A scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What it shows, in its own words.
    pub title: String,
    /// The world with every rule in force.
    pub world: Config,
    /// Rules that are off in both plays: later ones, which would hide what this one is for.
    pub before: Vec<Rule>,
    /// The rules whose absence it shows.
    pub without: Vec<Rule>,
    /// What comes of it without them.
    pub expect: Expect,
    /// What happens.
    pub lines: Vec<Line>,
}

/// What comes of a scenario without its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// This violation.
    Violation(String),
    /// The cluster does not come back by itself; with the rules it does.
    NotWhole,
    /// There is no MAIN after the last line; with the rules there is.
    NobodyServes,
}

impl Expect {
    fn parse(text: &str) -> Self {
        match text {
            "not whole" => Self::NotWhole,
            "nobody serves" => Self::NobodyServes,
            violation => Self::Violation(violation.to_owned()),
        }
    }

    /// Is this what the two plays ended in?
    fn holds(&self, without: &End, with: &End) -> bool {
        match self {
            Self::Violation(violation) => {
                *without == End::Violated(violation.clone()) && !matches!(with, End::Violated(_))
            }
            Self::NotWhole => matches!(without, End::NotWhole { .. }) && *with == End::Whole,
            Self::NobodyServes => {
                *without == End::NotWhole { serves: false }
                    && matches!(with, End::Whole | End::NotWhole { serves: true })
            }
        }
    }
}

/// How a play ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    Violated(String),
    NotWhole { serves: bool },
    Whole,
}

/// One line of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// This happens.
    Happens(Action),
    /// This operator does all it can, databases and gateways do their part; other operators do nothing.
    Works(u8),
    /// The same, while every gateway sleeps.
    WorksAlone(u8),
    /// The same as `Works`, while this pod stays down.
    WorksWithout(u8, u8),
}

/// What came of a scenario.
#[derive(Clone, Debug)]
pub struct Played {
    /// Everything, as text.
    pub transcript: String,
    /// It went as the file says.
    pub as_expected: bool,
}

const PLENTY: Budget = Budget {
    crashes: 9,
    volumes: 9,
    drains: 9,
    partitions: 9,
    suspicions: 9,
    late: 9,
    switchovers: 9,
    hand_drops: 9,
    records: 9,
    sleeps: 9,
    overrides: 9,
    repairs: 9,
    unmarks: 9,
    hangs: 9,
};

impl Scenario {
    /// Reads a scenario.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let mut title = Vec::new();
        let (mut world, mut rules, mut expect, mut lines) = (None, Switched::default(), None, Vec::new());
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if let Some(words) = line.strip_prefix('#') {
                title.push(words.trim().to_owned());
            } else if let Some((head, value)) = line.split_once(": ").filter(|(h, _)| is_header(h)) {
                header(head, value, &mut world, &mut rules, &mut expect)?;
            } else if !line.is_empty() {
                let unknown = || ScenarioError::UnknownAction {
                    line: at + 1,
                    text: line.to_owned(),
                };
                lines.push(one_line(line).ok_or_else(unknown)?);
            }
        }
        let mut world: Config = world.ok_or(ScenarioError::Missing("world"))?;
        world.budget = PLENTY;
        world.sort_operators = false;
        world.renumber = false;
        let expect = expect.ok_or(ScenarioError::Missing("expect"))?;
        let Switched { before, without } = rules;
        let world = before.iter().fold(world, |w, rule| w.without(*rule));
        Ok(Self {
            title: title.join("\n"),
            world,
            before,
            without,
            expect,
            lines,
        })
    }

    /// Writes a trace of the explorer as a scenario.
    pub fn render(world: &str, without: &[Rule], trace: &[Action], violation: &str) -> String {
        let mut text = String::from("# \n");
        let _ = writeln!(text, "world: {world}");
        for rule in without {
            let _ = writeln!(text, "without: {rule}");
        }
        let _ = writeln!(text, "expect: {violation}\n");
        for action in trace {
            let _ = writeln!(text, "{action}");
        }
        text
    }

    /// Plays it twice.
    pub fn play(&self) -> Played {
        let mut transcript = format!("{}\n", self.title);
        let names: Vec<_> = self.without.iter().map(|r| r.id()).collect();
        let _ = writeln!(transcript, "\nwithout {}:", names.join(", "));
        let broken = self
            .without
            .iter()
            .fold(self.world.clone(), |w, rule| w.without(*rule));
        let without = self.play_in(&broken, &mut transcript);
        let kept: Vec<_> = self.before.iter().map(|r| r.id()).collect();
        let but = if kept.is_empty() {
            String::new()
        } else {
            format!(" but {}", kept.join(", "))
        };
        let _ = writeln!(transcript, "\nwith every rule in force{but}:");
        let with = self.play_in(&self.world, &mut transcript);
        Played {
            transcript,
            as_expected: self.expect.holds(&without, &with),
        }
    }

    fn play_in(&self, config: &Config, transcript: &mut String) -> End {
        let mut state = State::first(config);
        let _ = writeln!(transcript, "      {}", describe(&state));
        for line in &self.lines {
            let violation = match *line {
                Line::Happens(action) => happen(config, &mut state, action, transcript),
                Line::Works(op) => work(config, &mut state, |a| is_work(a, op, true), transcript),
                Line::WorksAlone(op) => work(config, &mut state, |a| is_work(a, op, false), transcript),
                Line::WorksWithout(op, pod) => {
                    let may = |a| is_work(a, op, true) && a != Action::Start(pod);
                    work(config, &mut state, may, transcript)
                }
            };
            if let Some(violation) = violation {
                return End::Violated(violation);
            }
        }
        if self.expect != Expect::NobodyServes {
            let _ = writeln!(transcript, "  … and everybody finishes their work");
            if let Some(violation) = work(config, &mut state, |_| true, transcript) {
                return End::Violated(violation);
            }
        }
        let (end, word) = if state.is_whole() {
            (End::Whole, "whole")
        } else {
            let serves = state.record.as_ref().is_some_and(|r| r.state == Phase::Serving);
            (End::NotWhole { serves }, "not whole")
        };
        let _ = writeln!(transcript, "  {word}: {}", describe(&state));
        end
    }
}

fn happen(config: &Config, state: &mut State, action: Action, transcript: &mut String) -> Option<String> {
    // With fsync a loss of power loses nothing, and without it a crash is the lesser fault, so a search does not
    // try them; a scenario may.
    let power = matches!(action, Action::PowerLoss(pod) | Action::Crash(pod) if state.pod(pod).is_some_and(|p| p.alive));
    let death = matches!(action, Action::Die(op) if state.current_step(op).is_some());
    if power || death || state.enabled(config).contains(&action) {
        return step(config, state, action, transcript);
    }
    let _ = writeln!(transcript, "  - {action}: not possible");
    None
}

/// Everything that may happen happens, until the cluster is whole or nothing changes any more.
fn work(
    config: &Config,
    state: &mut State,
    may: impl Fn(Action) -> bool,
    transcript: &mut String,
) -> Option<String> {
    for _ in 0..500 {
        if state.is_whole() {
            return None;
        }
        let action = state.next_fair_of(config, &may)?;
        let violation = step(config, state, action, transcript);
        if violation.is_some() {
            return violation;
        }
    }
    None
}

fn step(config: &Config, state: &mut State, action: Action, transcript: &mut String) -> Option<String> {
    let before = describe(state);
    let effect = state.apply(config, action, true);
    let _ = writeln!(transcript, "  {action}");
    for note in effect.notes {
        let _ = writeln!(transcript, "        {note}");
    }
    let after = describe(state);
    if after != before {
        let _ = writeln!(transcript, "      {after}");
    }
    state.canonical(config);
    let violation = effect.violation?.to_string();
    let _ = writeln!(transcript, "   => {violation}");
    Some(violation)
}

/// The rules that a scenario switches.
#[derive(Default)]
struct Switched {
    before: Vec<Rule>,
    without: Vec<Rule>,
}

fn is_header(head: &str) -> bool {
    matches!(head, "world" | "before" | "without" | "expect" | "set")
}

fn header(
    head: &str,
    value: &str,
    world: &mut Option<Config>,
    rules: &mut Switched,
    expect: &mut Option<Expect>,
) -> Result<(), ScenarioError> {
    match head {
        "world" => {
            let entry = worlds::named(value).ok_or_else(|| ScenarioError::UnknownWorld(value.to_owned()))?;
            *world = Some(entry.config);
        }
        "before" => rules.before.push(value.parse()?),
        "without" => rules.without.push(value.parse()?),
        "set" => set(world.as_mut().ok_or(ScenarioError::Missing("world"))?, value)?,
        _ => *expect = Some(Expect::parse(value)),
    }
    Ok(())
}

/// What a scenario may change about its world.
fn set(world: &mut Config, setting: &str) -> Result<(), ScenarioError> {
    match setting {
        "a drop that crashes MAIN is a violation" => world.report_drops = true,
        "a registration that stalls MAIN is a violation" => world.report_stalls = true,
        "commits are not fsynced" => world.fsync = false,
        "pods start as they were" => world.init_file = false,
        "false divergence is no violation by itself" => world.report_false_divergence = false,
        "catch-up loads a snapshot" => world.snapshot_recovery = true,
        "deadlines may pass" => world.deadlines = true,
        "a fence may be given up" => world.spec.fence_timeout = FenceTimeout::Proceed,
        "a refused registration that comes alive is a violation" => world.report_zombies = true,
        "an acknowledged write that the replica lacks is a violation" => world.report_missing = true,
        _ => return Err(ScenarioError::UnknownSetting(setting.to_owned())),
    }
    Ok(())
}

/// What a line says.
fn one_line(line: &str) -> Option<Line> {
    let operators = 0..3_u8;
    for op in operators {
        if line == format!("op{op} works") {
            return Some(Line::Works(op));
        }
        if line == format!("op{op} works, gateways sleep") {
            return Some(Line::WorksAlone(op));
        }
        for pod in 0..5_u8 {
            if line == format!("op{op} works, {} stays down", pod_letter(pod)) {
                return Some(Line::WorksWithout(op, pod));
            }
        }
    }
    Action::all().find(|a| a.to_string() == line).map(Line::Happens)
}

/// May this be part of an operator's work?
fn is_work(action: Action, op: u8, gateways: bool) -> bool {
    match action {
        Action::Step(n) | Action::Observe(n, _) | Action::Again(n, _) => n == op,
        Action::Read(_) => gateways,
        _ => true,
    }
}
