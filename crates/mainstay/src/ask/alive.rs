//! Does an operator live? What the status says is as old as its last word. Pure.

use super::why::passed;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::{Value, json};

/// As long as a lease lasts: a holder that lives renews it several times meanwhile.
const SILENT: SignedDuration = SignedDuration::from_secs(15);

/// When an operator was last heard of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// One of them renewed its lease then.
    At(Timestamp),
    /// None ever had a lease.
    Never,
    /// Leases cannot be listed; why.
    Hidden(String),
}

impl Heard {
    /// Of the one that was heard last: with an operator for each namespace nothing says which of them a cluster has.
    pub(super) fn of(leases: &[Lease]) -> Self {
        let renewed = leases
            .iter()
            .filter_map(|lease| Some(lease.spec.as_ref()?.renew_time.as_ref()?.0));
        renewed.max().map_or(Self::Never, Self::At)
    }

    /// What is to be said before anything that an operator has said; nothing if one lives.
    pub(super) fn warning(&self, now: Timestamp) -> Option<String> {
        match self {
            Self::At(at) => {
                let silent = now.duration_since(*at);
                (silent > SILENT).then(|| {
                    format!(
                        "no operator has renewed its lease for {}: this is what was last said",
                        passed(silent)
                    )
                })
            }
            Self::Never => {
                Some("no operator has ever led here: this is what was last said, if anything".to_owned())
            }
            Self::Hidden(why) => Some(format!(
                "whether an operator lives cannot be seen, so this may be old: {why}"
            )),
        }
    }

    /// The same for programs.
    pub(super) fn json(&self, now: Timestamp) -> Value {
        let renewed = match self {
            Self::At(at) => Some(at.to_string()),
            Self::Never | Self::Hidden(_) => None,
        };
        json!({ "renewed": renewed, "warning": self.warning(now) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-16T12:00:00Z".parse().unwrap()
    }

    fn lease(renewed: Option<&str>) -> Lease {
        serde_json::from_value(json!({ "metadata": {}, "spec": { "renewTime": renewed } })).unwrap()
    }

    #[test]
    fn what_nobody_stands_for_any_more_is_said_to_be_old() {
        let hours = Heard::of(&[lease(None), lease(Some("2026-11-16T09:00:00.000000Z"))]);
        assert_eq!(
            hours.warning(now()).as_deref(),
            Some("no operator has renewed its lease for 3 h: this is what was last said")
        );
        assert_eq!(hours.json(now())["renewed"], "2026-11-16T09:00:00Z");
        let never = Heard::of(&[lease(None)]);
        assert_eq!(never, Heard::of(&[]));
        assert!(never.warning(now()).unwrap().contains("ever"));
        let hidden = Heard::Hidden("forbidden".to_owned()).warning(now()).unwrap();
        assert!(hidden.ends_with("forbidden"), "{hidden}");
    }

    #[test]
    fn an_operator_that_lives_needs_no_word() {
        for renewed in [
            "2026-11-16T11:59:45.000000Z",
            "2026-11-16T12:00:00.000000Z",
            // By a clock that is ahead of ours.
            "2026-11-16T12:00:30.000000Z",
        ] {
            let heard = Heard::of(&[lease(Some("2026-11-16T09:00:00.000000Z")), lease(Some(renewed))]);
            assert_eq!(heard.warning(now()), None, "{renewed}");
            assert_eq!(heard.json(now())["warning"], Value::Null);
        }
    }
}
