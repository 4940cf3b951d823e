use super::*;
use crate::memgraph::ids::{Gen, Ordinal};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn text(s: &str) -> Cell {
    Cell::Text(s.to_owned())
}

fn map<const N: usize>(entries: [(&str, Cell); N]) -> Cell {
    Cell::Map(entries.map(|(k, v)| (k.to_owned(), v)).into())
}

fn about(database: &str, status: &str, behind: i64) -> Cell {
    map([(
        database,
        map([
            ("ts", Cell::Int(3)),
            ("behind", Cell::Int(behind)),
            ("status", text(status)),
        ]),
    )])
}

fn attached(status: Status, behind: i64) -> DataInfo {
    DataInfo::Attached {
        status: Shown::Known(status),
        behind,
        ts: Some(3),
    }
}

#[test]
fn r11_every_status_is_read_from_a_map() {
    for (shown, status) in [
        ("ready", Status::Ready),
        ("replicating", Status::Replicating),
        ("recovery", Status::Recovery),
        ("invalid", Status::Invalid),
        ("diverged", Status::Diverged),
    ] {
        assert_eq!(data_info(&about("memgraph", shown, 0)), Ok(attached(status, 0)));
    }
}

#[test]
fn r11_the_text_of_a_map_is_read_as_the_map() {
    for shown in [
        r#"{"memgraph": {"behind": -3, "status": "invalid", "ts": 3}}"#,
        "{memgraph: {behind: -3, status: 'invalid', ts: 3}}",
        "{memgraph: {ts: 3, behind: -3, status: invalid}}",
        "  { memgraph : { ts : 3 , behind : -3 , status : \"invalid\" } , other : { ts: [1, 2] } }  ",
    ] {
        assert_eq!(
            data_info(&text(shown)),
            Ok(attached(Status::Invalid, -3)),
            "{shown}"
        );
    }
}

#[test]
fn r11_empty_null_and_other_databases_are_detached() {
    let others = about("analytics", "ready", 0);
    for shown in [
        map([]),
        text("{}"),
        text(" { } "),
        text(""),
        text("null"),
        Cell::Null,
        others,
    ] {
        assert_eq!(data_info(&shown), Ok(DataInfo::Detached), "{shown:?}");
    }
    assert_eq!(
        data_info(&text("{analytics: {behind: 0, status: ready, ts: 1}}")),
        Ok(DataInfo::Detached)
    );
    assert_eq!(
        data_info(&map([("memgraph", Cell::Null)])),
        Ok(DataInfo::Detached)
    );
}

#[test]
fn r11_negative_behind_is_lag_and_positive_behind_is_kept_as_it_is() {
    for behind in [-5_000, -1, 0, 1, 44] {
        assert_eq!(
            data_info(&about("memgraph", "ready", behind)),
            Ok(attached(Status::Ready, behind))
        );
    }
}

#[test]
fn r11_an_unknown_status_is_attached_and_neither_level_nor_accused_nor_droppable() {
    let DataInfo::Attached {
        status,
        behind: 0,
        ts: Some(3),
    } = data_info(&about("memgraph", "resting", 0)).unwrap()
    else {
        panic!("not attached");
    };
    assert_eq!(
        (status.status(), status),
        (Status::Recovery, Shown::Unknown("resting".to_owned()))
    );
}

#[test]
fn r11_what_is_not_data_info_is_an_error_and_never_detached_or_level() {
    let bad = [
        Cell::Int(0),
        Cell::Bool(false),
        Cell::List(vec![]),
        text("ready"),
        text("{memgraph: {behind: 0, status: ready}"),
        text("{memgraph: {behind: 0, status: ready}} {}"),
        text("{memgraph: {behind: 0, behind: 1, status: ready}}"),
        text("{memgraph: {behind: 0}}"),
        text("{memgraph: {status: ready}}"),
        text("{memgraph: {behind: 0.5, status: ready}}"),
        text("{memgraph: ready}"),
        map([(
            "memgraph",
            map([("status", text("ready")), ("behind", Cell::Null)]),
        )]),
        text(&"[".repeat(100_000)),
    ];
    for shown in bad {
        assert!(data_info(&shown).is_err(), "{shown:?}");
    }
}

const COLUMNS: [&str; 5] = ["name", "socket_address", "sync_mode", "system_info", "data_info"];

fn row(name: &str, mode: &str, info: Cell) -> Vec<Cell> {
    vec![text(name), text("10.99.0.12:10000"), text(mode), Cell::Null, info]
}

#[test]
fn r11_a_row_becomes_a_registration() {
    let shown = row("memgraph_ha_1_g7", "strict_sync", about("memgraph", "ready", 0));
    let replica = Replica::read("memgraph_ha", &COLUMNS, &shown).unwrap();
    assert_eq!(replica.address, "10.99.0.12:10000");
    let expected = Registration {
        name: RegistrationName::Strict(Ordinal(1), Gen(7)),
        mode: Mode::StrictSync,
        address_ok: true,
        attached: true,
        status: Status::Ready,
        behind: 0,
        since: Time(9),
        moved: Some(Time(8)),
    };
    assert_eq!(replica.registration(true, Time(9), Some(Time(8))), expected);
}

#[test]
fn r11_a_zombie_is_listed_and_never_ready() {
    let shown = row("memgraph_ha_2", "async", map([]));
    let zombie = Replica::read("memgraph_ha", &COLUMNS, &shown)
        .unwrap()
        .registration(true, Time(0), None);
    assert_eq!(
        (zombie.attached, zombie.status, zombie.mode),
        (false, Status::Invalid, Mode::Async)
    );
}

#[test]
fn r11_columns_are_found_by_name_and_a_missing_one_is_an_error() {
    let mut columns = COLUMNS;
    let mut shown = row("memgraph_ha_2", "sync", map([]));
    columns.swap(0, 4);
    shown.swap(0, 4);
    assert_eq!(
        Replica::read("memgraph_ha", &columns, &shown).unwrap().mode,
        Mode::Sync
    );
    let read = |columns: &[&str], row: &[Cell]| Replica::read("memgraph_ha", columns, row);
    assert_eq!(read(&columns, &shown[..4]), Err(RowError::Column("name")));
    assert_eq!(
        read(&columns[1..], &shown[1..]),
        Err(RowError::Column("data_info"))
    );
    assert_eq!(
        read(&COLUMNS, &row("memgraph_ha_2", "semi", map([]))),
        Err(RowError::Mode("semi".to_owned()))
    );
    assert!(matches!(
        read(&COLUMNS, &row("r2", "async", map([]))),
        Err(RowError::Name(_))
    ));
}

const UUID: &str = "efeb7500-cfc4-4a79-a0f5-d1a6a47f2ed3";

fn storage(rows: &[(&str, Cell)]) -> Result<StorageInfo, RowError> {
    let rows: Vec<Vec<Cell>> = rows.iter().map(|(k, v)| vec![text(k), v.clone()]).collect();
    StorageInfo::read(&rows)
}

#[test]
fn b9_the_plain_form_of_3_6_is_read_and_counts_are_seen() {
    let info = storage(&[
        ("name", text("memgraph")),
        ("database_uuid", text(UUID)),
        ("vertex_count", Cell::Int(7)),
        ("edge_count", Cell::Int(2)),
        ("average_degree", Cell::Float(0.57)),
        ("memory_res", text("67.23MiB")),
        ("storage_mode", text("IN_MEMORY_TRANSACTIONAL")),
    ]);
    assert_eq!(
        info,
        Ok(StorageInfo {
            database: UUID.parse().unwrap(),
            vertices: 7,
            edges: 2
        })
    );
}

#[test]
fn b9_the_current_database_form_of_3_12_is_read() {
    let info = storage(&[
        ("name", text("memgraph")),
        ("database_uuid", text(UUID)),
        ("state", text("HOT")),
        ("storage_mode", text("IN_MEMORY_TRANSACTIONAL")),
        ("vertex_count", Cell::Int(0)),
        ("edge_count", Cell::Int(0)),
        ("tenant_memory_limit", text("21.19GiB")),
        ("health", text("ready")),
    ]);
    assert_eq!(
        info,
        Ok(StorageInfo {
            database: UUID.parse().unwrap(),
            vertices: 0,
            edges: 0
        })
    );
}

#[test]
fn b9_the_plain_form_of_3_12_has_no_counts_and_is_not_taken_for_empty() {
    let info = storage(&[
        ("vm_max_map_count", Cell::Int(65530)),
        ("memory_res", text("61.53MiB")),
    ]);
    let said = info.unwrap_err().to_string();
    assert!(said.contains("ON CURRENT DATABASE"), "{said}");
}

#[test]
fn b9_a_count_that_cannot_be_read_is_an_error_and_not_zero() {
    for bad in [
        Cell::Null,
        Cell::Int(-1),
        Cell::Float(0.0),
        text("many"),
        Cell::List(vec![]),
    ] {
        let rows = [
            ("database_uuid", text(UUID)),
            ("edge_count", Cell::Int(0)),
            ("vertex_count", bad),
        ];
        assert_eq!(storage(&rows), Err(RowError::Storage("vertex_count")));
    }
    let cut = [("database_uuid", text(UUID)), ("vertex_count", Cell::Int(3))];
    assert_eq!(storage(&cut), Err(RowError::Storage("edge_count")));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn r11_any_text_is_read_or_refused_without_harm(shown in r#"[\[\]{}:,'"\\a-z0-9é \-]{0,40}"#) {
        // Only a text that names the database and both of its values can be attached.
        if let Ok(DataInfo::Attached { .. }) = data_info(&text(&shown)) {
            prop_assert!(shown.contains("memgraph") && shown.contains("status") && shown.contains("behind"));
        }
    }

    #[test]
    fn r11_any_map_survives_being_turned_into_text(status in "[a-z]{1,12}", behind in any::<i64>()) {
        let shown = format!("{{memgraph: {{behind: {behind}, status: \"{status}\", ts: 3}}}}");
        prop_assert_eq!(data_info(&text(&shown)), data_info(&about("memgraph", &status, behind)));
    }
}
