use super::cassandra::Newest;
use super::files::entries;
use super::scylla::{tables, without_ours};
use super::*;
use mainstay_core::ring::ids::{Address, Location};
use mainstay_core::ring::record::Replaces;
use std::fs;
use std::path::Path;

#[test]
fn what_the_tables_say_is_read_and_nothing_is_guessed() {
    let host = HostId(7);
    let completed = format!(r#"[{{"bootstrapped": "COMPLETED", "host_id": "{host}"}}]"#);
    assert_eq!(
        tables(completed.as_bytes()).unwrap(),
        Bootstrapped::Completed(host)
    );
    let begun = format!(r#"[{{"bootstrapped": "IN_PROGRESS", "host_id": "{host}"}}]"#);
    assert_eq!(tables(begun.as_bytes()).unwrap(), Bootstrapped::InProgress);
    let left = format!(r#"[{{"bootstrapped": "DECOMMISSIONED", "host_id": "{host}"}}]"#);
    assert_eq!(
        tables(left.as_bytes()).unwrap(),
        Bootstrapped::Decommissioned,
        "not to be wiped"
    );
    assert_eq!(tables(b"[]").unwrap(), Bootstrapped::Never);
    assert!(tables(b"").is_err());
    assert!(tables(br#"[{"bootstrapped": "COMPLETED"}]"#).is_err());
}

#[test]
fn s8_an_option_that_is_there_already_gives_way() {
    let given = [
        "--smp=2",
        "--replace-address-first-boot=10.9.9.9",
        "--replace_node_first_boot=x",
        "--replace-address",
        "10.9.9.9",
        "--endpoint-snitch",
        "SimpleSnitch",
        "--overprovisioned",
    ];
    let given: Vec<String> = given.map(str::to_owned).to_vec();
    assert_eq!(without_ours(&given), ["--smp=2", "--overprovisioned"]);
}

#[test]
fn scylla_is_told_where_it_lives_in_a_folder_with_all_that_the_image_has() {
    let state = std::env::temp_dir().join(format!("mainstay-gate-s-{}", std::process::id()));
    let image = state.join("etc");
    fs::create_dir_all(&image).unwrap();
    fs::write(image.join("scylla.yaml"), "cluster_name: theirs\n").unwrap();
    fs::write(image.join("cassandra-rackdc.properties"), "dc=wrong\n").unwrap();
    let home = ScyllaHome {
        version: "2025.2".parse().unwrap(),
        config: image,
        location: Location {
            dc: "dc1".parse().unwrap(),
            rack: "a".parse().unwrap(),
        },
    };
    let task = RingTask {
        database: Database::Scylla(home.clone()),
        command: vec!["/usr/bin/scylla".to_owned(), "--endpoint-snitch=Other".to_owned()],
        ..cassandra_task(&state).0
    };
    let own: Address = "10.0.0.7".parse().unwrap();
    // Also the second time, when all of it is there already.
    for _ in 0..2 {
        let Launch { args, env, .. } =
            scylla::launch(&task, &home, &start_of(None, &["10.0.0.8"]), own).unwrap();
        let snitch: Vec<&String> = args.iter().filter(|a| a.contains("snitch")).collect();
        assert_eq!(snitch, ["--endpoint-snitch=GossipingPropertyFileSnitch"]);
        let folder = Path::new(&env[0].1);
        assert_eq!(env[0].0, "SCYLLA_CONF");
        let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!(text("cassandra-rackdc.properties"), "dc=dc1\nrack=a\n");
        assert_eq!(text("scylla.yaml"), "cluster_name: theirs\n");
    }
    fs::remove_dir_all(&state).unwrap();
}

#[test]
fn a_wipe_keeps_the_stamp_and_nothing_else() {
    let data = std::env::temp_dir().join(format!("mainstay-gate-{}", std::process::id()));
    fs::create_dir_all(data.join("data/system/local-1")).unwrap();
    let table = data.join("data/system/local-1/me-1-big-Data.db");
    fs::write(&table, "x").unwrap();
    fs::write(data.join(STAMP_FILE), "y").unwrap();
    assert_eq!(local_tables(&data).unwrap(), std::slice::from_ref(&table));
    let before = signs(std::slice::from_ref(&table)).unwrap();
    assert_eq!(signs(std::slice::from_ref(&table)).unwrap(), before);
    fs::write(&table, "xy").unwrap();
    assert_ne!(
        signs(&[table]).unwrap(),
        before,
        "it is read again when it changed"
    );
    wipe(&data).unwrap();
    assert!(local_tables(&data).unwrap().is_empty());
    assert_eq!(entries(&data).unwrap(), [data.join(STAMP_FILE)]);
    fs::remove_dir_all(&data).unwrap();
}

/// What `sstabledump -t` of Cassandra 5.0.9 printed of a node, cut to what matters.
fn dumped(word: &str, at: &str, host: HostId) -> String {
    format!(
        r#"12:00:00,000 |-INFO a logger that has its say
[
  {{
    "table kind" : "REGULAR",
    "partition" : {{ "key" : [ "local" ], "position" : 19 }},
    "rows" : [
      {{
        "type" : "row", "position" : 19,
        "liveness_info" : {{ "tstamp" : "1794923334813000" }},
        "cells" : [
          {{ "name" : "bootstrapped", "value" : "{word}", "tstamp" : "{at}" }},
          {{ "name" : "broadcast_port", "value" : 7000, "tstamp" : "1794923331178000" }},
          {{ "name" : "host_id", "value" : "{host}", "tstamp" : "1794923331232000" }},
          {{ "name" : "tokens", "deletion_info" : {{ "marked_deleted" : "1794923334812999", "local_delete_time" : "1794923334" }} }},
          {{ "name" : "tokens", "path" : [ "-1855905346573112942" ], "value" : "" }}
        ]
      }}
    ]
  }}
]
"#
    )
}

#[test]
fn of_several_files_of_cassandra_the_newest_word_counts() {
    let host = HostId(7);
    let (begun, done) = (dumped("IN_PROGRESS", "10", host), dumped("COMPLETED", "20", host));
    for order in [[&begun, &done], [&done, &begun]] {
        let mut newest = Newest::default();
        for file in order {
            newest.read(file.as_bytes()).unwrap();
        }
        assert_eq!(newest.meaning().unwrap(), Bootstrapped::Completed(host));
    }
    let mut newest = Newest::default();
    newest.read(begun.as_bytes()).unwrap();
    assert_eq!(newest.meaning().unwrap(), Bootstrapped::InProgress);
    // A file of which nothing can be read is not an empty disk.
    assert!(Newest::default().read(b"").is_err());
    assert!(Newest::default().read(b"[\n{\n").is_err());
    assert_eq!(Newest::default().meaning().unwrap(), Bootstrapped::Never);
}

fn cassandra_task(state: &Path) -> (RingTask, CassandraHome) {
    let home = CassandraHome {
        dump: "/opt/cassandra/tools/bin/sstabledump".into(),
        config: state.join("shipped.yaml"),
        jolokia: "/opt/jolokia.jar".into(),
        listen: "10.1.1.1".parse().unwrap(),
        location: Location {
            dc: "dc1".parse().unwrap(),
            rack: "a".parse().unwrap(),
        },
        java: "-Xmx512m -Dcassandra.replace_address=10.9.9.9 -Dcassandra.allow_unsafe_replace=true"
            .to_owned(),
    };
    let id = "11111111-1111-4111-8111-111111111111";
    let task = RingTask {
        cluster: "ring".to_owned(),
        uid: id.parse().unwrap(),
        database: Database::Cassandra(Box::new(home.clone())),
        namespace: "default".to_owned(),
        member: "ring-a-0".parse().unwrap(),
        pod: id.parse().unwrap(),
        data: "/var/lib/cassandra".into(),
        state: state.to_owned(),
        command: vec!["/opt/cassandra/bin/cassandra".to_owned(), "-f".to_owned()],
        pause: Duration::from_secs(1),
        patience: Duration::from_secs(1),
    };
    (task, home)
}

fn start_of(replaces: Option<Replaces>, seeds: &[&str]) -> Start {
    let stamp = Stamp::fresh(DiskId(1));
    Start {
        wipe: false,
        replaces,
        seeds: seeds.iter().map(|s| s.parse().unwrap()).collect(),
        report: Report {
            disk: stamp.disk,
            ran: false,
            found: Found::Started(HostId(1)),
        },
        within: None,
        stamp,
    }
}

#[test]
fn s8_cassandra_gets_our_option_and_our_addresses_whatever_was_there() {
    let state = std::env::temp_dir().join(format!("mainstay-gate-c-{}", std::process::id()));
    fs::create_dir_all(&state).unwrap();
    let (task, home) = cassandra_task(&state);
    fs::write(
        &home.config,
        "num_tokens: 8\nlisten_address: localhost\nauto_bootstrap: false\ndisk_failure_policy: die\n",
    )
    .unwrap();
    let dead: Address = "10.0.0.7".parse().unwrap();
    let start = start_of(Some(Replaces::Address(dead)), &["10.0.0.8", "10.0.0.9"]);
    let own: Address = "10.0.0.7".parse().unwrap();
    let Launch { program, args, env } = cassandra::launch(&task, &home, &start, own, 7).unwrap();
    assert_eq!(program, "/opt/cassandra/bin/cassandra");
    assert_eq!(args.first().unwrap(), "-f");
    assert_eq!(
        args.last().unwrap(),
        "-Dcassandra.replace_address_first_boot=10.0.0.7"
    );
    assert!(args[1..].iter().all(|a| a.starts_with("-D")), "{args:?}");
    let (name, java) = &env[0];
    assert_eq!(name, "JVM_EXTRA_OPTS");
    assert!(java.starts_with("-Xmx512m -javaagent:/opt/jolokia.jar=host=10.1.1.1,port=8778,"));
    assert!(!java.contains("replace") && !java.contains("unsafe"), "{java}");
    let config = cassandra::current(&state).unwrap().unwrap();
    let text = fs::read_to_string(&config).unwrap();
    for line in [
        "num_tokens: 8\n",
        "listen_address: 10.1.1.1\n",
        "broadcast_address: 10.0.0.7\n",
        "broadcast_rpc_address: 10.0.0.7\n",
        "disk_failure_policy: die\n",
        "data_file_directories: [/var/lib/cassandra/data]\n",
        "seeds: \"10.0.0.8,10.0.0.9\"",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(
        !text.contains("auto_bootstrap") && !text.contains("replace"),
        "{text}"
    );

    // The next start has another file: who still writes to the old one writes to nobody's.
    cassandra::launch(&task, &home, &start_of(None, &["10.0.0.7"]), own, 8).unwrap();
    assert!(!config.exists());
    let next = cassandra::current(&state).unwrap().unwrap();
    let all = ["10.0.0.7", "10.0.0.8"].map(|s| s.parse::<Address>().unwrap());
    assert!(!cassandra::reseed(&config, &all).unwrap());
    assert!(cassandra::reseed(&next, &all).unwrap());
    assert!(!cassandra::reseed(&next, &all).unwrap(), "written once");
    let text = fs::read_to_string(&next).unwrap();
    assert!(text.contains("seeds: \"10.0.0.7,10.0.0.8\""), "{text}");
    fs::remove_dir_all(&state).unwrap();
}
