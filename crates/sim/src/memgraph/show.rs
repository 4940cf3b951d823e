//! A simulated cluster for people: it starts, loses its MAIN, gets it back, moves it, and says why.

use super::world::{Action, Budget, Config, Look, State, describe};

/// One line of the show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// What is about to happen, for a person.
    Chapter(String),
    /// Something that happened.
    Event(String),
    /// What it did, or why it was decided.
    Detail(String),
    /// The cluster, in one line.
    State(String),
}

/// Plays the show; `false` if an acknowledged write was lost or the cluster did not come back.
pub fn play(mut tell: impl FnMut(Line)) -> bool {
    let config = Config {
        pods: 3,
        gateways: 2,
        operators: 1,
        writes: 1000,
        budget: Budget {
            crashes: 9,
            switchovers: 9,
            ..Budget::default()
        },
        ..three_pods()
    };
    let mut show = Show {
        state: State::fresh(&config),
        config: &config,
        tell: &mut tell,
        clean: true,
    };
    show.chapter("Three empty pods. The operator looks, writes its record, and makes pod-0 MAIN.");
    show.settle();
    show.chapter("Clients write through a gateway.");
    show.write(3);
    show.chapter("pod-0 is killed while it is MAIN.");
    show.happen(Action::Crash(0));
    show.settle();
    show.chapter("Writes go on, on the pod that was protected. The old MAIN rejoined by itself.");
    show.write(3);
    show.chapter("MAIN is moved back, on request: gateways hold, demote, promote, open.");
    show.happen(Action::Observe(0, Look::Switchover));
    show.settle();
    show.write(2);
    show.finish()
}

fn three_pods() -> Config {
    let mut config = Config::small("sandbox");
    config.spec.replicas = 3;
    config
}

struct Show<'a, T: FnMut(Line)> {
    config: &'a Config,
    state: State,
    tell: &'a mut T,
    clean: bool,
}

impl<T: FnMut(Line)> Show<'_, T> {
    fn chapter(&mut self, text: &str) {
        (self.tell)(Line::Chapter(text.to_owned()));
    }

    fn happen(&mut self, action: Action) {
        let before = describe(&self.state);
        let effect = self.state.apply(self.config, action, true);
        if effect.idle {
            return;
        }
        (self.tell)(Line::Event(action.to_string()));
        for note in effect.notes {
            (self.tell)(Line::Detail(note));
        }
        let after = describe(&self.state);
        if after != before {
            (self.tell)(Line::State(after));
        }
        if let Some(violation) = effect.violation {
            self.clean = false;
            (self.tell)(Line::Detail(format!("VIOLATION: {violation}")));
        }
    }

    /// Everybody does their work until the cluster serves and is protected, with every pod registered.
    fn settle(&mut self) {
        for _ in 0..500 {
            match self.state.next_fair(self.config) {
                Some(action) => self.happen(action),
                None => break,
            }
        }
        self.clean &= self.state.is_whole();
    }

    fn write(&mut self, count: u16) {
        for _ in 0..count {
            let before = self.state.acked.len();
            for action in [Action::Connect(0), Action::Write(0)] {
                if self.state.enabled(self.config).contains(&action) {
                    self.happen(action);
                }
            }
            self.settle();
            self.clean &= self.state.acked.len() > before;
        }
    }

    fn finish(self) -> bool {
        let lost = self.state.lost_write();
        let acked = self.state.acked.len();
        let verdict = match lost {
            None => format!("{acked} writes acknowledged, 0 lost."),
            Some(write) => format!("{acked} writes acknowledged, w{} is lost.", write.0),
        };
        (self.tell)(Line::Chapter(verdict));
        self.clean && lost.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_show_ends_well_and_loses_nothing() {
        let mut chapters = Vec::new();
        let well = play(|line| {
            if let Line::Chapter(text) = line {
                chapters.push(text);
            }
        });
        assert!(well);
        assert_eq!(
            chapters.last().map(String::as_str),
            Some("8 writes acknowledged, 0 lost.")
        );
    }
}
