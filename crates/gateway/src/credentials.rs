//! Whom the gateway itself logs in as, when it asks MAIN for its replicas.

use bolt::message::Auth;
use std::io;
use std::path::PathBuf;

/// Whom the gateway itself logs in as.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// Nobody: the cluster has no users.
    None,
    /// What two files say, read with each connection, so that another password needs no restart. As it is in the Secret,
    /// to the byte: the operator reads the same.
    Files {
        /// The name.
        username: PathBuf,
        /// The password.
        password: PathBuf,
    },
}

impl Credentials {
    pub(crate) async fn read(&self) -> io::Result<Auth<'static>> {
        match self {
            Self::None => Ok(Auth::None),
            Self::Files { username, password } => Ok(Auth::basic(
                tokio::fs::read_to_string(username).await?,
                tokio::fs::read_to_string(password).await?,
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn credentials_are_what_the_files_say_now_to_the_byte() {
        let file = |name: &str| {
            std::env::temp_dir().join(format!("mainstay-credentials-{name}-{}", std::process::id()))
        };
        let (username, password) = (file("u"), file("p"));
        let from = Credentials::Files {
            username: username.clone(),
            password: password.clone(),
        };
        assert!(from.read().await.is_err(), "no password is not an empty one");
        for secret in ["one", "two\n"] {
            std::fs::write(&username, "admin").unwrap();
            std::fs::write(&password, secret).unwrap();
            assert_eq!(from.read().await.unwrap(), Auth::basic("admin", secret));
        }
        for path in [username, password] {
            std::fs::remove_file(path).unwrap();
        }
        assert_eq!(Credentials::None.read().await.unwrap(), Auth::None);
    }
}
