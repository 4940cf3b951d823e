//! Behaviour that changed between releases of the server.

/// Which release is modelled.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Profile {
    /// 3.6 and 3.7.0, 3.7.1.
    V3_6,
    /// 3.8 and 3.9.
    V3_9,
    /// 3.12.
    V3_12,
    /// What is on the main branch after 3.12.
    Next,
}

/// How a client learns that a SYNC replica did not confirm a committed write.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SyncFailure {
    /// `TransientError`: drivers repeat the committed write.
    Transient,
    /// `ClientError`.
    Client,
    /// Success with a warning in the summary.
    Warning,
}

impl Profile {
    /// Promotion answers an error while a two-phase transaction is prepared.
    pub const fn refuses_promotion_while_prepared(self) -> bool {
        matches!(self, Self::V3_12 | Self::Next)
    }

    /// A registration refused as diverged stays in the list, detached: the
    /// roll-back wants a lock that its own caller holds.
    pub const fn keeps_diverged_registration(self) -> bool {
        !matches!(self, Self::Next)
    }

    /// Replicas write snapshots (on exit and by command).
    pub const fn replicas_snapshot(self) -> bool {
        !matches!(self, Self::V3_6)
    }

    /// Recovery from a snapshot notes the current epoch in the history even
    /// if no log follows it. 3.12 does not, which hides the false divergence
    /// after a graceful stop of a replica.
    pub const fn notes_epoch_of_snapshot(self) -> bool {
        matches!(self, Self::V3_6 | Self::V3_9)
    }

    /// MAIN takes a yes vote for the position of the replica, whatever becomes
    /// of the transaction. Later releases wait for the finalize answer.
    pub const fn position_from_vote(self) -> bool {
        matches!(self, Self::V3_6 | Self::V3_9)
    }

    /// The position of a replica found diverged is shown; later releases show
    /// what they knew before.
    pub const fn shows_position_of_diverged(self) -> bool {
        matches!(self, Self::V3_6 | Self::V3_9)
    }

    /// A SYNC replica next to a STRICT_SYNC one aborts writes; before it was
    /// silently not waited for.
    pub const fn mixed_sync_aborts(self) -> bool {
        matches!(self, Self::V3_12 | Self::Next)
    }

    /// What a client is told when a SYNC replica did not confirm.
    pub const fn sync_failure(self) -> SyncFailure {
        match self {
            Self::V3_6 => SyncFailure::Transient,
            Self::V3_9 | Self::V3_12 => SyncFailure::Client,
            Self::Next => SyncFailure::Warning,
        }
    }

    /// Seconds until a commit gives up on a partitioned peer. A peer that is
    /// paused, so that its kernel still takes the bytes, costs 30 s everywhere.
    pub const fn partition_timeout_seconds(self) -> u32 {
        match self {
            Self::V3_6 | Self::V3_9 => 30,
            Self::V3_12 | Self::Next => 5,
        }
    }
}
