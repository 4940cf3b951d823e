//! Container paths and addresses, without a container.
//!
//! A process here has no file system and no network of its own. So what a pod
//! calls `/var/lib/memgraph` is replaced, in its command, arguments and
//! environment, by the folder that is mounted there, and `0.0.0.0` ("every
//! address of this pod") by the pod's address. A program that gets its paths
//! and addresses from there runs unchanged; one that has them built in, or
//! reads them from a file, does not.

use std::net::Ipv4Addr;
use std::path::PathBuf;

/// What stands for what in one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// Longest first: a mount below a mount wins.
    mounts: Vec<(String, PathBuf)>,
    bind: Ipv4Addr,
}

impl Paths {
    /// From mount path and folder; the order does not matter.
    pub fn new(mounts: impl IntoIterator<Item = (String, PathBuf)>, bind: Ipv4Addr) -> Self {
        let mut mounts: Vec<_> = mounts
            .into_iter()
            .map(|(path, folder)| (path.trim_end_matches('/').to_owned(), folder))
            .filter(|(path, _)| !path.is_empty())
            .collect();
        mounts.sort_by(|(a, _), (b, _)| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        Self { mounts, bind }
    }

    /// A text of the pod as the process must see it.
    pub fn translate(&self, text: &str) -> String {
        let mut result = String::with_capacity(text.len());
        let mut rest = text;
        let mut before = None;
        while let Some(next) = rest.chars().next() {
            let (taken, replacement) = match self.at(before, rest) {
                Some((taken, replacement)) => (taken, replacement),
                None => (next.len_utf8(), next.to_string()),
            };
            result.push_str(&replacement);
            let (done, further) = rest.split_at_checked(taken).unwrap_or((rest, ""));
            before = done.chars().next_back();
            rest = further;
        }
        result
    }

    fn at(&self, before: Option<char>, rest: &str) -> Option<(usize, String)> {
        // Only whole paths and whole addresses: `/data` is no part of `/mydata`,
        // of `/data2` or of `http://host/data`.
        let inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        if before.is_some_and(|c| inside(c) || c == '/') {
            return None;
        }
        let ends = |length: usize| rest.get(length..).is_some_and(|rest| !rest.starts_with(inside));
        let wildcard = "0.0.0.0";
        if rest.starts_with(wildcard) && ends(wildcard.len()) {
            return Some((wildcard.len(), self.bind.to_string()));
        }
        let found = self
            .mounts
            .iter()
            .find(|(path, _)| rest.starts_with(path.as_str()) && ends(path.len()));
        found.map(|(path, folder)| (path.len(), folder.display().to_string()))
    }
}

/// Replace `$(NAME)` by what is known under the name; `$$` escapes, an unknown
/// name stays as it is.
pub(super) fn expand<'a>(text: &str, known: &dyn Fn(&str) -> Option<&'a str>) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        result.push_str(before);
        if let Some(escaped) = after.strip_prefix('$') {
            result.push('$');
            rest = escaped;
            continue;
        }
        let reference = after.strip_prefix('(').and_then(|inner| inner.split_once(')'));
        if let Some((value, further)) = reference.and_then(|(name, further)| Some((known(name)?, further))) {
            result.push_str(value);
            rest = further;
        } else {
            result.push('$');
            rest = after;
        }
    }
    result.push_str(rest);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths() -> Paths {
        let mounts = [
            ("/data/", "/x/volume"),
            ("/data/sub", "/x/other"),
            ("/etc/app", "/x/etc"),
        ];
        Paths::new(
            mounts.map(|(path, folder)| (path.to_owned(), PathBuf::from(folder))),
            Ipv4Addr::new(127, 7, 0, 3),
        )
    }

    #[test]
    fn a_mount_path_becomes_its_folder_wherever_it_stands_alone() {
        for (text, expected) in [
            ("/data", "/x/volume"),
            ("--dir=/data/db", "--dir=/x/volume/db"),
            ("/data/sub/a:/data/b", "/x/other/a:/x/volume/b"),
            ("cp '/etc/app/x' \"/data\"", "cp '/x/etc/x' \"/x/volume\""),
        ] {
            assert_eq!(paths().translate(text), expected, "{text}");
        }
    }

    #[test]
    fn what_only_looks_like_a_mount_path_stays() {
        for text in [
            "/database",
            "/data-2",
            "/my/data",
            "http://host/data",
            "x/data",
            "/dat",
            "",
            "ä/data2",
        ] {
            assert_eq!(paths().translate(text), text, "{text}");
        }
    }

    #[test]
    fn every_address_means_the_address_of_the_pod() {
        assert_eq!(
            paths().translate("--bolt-address=0.0.0.0"),
            "--bolt-address=127.7.0.3"
        );
        assert_eq!(paths().translate("0.0.0.0:7687"), "127.7.0.3:7687");
        assert_eq!(paths().translate("10.0.0.0"), "10.0.0.0");
        assert_eq!(paths().translate("0.0.0.01"), "0.0.0.01");
    }

    #[test]
    fn variables_are_expanded_as_kubernetes_does() {
        let known = |name: &str| (name == "A").then_some("1");
        for (text, expected) in [
            ("$(A)$(A)", "11"),
            ("$(B)", "$(B)"),
            ("$$(A)", "$(A)"),
            ("$A", "$A"),
            ("x$", "x$"),
            ("$(A", "$(A"),
        ] {
            assert_eq!(expand(text, &known), expected, "{text}");
        }
    }
}
