//! Why a schedule says what it says.

use serde::Serialize;
use std::fmt;

/// What decides at a moment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Cause {
    /// Inside one of the plan's own windows.
    Window {
        /// Which, as it is written.
        window: String,
    },
    /// Outside every window.
    OutsideWindows,
    /// A day off.
    Holiday {
        /// Its name.
        name: String,
        /// Its date.
        date: String,
    },
    /// An exception adds this.
    Extended {
        /// Which.
        exception: String,
    },
    /// An exception replaces the windows, and one of its own is open.
    Replaced {
        /// Which.
        exception: String,
    },
    /// An exception replaces the windows, and none of its own is open.
    ReplacedAway {
        /// Which.
        exception: String,
    },
    /// An exception keeps things awake.
    KeptAwake {
        /// Which.
        exception: String,
    },
    /// It would only sleep for a short while before an exception keeps things awake.
    LeadTime {
        /// Which.
        exception: String,
    },
    /// Somebody asked for it, for a while.
    Asked {
        /// Asleep, or awake?
        asleep: bool,
        /// Who, and why.
        note: String,
    },
}

impl Cause {
    /// For labels of metrics and reasons of conditions.
    pub fn id(&self) -> &'static str {
        match self {
            Self::Window { .. } => "Window",
            Self::OutsideWindows => "OutsideWindows",
            Self::Holiday { .. } => "Holiday",
            Self::Extended { .. } => "Extended",
            Self::Replaced { .. } => "Replaced",
            Self::ReplacedAway { .. } => "ReplacedAway",
            Self::KeptAwake { .. } => "KeptAwake",
            Self::LeadTime { .. } => "LeadTime",
            Self::Asked { .. } => "Asked",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Window { window } => write!(f, "inside the window {window}"),
            Self::OutsideWindows => f.write_str("outside every window"),
            Self::Holiday { name, date } if name.is_empty() => write!(f, "{date} is a holiday"),
            Self::Holiday { name, date } => write!(f, "{date} is a holiday ({name})"),
            Self::Extended { exception } => write!(f, "exception `{exception}` extends the sleep"),
            Self::Replaced { exception } => write!(
                f,
                "inside a window of exception `{exception}`, which replaces the schedule"
            ),
            Self::ReplacedAway { exception } => {
                write!(
                    f,
                    "exception `{exception}` replaces the schedule, and none of its windows is open"
                )
            }
            Self::KeptAwake { exception } => write!(f, "exception `{exception}` suspends the sleep"),
            Self::LeadTime { exception } => {
                write!(
                    f,
                    "exception `{exception}` suspends the sleep soon: it is not begun within its lead time"
                )
            }
            Self::Asked { asleep, note } => {
                let state = if *asleep { "asleep" } else { "awake" };
                write!(f, "somebody asked for it to be {state}")?;
                if note.is_empty() {
                    Ok(())
                } else {
                    write!(f, " ({note})")
                }
            }
        }
    }
}
