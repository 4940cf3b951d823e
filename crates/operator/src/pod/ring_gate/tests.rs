use super::*;

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
    ];
    let given: Vec<String> = given.map(str::to_owned).to_vec();
    assert_eq!(without_replace(&given), ["--smp=2"]);
}

#[test]
fn a_wipe_keeps_the_stamp_and_nothing_else() {
    let data = std::env::temp_dir().join(format!("mainstay-gate-{}", std::process::id()));
    fs::create_dir_all(data.join("data/system/local-1")).unwrap();
    let table = data.join("data/system/local-1/me-1-big-Data.db");
    fs::write(&table, "x").unwrap();
    fs::write(data.join(STAMP_FILE), "y").unwrap();
    assert_eq!(local_tables(&data).unwrap(), [table]);
    wipe(&data).unwrap();
    assert!(local_tables(&data).unwrap().is_empty());
    assert_eq!(entries(&data).unwrap(), [data.join(STAMP_FILE)]);
    fs::remove_dir_all(&data).unwrap();
}
