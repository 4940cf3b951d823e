//! Exhaustive search: every interleaving of a small world, breadth first, so that the first violation found
//! has a shortest trace.

use super::frontier::Frontier;
use super::visited::{Left, Visited};
use super::world::{Action, Config, Heal, State, Violation};

/// How to search.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Stop after this many states.
    pub max_states: u64,
    /// Also ask whether every state can heal.
    pub liveness: bool,
    /// Report progress after this many states; 0 is never.
    pub progress: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_states: 100_000_000,
            liveness: false,
            progress: 0,
        }
    }
}

/// What a search found.
#[derive(Clone, Debug)]
pub struct Found {
    /// Distinct states visited.
    pub states: u64,
    /// Actions tried.
    pub transitions: u64,
    /// Length of the longest shortest path.
    pub depth: u32,
    /// The whole space within the bounds was seen.
    pub exhausted: bool,
    /// The first violation and the shortest trace to it.
    pub violation: Option<(Violation, Vec<Action>)>,
    /// States cut off by the bounds.
    pub beyond: u64,
    /// What became of the question whether every state heals.
    pub heal: Option<Healing>,
}

/// Can every state heal?
#[derive(Clone, Debug, Default)]
pub struct Healing {
    /// States that are whole.
    pub whole: u64,
    /// States from which no path without a new fault leads to a whole one, or beyond the bounds.
    pub stuck: u64,
    /// Of those, states in which the plan names what a human must decide, or which lead to such a state when pods
    /// that are down have started.
    pub human: u64,
    /// A shortest trace to a state that is stuck and never says so.
    pub example: Option<Vec<Action>>,
}

/// How each state was reached: its parent and the action.
#[derive(Debug, Default)]
struct Tree {
    links: Vec<(u32, Action)>,
}

impl Tree {
    fn trace(&self, mut at: u32) -> Vec<Action> {
        let mut actions = Vec::new();
        while at != 0 {
            let Some((parent, action)) = self.links.get(at as usize) else {
                break;
            };
            actions.push(*action);
            at = *parent;
        }
        actions.reverse();
        actions
    }
}

struct Search<'a> {
    config: &'a Config,
    options: Options,
    visited: Visited,
    tree: Tree,
    queue: Frontier,
    edges: Vec<(u32, u32)>,
    marks: Vec<Mark>,
    found: Found,
}

/// What liveness needs to know of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Whole,
    Beyond,
    Hurt,
    Human,
}

/// Searches a world.
pub fn explore(config: &Config, options: Options, mut progress: impl FnMut(&Found, usize)) -> Found {
    let mut first = State::first(config);
    first.canonical(config);
    let mut search = Search::new(config, options, first);
    let mut next_progress = options.progress;
    while let Some((at, depth, state)) = search.queue.pop() {
        search.found.depth = depth;
        search.expand(at, depth, &state);
        if search.found.violation.is_some() {
            return search.found;
        }
        if search.found.states >= options.max_states {
            return search.found;
        }
        if options.progress > 0 && search.found.states >= next_progress {
            next_progress += options.progress;
            progress(&search.found, search.queue.len());
        }
    }
    search.found.exhausted = true;
    if options.liveness {
        let healing = search.healing();
        search.found.heal = Some(healing);
    }
    search.found
}

impl<'a> Search<'a> {
    fn new(config: &'a Config, options: Options, first: State) -> Self {
        let found = Found {
            states: 1,
            transitions: 0,
            depth: 0,
            exhausted: false,
            violation: None,
            beyond: 0,
            heal: None,
        };
        let mut search = Self {
            config,
            options,
            visited: Visited::default(),
            tree: Tree::default(),
            queue: Frontier::default(),
            edges: Vec::new(),
            marks: Vec::new(),
            found,
        };
        let left = Left::of(&first, config.bounds);
        search.visited.find_or_insert(first.fingerprint(), left, 0);
        search.tree.links.push((0, Action::LoseRecord));
        search.mark(&first);
        search.queue.push(0, 0, first);
        search
    }

    fn expand(&mut self, at: u32, depth: u32, state: &State) {
        for action in state.enabled(self.config) {
            let mut next = state.clone();
            let effect = next.apply(self.config, action, false);
            self.found.transitions += 1;
            if let Some(violation) = effect.violation {
                let mut trace = self.tree.trace(at);
                trace.push(action);
                let trace = State::with_fixed_operators(self.config, &trace);
                self.found.violation = Some((violation, trace));
                return;
            }
            if effect.idle {
                continue;
            }
            next.canonical(self.config);
            self.arrive(at, depth, action, next);
        }
    }

    fn arrive(&mut self, at: u32, depth: u32, action: Action, next: State) {
        let print = next.fingerprint();
        let left = Left::of(&next, self.config.bounds);
        let new = u32::try_from(self.tree.links.len()).unwrap_or(u32::MAX);
        let known = self.visited.find_or_insert(print, left, new);
        let id = known.unwrap_or(new);
        if self.options.liveness && !action.is_fault() {
            self.edges.push((at, id));
        }
        if known.is_some() {
            return;
        }
        self.tree.links.push((at, action));
        self.found.states += 1;
        let beyond = next.is_beyond(self.config);
        if self.options.liveness {
            if beyond {
                self.marks.push(Mark::Beyond);
            } else {
                self.mark(&next);
            }
        }
        if beyond {
            self.found.beyond += 1;
        } else {
            self.queue.push(id, depth + 1, next);
        }
    }

    fn mark(&mut self, state: &State) {
        if !self.options.liveness {
            return;
        }
        let mark = match state.heal(self.config) {
            Heal::Whole => Mark::Whole,
            Heal::Hurt => Mark::Hurt,
            Heal::Human(_) => Mark::Human,
        };
        self.marks.push(mark);
    }

    /// Walks back from the whole states; what is not reached cannot heal. Of those, walks back from the states in
    /// which a human is asked; what is not reached then is stuck and does not say so.
    fn healing(&mut self) -> Healing {
        let mut edges = std::mem::take(&mut self.edges);
        edges.sort_unstable_by_key(|(_, to)| *to);
        let is = |wanted: fn(Mark) -> bool| self.marks.iter().map(|m| wanted(*m)).collect::<Vec<bool>>();
        let heals = reach(&edges, is(|m| matches!(m, Mark::Whole | Mark::Beyond)));
        let asks = reach(&edges, is(|m| m == Mark::Human));
        let mut healing = Healing {
            whole: self.marks.iter().filter(|m| **m == Mark::Whole).count() as u64,
            ..Healing::default()
        };
        for ((_, asks), id) in heals
            .iter()
            .zip(asks)
            .zip(0_u32..)
            .filter(|((heals, _), _)| !**heals)
        {
            healing.stuck += 1;
            if asks {
                healing.human += 1;
            } else if healing.example.is_none() {
                let trace = self.tree.trace(id);
                healing.example = Some(State::with_fixed_operators(self.config, &trace));
            }
        }
        healing
    }
}

/// Which states lead to one of these. The edges are sorted by where they lead to.
fn reach(edges: &[(u32, u32)], mut these: Vec<bool>) -> Vec<bool> {
    let mut pending: Vec<u32> = these
        .iter()
        .zip(0_u32..)
        .filter(|(is, _)| **is)
        .map(|(_, id)| id)
        .collect();
    while let Some(to) = pending.pop() {
        let start = edges.partition_point(|(_, t)| *t < to);
        for (from, _) in edges.iter().skip(start).take_while(|(_, t)| *t == to) {
            if let Some(reached) = these.get_mut(*from as usize).filter(|r| !**r) {
                *reached = true;
                pending.push(*from);
            }
        }
    }
    these
}
