//! On a real folder, cut off before every single file operation.

use super::*;
use crate::pod::disk::RealDisk;
use mainstay_core::memgraph::ids::{ProcessId, ResetId, Term, VolumeId};
use mainstay_core::memgraph::marker::{MarkerFile, Meant};
use mainstay_core::memgraph::record::{Candidate, Reset};
use mainstay_core::time::Time;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

const ID: ResetId = ResetId(9);
const TERM: Term = Term(4);
const JUDGED: ProcessId = ProcessId(7);
const OLD_POD: PodUid = PodUid(5);
const NEW_POD: PodUid = PodUid(6);

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// The process dies instead of making the operation after these.
struct Dying {
    left: u32,
}

impl Dying {
    fn lives(&mut self) -> io::Result<RealDisk> {
        self.left = self
            .left
            .checked_sub(1)
            .ok_or_else(|| io::Error::other("killed"))?;
        Ok(RealDisk)
    }
}

impl Disk for Dying {
    fn make_folder(&mut self, path: &Path) -> io::Result<()> {
        self.lives()?.make_folder(path)
    }
    fn write(&mut self, path: &Path, text: &str) -> io::Result<()> {
        self.lives()?.write(path, text)
    }
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.lives()?.rename(from, to)
    }
    fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.lives()?.remove(path)
    }
    fn remove_folder(&mut self, path: &Path) -> io::Result<()> {
        self.lives()?.remove_folder(path)
    }
    fn sync(&mut self, folder: &Path) -> io::Result<()> {
        self.lives()?.sync(folder)
    }
}

/// A volume with data and a marker, as the pod that was judged left it.
fn marked() -> Folder {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let root = std::env::temp_dir().join(format!("mainstay-prepare-{}-{number}", std::process::id()));
    fs::create_dir_all(root.join("mg_data/wal")).unwrap();
    fs::write(root.join("mg_data/wal/1"), "precious").unwrap();
    fs::write(root.join(".mainstay-pod"), OLD_POD.to_string()).unwrap();
    let meant = Meant {
        id: ID,
        term: TERM,
        process: JUDGED,
        pod_uid: OLD_POD,
    };
    let file = MarkerFile::new("db-2", Some("db-0"), "now".to_owned(), meant);
    fs::write(root.join(".hard-reset-requested"), file.render().unwrap()).unwrap();
    Folder(root)
}

fn asking() -> Record {
    let candidate = Candidate {
        pod: Ordinal(0),
        process: ProcessId(1),
        volume: VolumeId(1),
        peers: vec![],
        suspect: false,
        forced: None,
        claim: None,
    };
    Record::initialising(TERM, candidate, Time::ZERO).resetting(Reset {
        pod: Ordinal(2),
        process: JUDGED,
        id: ID,
        term: TERM,
        since: Time::ZERO,
        keep: false,
    })
}

fn task() -> Task {
    Task {
        pod: "db-2".to_owned(),
        ordinal: Ordinal(2),
        uid: Some(NEW_POD),
        pause: Duration::from_secs(2),
    }
}

async fn run<D: Disk>(root: &Path, disk: D, record: &Record) -> (Result<(), PrepareError>, Vec<String>) {
    let mut said = Vec::new();
    let mut volume = DataVolume::new(root, disk);
    let ask = async || Ok(Some(record.clone()));
    let ran = prepare(&mut volume, &task(), ask, |line| said.push(line.to_owned())).await;
    (ran, said)
}

/// Every file with its text, by name; those that were only on their way do not count.
fn contents(root: &Path) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_none_or(|end| end != "new") {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                all.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    all.sort();
    all
}

fn names(root: &Path) -> Vec<String> {
    contents(root).into_iter().map(|(name, _)| name).collect()
}

const RESET: [&str; 4] = [
    ".hard-reset-done",
    ".mainstay-pod",
    "quarantine/9.json",
    "quarantine/9/wal/1",
];
const KEPT: [&str; 3] = [".hard-reset-requested.stale", ".mainstay-pod", "mg_data/wal/1"];

#[tokio::test]
async fn a_requested_reset_keeps_the_data_and_says_what_the_seeds_say() {
    let folder = marked();
    let (ran, said) = run(&folder.0, RealDisk, &asking()).await;
    ran.unwrap();
    assert_eq!(names(&folder.0), RESET);
    for line in [
        "Memgraph Data Cleanup Init Container",
        "Pod: db-2",
        "HARD RESET REQUESTED - Magic marker file detected",
        "Performing FULL data cleanup...",
        "Hard reset complete - pod will start with clean slate",
        "Init container finished",
    ] {
        assert!(said.iter().any(|said| said == line), "{line}: {said:?}");
    }
}

#[tokio::test]
async fn killed_before_any_file_operation_it_ends_the_same_when_it_runs_again() {
    let mut cuts = 0;
    loop {
        let folder = marked();
        let (cut, _) = run(&folder.0, Dying { left: cuts }, &asking()).await;
        let (ran, _) = run(&folder.0, RealDisk, &asking()).await;
        ran.unwrap();
        assert_eq!(names(&folder.0), RESET, "killed before operation {cuts}");
        let data = contents(&folder.0).pop().unwrap();
        assert_eq!(data.1, "precious");
        let noted = fs::read_to_string(folder.0.join(".mainstay-pod")).unwrap();
        assert_eq!(noted.trim(), NEW_POD.to_string());
        if cut.is_ok() && cuts > 15 {
            break;
        }
        cuts += 1;
    }
    // Thirteen for the reset, three for the pod's note.
    assert_eq!(cuts, 16, "an operation was added: is it safe to be cut off?");
}

/// A disk on which the data cannot be moved: no permission, or somebody holds it.
struct Busy;

impl Disk for Busy {
    fn make_folder(&mut self, path: &Path) -> io::Result<()> {
        RealDisk.make_folder(path)
    }
    fn write(&mut self, path: &Path, text: &str) -> io::Result<()> {
        RealDisk.write(path, text)
    }
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        if from.ends_with("mg_data") {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        RealDisk.rename(from, to)
    }
    fn remove(&mut self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }
    fn remove_folder(&mut self, path: &Path) -> io::Result<()> {
        RealDisk.remove_folder(path)
    }
    fn sync(&mut self, folder: &Path) -> io::Result<()> {
        RealDisk.sync(folder)
    }
}

#[tokio::test]
async fn h6_while_the_data_cannot_be_moved_the_marker_stays_and_the_database_does_not_start() {
    let folder = marked();
    for _ in 0..3 {
        let (ran, said) = run(&folder.0, Busy, &asking()).await;
        let error = ran.unwrap_err();
        assert!(error.to_string().contains("cannot set aside"), "{error}");
        assert!(!said.contains(&"Init container finished".to_owned()), "{said:?}");
        let now = names(&folder.0);
        assert!(now.contains(&".hard-reset-requested".to_owned()), "{now:?}");
        assert!(
            now.contains(&"mg_data/wal/1".to_owned()),
            "all of it is where it was: {now:?}"
        );
    }
    run(&folder.0, RealDisk, &asking()).await.0.unwrap();
    assert_eq!(names(&folder.0), RESET);
}

#[tokio::test]
async fn killed_anywhere_and_then_overruled_the_data_is_in_one_of_two_places() {
    let overruled = asking().reset_done();
    let mut ends = Vec::new();
    for cuts in 0..13 {
        let folder = marked();
        let (cut, _) = run(&folder.0, Dying { left: cuts }, &asking()).await;
        assert!(cut.is_err(), "it was killed");
        run(&folder.0, RealDisk, &overruled).await.0.unwrap();
        let mut now = names(&folder.0);
        if !folder.0.join("quarantine/9").exists() {
            // A note about nothing: nobody reads it, and the next one of this number replaces it.
            now.retain(|name| name != "quarantine/9.json");
        }
        assert!(
            now == RESET || now == KEPT,
            "killed before operation {cuts}: {now:?}"
        );
        ends.push(now == KEPT);
    }
    assert!(
        ends.contains(&true) && ends.contains(&false) && ends.is_sorted_by(|a, b| a >= b),
        "{ends:?}"
    );
}

#[tokio::test]
async fn a_marker_that_the_record_does_not_ask_for_is_set_aside_and_the_data_stays() {
    let mut other = asking();
    other.reset = other.reset.map(|reset| Reset {
        id: ResetId(8),
        ..reset
    });
    let mut main = asking();
    if let Some(candidate) = &mut main.candidate {
        candidate.pod = Ordinal(2);
    }
    for record in [asking().reset_done(), other, main] {
        let folder = marked();
        let (ran, said) = run(&folder.0, RealDisk, &record).await;
        ran.unwrap();
        assert_eq!(names(&folder.0), KEPT, "{said:?}");
    }
}

#[tokio::test]
async fn a_marker_written_again_after_its_reset_wipes_nothing() {
    let folder = marked();
    let marker = fs::read_to_string(folder.0.join(".hard-reset-requested")).unwrap();
    run(&folder.0, RealDisk, &asking()).await.0.unwrap();
    fs::create_dir_all(folder.0.join("mg_data")).unwrap();
    fs::write(folder.0.join("mg_data/new"), "recovered").unwrap();
    fs::write(folder.0.join(".hard-reset-requested"), marker).unwrap();
    run(&folder.0, RealDisk, &asking()).await.0.unwrap();
    assert!(names(&folder.0).contains(&"mg_data/new".to_owned()));
    assert!(!folder.0.join(".hard-reset-requested").exists());
}

#[tokio::test(start_paused = true)]
async fn without_the_api_a_marked_pod_waits_and_an_unmarked_one_starts() {
    let folder = marked();
    let mut volume = DataVolume::new(&folder.0, RealDisk);
    let mut silent = 0;
    let mut said = Vec::new();
    let ask = async || {
        silent += 1;
        assert!(folder.0.join("mg_data").exists(), "nothing is wiped meanwhile");
        if silent < 50 {
            return Err(AskError::Client("connection refused".to_owned()));
        }
        Ok(Some(asking()))
    };
    prepare(&mut volume, &task(), ask, |line| said.push(line.to_owned()))
        .await
        .unwrap();
    assert_eq!(silent, 50);
    let told = said.iter().filter(|line| line.contains("connection refused"));
    assert_eq!(told.count(), 1, "said once: {said:?}");
    assert_eq!(names(&folder.0), RESET);

    let nobody = async || -> Result<Option<Record>, AskError> { panic!("without a marker nobody is asked") };
    let mut said = Vec::new();
    prepare(&mut volume, &task(), nobody, |line| said.push(line.to_owned()))
        .await
        .unwrap();
    assert!(said.contains(&"No hard reset requested".to_owned()));
}

#[tokio::test]
async fn a_volume_on_which_nothing_can_be_noted_starts_and_trusts_no_later_marker() {
    let folder = marked();
    fs::remove_file(folder.0.join(".hard-reset-requested")).unwrap();
    // Where the note is to be written there is a folder: the write fails, as on a full disk.
    fs::create_dir(folder.0.join(".mainstay-pod.new")).unwrap();
    let (ran, said) = run(&folder.0, RealDisk, &asking()).await;
    ran.unwrap();
    assert!(
        said.iter().any(|line| line.contains("could not be noted")),
        "{said:?}"
    );
    assert!(
        !folder.0.join(".mainstay-pod").exists(),
        "no older pod is believed"
    );
}

#[test]
fn what_is_purged_is_gone_and_what_was_cut_off_is_never_taken_for_a_copy() {
    for left in 0..7 {
        let folder = marked();
        for id in ["3", "4"] {
            fs::create_dir_all(folder.0.join("quarantine").join(id)).unwrap();
            fs::write(folder.0.join("quarantine").join(id).join("file"), "old").unwrap();
        }
        fs::write(folder.0.join("quarantine/3.json"), r#"{"at":1,"keep":true}"#).unwrap();
        let cut = DataVolume::new(&folder.0, Dying { left }).purge(ResetId(3));
        let mut volume = DataVolume::new(&folder.0, RealDisk);
        let aside = volume.read().unwrap().set_aside;
        // It is whole, or it is not listed any more.
        if aside.contains(&ResetId(3)) {
            assert!(folder.0.join("quarantine/3/file").exists(), "{left}");
            assert!(folder.0.join("quarantine/3.json").exists(), "{left}");
        }
        assert!(aside.contains(&ResetId(4)), "{left}: the other one stays");
        if cut.is_ok() {
            assert!(!aside.contains(&ResetId(3)));
        }
        volume.purge(ResetId(3)).unwrap();
        let names = fs::read_dir(folder.0.join("quarantine")).unwrap().count();
        assert_eq!(
            (volume.read().unwrap().set_aside, names),
            (vec![ResetId(4)], 1),
            "{left}"
        );
        assert!(folder.0.join("mg_data/wal/1").exists(), "the data is not touched");
    }
}

#[test]
fn a_volume_says_what_is_on_it() {
    let folder = marked();
    fs::create_dir_all(folder.0.join("quarantine/7/wal")).unwrap();
    fs::write(folder.0.join("quarantine/7/wal/1"), "12345").unwrap();
    let report = DataVolume::new(&folder.0, RealDisk).report(OLD_POD).unwrap();
    assert_eq!(
        (report.pod_uid, report.data_bytes, report.marked),
        (OLD_POD, 8, true)
    );
    let aside: Vec<_> = report.quarantines.iter().map(|q| (q.id, q.bytes)).collect();
    assert_eq!(aside, [(ResetId(7), 5)]);
    assert!(report.free_bytes > 0);
}

#[test]
fn what_was_set_aside_last_is_the_last_whatever_its_number_is() {
    let folder = marked();
    let root = &folder.0;
    for (id, note) in [
        ("40", r#"{"at":1000,"keep":false}"#),
        ("52", r#"{"at":2000,"keep":true}"#),
        // In the future: the clock of another machine.
        ("61", r#"{"at":99999999999999,"keep":false}"#),
        ("7", "cut off"),
    ] {
        fs::create_dir_all(root.join("quarantine").join(id)).unwrap();
        fs::write(root.join(format!("quarantine/{id}.json")), note).unwrap();
    }
    let mut volume = DataVolume::new(root, RealDisk);
    volume.set_aside(ResetId(9), true).unwrap();
    let report = volume.report(OLD_POD).unwrap();
    let aside: Vec<_> = report.quarantines.iter().map(|q| (q.id.0, q.kept)).collect();
    assert_eq!(
        aside,
        [(40, false), (52, true), (7, true), (61, false), (9, true)],
        "a note that cannot be read may have said that it is kept"
    );
    assert_eq!(report.beyond(1), [ResetId(40)]);
}

#[test]
fn what_an_older_version_set_aside_is_as_old_as_its_folder() {
    let folder = marked();
    let root = &folder.0;
    for id in ["61", "9"] {
        fs::create_dir_all(root.join("quarantine").join(id)).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut volume = DataVolume::new(root, RealDisk);
    volume.set_aside(ResetId(2), false).unwrap();
    let aside = volume.read().unwrap().set_aside;
    assert_eq!(aside, [ResetId(61), ResetId(9), ResetId(2)]);
}

#[tokio::test]
async fn what_the_record_says_is_to_be_kept_is_said_so_by_the_volume() {
    let folder = marked();
    let mut record = asking();
    record.reset = record.reset.map(|reset| Reset { keep: true, ..reset });
    let (ran, said) = run(&folder.0, RealDisk, &record).await;
    ran.unwrap();
    assert!(
        said.iter().any(|line| line.contains("quarantine purge")),
        "{said:?}"
    );
    let report = DataVolume::new(&folder.0, RealDisk).report(NEW_POD).unwrap();
    let aside: Vec<_> = report.quarantines.iter().map(|q| (q.id, q.kept)).collect();
    assert_eq!((aside, report.beyond(0)), (vec![(ID, true)], vec![]));
}
