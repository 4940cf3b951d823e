//! How a start is written down where the database obeys it.
//!
//! ScyllaDB reads dashes on its command line and underscores in `scylla.yaml`; a dashed key in the file is an unknown
//! key, of which it only warns before it boots *without* replacing. Cassandra takes the option as a system property.

use super::ids::Address;
use super::record::Replaces;
use super::spec::Engine;
use std::collections::BTreeMap;

/// The arguments of the database for this start.
pub fn arguments(engine: Engine, replaces: Option<Replaces>, seeds: &[Address]) -> Vec<String> {
    let mut arguments = Vec::new();
    match engine {
        Engine::Scylla(_) => {
            arguments.push("--seed-provider-parameters".to_owned());
            arguments.push(format!("seeds={}", joined(seeds)));
            match replaces {
                Some(Replaces::Host(host)) => arguments.push(format!("--replace-node-first-boot={host}")),
                Some(Replaces::Address(address)) => {
                    arguments.push(format!("--replace-address-first-boot={address}"));
                }
                None => {}
            }
        }
        // Replacing by host id does not exist there; `gate` never asks for it.
        Engine::Cassandra => {
            if let Some(Replaces::Address(address)) = replaces {
                arguments.push(format!("-Dcassandra.replace_address_first_boot={address}"));
            }
        }
    }
    arguments
}

/// The keys of the database's configuration file for this start, as it spells them.
///
/// For ScyllaDB the option stands here as well as on the command line, which wins: either is obeyed alone.
pub fn file(engine: Engine, replaces: Option<Replaces>, seeds: &[Address]) -> BTreeMap<String, String> {
    let provider = "org.apache.cassandra.locator.SimpleSeedProvider";
    let mut file = BTreeMap::from([(
        "seed_provider".to_owned(),
        format!(
            "[{{class_name: {provider}, parameters: [{{seeds: \"{}\"}}]}}]",
            joined(seeds)
        ),
    )]);
    if let (Engine::Scylla(_), Some(replaces)) = (engine, replaces) {
        let (key, value) = match replaces {
            Replaces::Host(host) => ("replace_node_first_boot", host.to_string()),
            Replaces::Address(address) => ("replace_address_first_boot", address.to_string()),
        };
        file.insert(key.to_owned(), value);
    }
    file
}

fn joined(seeds: &[Address]) -> String {
    let texts: Vec<String> = seeds.iter().map(ToString::to_string).collect();
    texts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::ids::HostId;

    #[test]
    fn n20_no_key_of_the_file_has_a_dash_and_no_argument_has_an_underscore() {
        let seeds = ["10.0.0.1", "10.0.0.2"].map(|s| s.parse().unwrap());
        for version in ["5.1", "2025.2"] {
            let engine = Engine::Scylla(version.parse().unwrap());
            for replaces in [
                None,
                Some(Replaces::Host(HostId(1))),
                Some(Replaces::Address(seeds[0])),
            ] {
                let file = file(engine, replaces, &seeds);
                assert!(file.keys().all(|key| !key.contains('-')), "{file:?}");
                let arguments = arguments(engine, replaces, &seeds);
                assert!(arguments.iter().all(|a| !a.contains('_')), "{arguments:?}");
                assert_eq!(file.len() - 1, usize::from(replaces.is_some()));
            }
        }
    }

    #[test]
    fn cassandra_gets_a_system_property_and_nothing_in_its_file() {
        let dead = Some(Replaces::Address("10.0.0.7".parse().unwrap()));
        let seeds = ["10.0.0.1".parse().unwrap()];
        assert_eq!(
            arguments(Engine::Cassandra, dead, &seeds),
            ["-Dcassandra.replace_address_first_boot=10.0.0.7"]
        );
        assert_eq!(file(Engine::Cassandra, dead, &seeds).len(), 1);
    }
}
