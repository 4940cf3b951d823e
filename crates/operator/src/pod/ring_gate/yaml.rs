//! Top-level keys of a `cassandra.yaml`, without a parser of YAML: a key begins a line, and what belongs to it is
//! indented, or a list, or a comment.

use std::collections::BTreeMap;

fn key(line: &str) -> Option<&str> {
    if line.starts_with([' ', '\t', '#', '-']) {
        return None;
    }
    line.split_once(':').map(|(key, _)| key.trim_end())
}

/// Is this key there?
pub(super) fn has(text: &str, wanted: &str) -> bool {
    text.lines().any(|line| key(line) == Some(wanted))
}

/// The same file without these keys, and with these in their place.
pub(super) fn with(text: &str, without: &[&str], keys: &BTreeMap<String, String>) -> String {
    let mut result = String::new();
    let mut dropping = false;
    for line in text.lines() {
        if let Some(key) = key(line) {
            dropping = without.contains(&key) || keys.contains_key(key);
        }
        if !dropping {
            result.push_str(line);
            result.push('\n');
        }
    }
    for (key, value) in keys {
        result.push_str(key);
        result.push_str(": ");
        result.push_str(value);
        result.push('\n');
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHIPPED: &str = "\
cluster_name: 'Test Cluster'
# seeds are somewhere below
seed_provider:
  # Addresses of hosts
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: \"127.0.0.1:7000\"

num_tokens: 16
data_file_directories:
- /var/lib/cassandra/data
# listen_interface: eth0
concurrent_reads: 32
";

    #[test]
    fn a_key_goes_with_all_that_belongs_to_it_and_comes_once() {
        let keys = BTreeMap::from([("seed_provider".to_owned(), "[ours]".to_owned())]);
        let text = with(SHIPPED, &["data_file_directories"], &keys);
        for gone in ["SimpleSeedProvider", "/var/lib/cassandra/data", "127.0.0.1"] {
            assert!(!text.contains(gone), "{text}");
        }
        for kept in [
            "cluster_name: 'Test Cluster'",
            "num_tokens: 16",
            "concurrent_reads: 32",
        ] {
            assert!(text.contains(kept), "{text}");
        }
        assert_eq!(text.matches("seed_provider:").count(), 1);
        // Once more changes nothing: the file is written again while the database runs.
        assert_eq!(with(&text, &[], &keys), text);
        assert!(has(&text, "num_tokens") && !has(&text, "listen_interface"));
    }
}
