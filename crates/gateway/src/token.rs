//! What a push must carry.

use std::fmt;
use std::path::PathBuf;

/// The token that a push must carry. Shown by no `Debug`.
#[derive(Clone)]
pub enum PushToken {
    /// There is none: no push is obeyed.
    None,
    /// This one.
    Fixed(String),
    /// Whatever the file says at that moment: a mounted Secret changes under a running gateway.
    File(PathBuf),
}

impl fmt::Debug for PushToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Fixed(_) => f.write_str("Fixed(..)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

impl PushToken {
    /// Does this `Authorization` header carry the token?
    pub async fn admits(&self, authorization: Option<&[u8]>) -> bool {
        let Some(shown) = authorization.and_then(|value| value.strip_prefix(b"Bearer ".as_slice())) else {
            return false;
        };
        match self {
            Self::None => false,
            Self::Fixed(token) => same(token.as_bytes(), shown),
            Self::File(path) => match tokio::fs::read(path).await {
                Ok(token) => same(token.trim_ascii(), shown),
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "the push token cannot be read: no push is obeyed");
                    false
                }
            },
        }
    }
}

/// Takes the same time wherever they differ: the time must not tell how much of a guess was right.
fn same(token: &[u8], shown: &[u8]) -> bool {
    // An empty token is a Secret that nobody filled.
    let mut differs = u8::from(token.is_empty() || token.len() != shown.len());
    for (a, b) in token.iter().zip(shown) {
        differs |= a ^ b;
    }
    differs == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_whole_token_is_admitted() {
        let token = PushToken::Fixed("secret".to_owned());
        assert!(token.admits(Some(b"Bearer secret")).await);
        for wrong in [
            "Bearer secre",
            "Bearer secrets",
            "Bearer Secret",
            "Bearer ",
            "Basic secret",
            "secret",
            "",
        ] {
            assert!(!token.admits(Some(wrong.as_bytes())).await, "{wrong}");
        }
        assert!(!token.admits(None).await);
    }

    #[tokio::test]
    async fn without_a_token_nothing_is_admitted() {
        for token in [
            PushToken::None,
            PushToken::Fixed(String::new()),
            PushToken::File(PathBuf::from("/nowhere/at/all")),
        ] {
            for shown in ["Bearer ", "Bearer x"] {
                assert!(!token.admits(Some(shown.as_bytes())).await, "{token:?}");
            }
        }
    }

    #[tokio::test]
    async fn a_file_counts_as_it_is_now() {
        let path = std::env::temp_dir().join(format!("mainstay-token-{}", std::process::id()));
        std::fs::write(&path, "one\n").unwrap();
        let token = PushToken::File(path.clone());
        assert!(token.admits(Some(b"Bearer one")).await);
        std::fs::write(&path, "two").unwrap();
        assert!(!token.admits(Some(b"Bearer one")).await);
        assert!(token.admits(Some(b"Bearer two")).await);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_token_is_not_shown() {
        assert!(!format!("{:?}", PushToken::Fixed("secret".to_owned())).contains("secret"));
    }
}
