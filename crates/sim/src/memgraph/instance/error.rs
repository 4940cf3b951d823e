//! Why a command was refused.

/// The refusals of role, registration and storage commands. Each stands for
/// one text (or one number inside a text) of the real server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum Error {
    /// `SET REPLICATION ROLE TO MAIN` on a MAIN.
    #[error("already MAIN")]
    AlreadyMain,
    /// `SET REPLICATION ROLE TO REPLICA` on a REPLICA.
    #[error("already REPLICA")]
    AlreadyReplica,
    /// A commit is in flight (or, newer releases, a transaction is prepared):
    /// the lock over the replication state is taken.
    #[error("a commit is in flight")]
    Busy,
    /// The command needs a MAIN. Code 0 of REGISTER, shown as its own text.
    #[error("not MAIN")]
    NotMain,
    /// Code 1.
    #[error("a registration of that name exists")]
    NameExists,
    /// Code 2.
    #[error("a registration of that endpoint exists")]
    EndpointExists,
    /// Code 3, called "connection failed" by the server: the peer has history
    /// that this MAIN believes it does not have.
    #[error("the peer has diverged")]
    Diverged,
    /// Code 5: unreachable, nothing listens, or the peer is not a REPLICA.
    #[error("the peer did not accept this MAIN")]
    NotAccepted,
    /// Code 6: like `Busy`, but said by REGISTER.
    #[error("no access to the replication state")]
    NoAccess,
    /// No registration of that name.
    #[error("no such registration")]
    UnknownName,
    /// The commit is not at the stage this step continues from.
    #[error("no commit at that stage")]
    WrongStage,
    /// The registration is not in the status this step works on.
    #[error("the registration is not in the status for this")]
    WrongStatus,
    /// No snapshot on this disk.
    #[error("no snapshot")]
    NoSnapshot,
    /// The log does not reach back to the beginning: without its snapshot the
    /// process would not start.
    #[error("the log alone is incomplete")]
    LogIncomplete,
    /// This release takes no snapshots on replicas.
    #[error("replicas take no snapshots")]
    ReplicaSnapshot,
}

impl Error {
    /// The number in `Couldn't register replica <name>. Error: <k>`.
    pub const fn register_code(self) -> Option<u8> {
        match self {
            Self::NameExists => Some(1),
            Self::EndpointExists => Some(2),
            Self::Diverged => Some(3),
            Self::NotAccepted => Some(5),
            Self::NoAccess => Some(6),
            Self::AlreadyMain
            | Self::AlreadyReplica
            | Self::Busy
            | Self::NotMain
            | Self::UnknownName
            | Self::WrongStage
            | Self::WrongStatus
            | Self::NoSnapshot
            | Self::LogIncomplete
            | Self::ReplicaSnapshot => None,
        }
    }
}
