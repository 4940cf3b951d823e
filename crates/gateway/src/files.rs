//! How many files this process may have open. A session is two: the client's connection and the database's.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;

/// For listeners, the API, the admin port, files that are read again, and clients that are refused.
const SPARE: u64 = 256;

/// Raises the limit as far as this process may, and says what it is then; `None`: there is none.
///
/// The limit that a process is started with is often 1024, which old programs need. That is a twentieth of what a gateway
/// needs for its connections, and whoever comes beyond is neither served nor refused.
pub fn raise_file_limit() -> io::Result<Option<u64>> {
    let Rlimit { current: _, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, raised)?;
    Ok(getrlimit(Resource::Nofile).current)
}

/// Do so many connections fit into this limit?
pub fn files_suffice(limit: Option<u64>, connections: usize) -> bool {
    let connections = u64::try_from(connections).unwrap_or(u64::MAX);
    let needed = connections.saturating_mul(2).saturating_add(SPARE);
    limit.is_none_or(|limit| limit >= needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_needs_two_files_and_some_are_for_the_rest() {
        assert!(files_suffice(None, usize::MAX));
        assert!(files_suffice(Some(1_048_576), 100_000));
        assert!(files_suffice(Some(20_256), 10_000));
        for (limit, connections) in [
            (20_255, 10_000),
            (1024, 10_000),
            (1024, 512),
            (u64::MAX - 1, usize::MAX),
        ] {
            assert!(
                !files_suffice(Some(limit), connections),
                "{limit} for {connections}"
            );
        }
    }
}
