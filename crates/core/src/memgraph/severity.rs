//! How loud a reason is said, whether or not something is done about it.

use super::reason::Why;

/// How loud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// It goes as it should, or will in a moment.
    Normal,
    /// Something is not as it should be, and is seen to or waited for.
    Warning,
    /// Clients feel it until it is over, or a person has to decide.
    Error,
}

impl Why {
    /// How loud this is said. A new sentence has to choose: there is no default.
    pub fn severity(&self) -> Severity {
        match self {
            Self::NobodyEntitled { .. }
            | Self::MainVolumeLost { .. }
            | Self::SuspiciousData { .. }
            | Self::MainReadOnly { .. }
            | Self::EverybodyAccused { .. }
            | Self::NeedsApproval { .. }
            | Self::ReplicaAhead { .. }
            | Self::NothingThere { .. }
            | Self::UnknownState => Severity::Error,
            Self::MainTerminating { .. }
            | Self::MainEnded { .. }
            | Self::MainDemoted { .. }
            | Self::VetoedByGateway { .. }
            | Self::PromotionHeldUp { .. }
            | Self::PromotionHeldUpUnfenced { .. }
            | Self::CandidateGone { .. }
            | Self::CandidateTooSilent { .. }
            | Self::CandidateSpoiled { .. }
            | Self::StrayMain { .. }
            | Self::PartnerAway { .. }
            | Self::RegistrationWrong { .. }
            | Self::RegistrationLost { .. }
            | Self::ReplicaStuck { .. }
            | Self::SyncAwayTooLong { .. }
            | Self::MainHangs { .. }
            | Self::SyncHangs { .. }
            | Self::DropUnsafe { .. }
            | Self::ResetReplica { .. }
            | Self::ResetUnheeded { .. }
            | Self::ResetGivenUp { .. }
            | Self::MainSuspect { .. }
            | Self::AskOthersFirst { .. }
            | Self::TooOldToJudge { .. }
            | Self::TooManyResets { .. }
            | Self::NoRoom { .. }
            | Self::LastCopy { .. }
            | Self::OtherReset { .. }
            | Self::MayHoldLostWrite { .. }
            | Self::MarkLost { .. }
            | Self::ClosedByPolicy
            | Self::SwitchoverRefused { .. }
            | Self::SwitchoverGivenUp { .. }
            | Self::MoveOutlasted { .. }
            | Self::Overridden { .. }
            | Self::WakeNeedsMain { .. }
            | Self::NotReady { .. }
            | Self::RecordRebuilt { .. }
            | Self::ExtraMain { .. }
            | Self::Hollow { .. } => Severity::Warning,
            // Those with a count that grows are among them: what is done about it is said, not every count.
            Self::Healthy { .. }
            | Self::PausedByHuman { .. }
            | Self::MainRefuses { .. }
            | Self::MainSilent { .. }
            | Self::NoNews { .. }
            | Self::PromoteProtected { .. }
            | Self::PromoteReturned { .. }
            | Self::TakeOver { .. }
            | Self::CandidateSilent { .. }
            | Self::CandidateReturned { .. }
            | Self::CandidateRestarts { .. }
            | Self::DataUnread { .. }
            | Self::RegistrationsUnread { .. }
            | Self::PortClosed { .. }
            | Self::JoinAsync { .. }
            | Self::CatchingUp { .. }
            | Self::HoldForJoin { .. }
            | Self::HoldUnconfirmed { .. }
            | Self::HoldOver { .. }
            | Self::JoinStrict { .. }
            | Self::LooseProcess { .. }
            | Self::NewEpoch { .. }
            | Self::ProveNow { .. }
            | Self::GatewaysBehind { .. }
            | Self::ResetWanted { .. }
            | Self::ResetPending { .. }
            | Self::ResetOver { .. }
            | Self::ResetOverruled { .. }
            | Self::SwitchoverWanted { .. }
            | Self::SwitchoverPaced { .. }
            | Self::FallAsleep
            | Self::Asleep
            | Self::WakeUp { .. }
            | Self::WaitForPods
            | Self::InitialState
            | Self::OperationalState { .. }
            | Self::ProveSuperset { .. }
            | Self::NotWanted { .. } => Severity::Normal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memgraph::ids::Ordinal;

    #[test]
    fn whatever_waits_for_a_person_is_an_error() {
        let (main, pod) = (Ordinal(0), Ordinal(1));
        for why in [
            Why::UnknownState,
            Why::NobodyEntitled { awaited: main },
            Why::MainVolumeLost { main, other: pod },
            Why::SuspiciousData { pod },
            Why::NeedsApproval { pod },
            // The seeds call this one a big error: clients cannot write.
            Why::MainReadOnly { pod },
        ] {
            assert_eq!(why.severity(), Severity::Error, "{why}");
        }
        assert_eq!(Why::Healthy { main }.severity(), Severity::Normal);
        assert_eq!(Why::PartnerAway { pod }.severity(), Severity::Warning);
    }
}
