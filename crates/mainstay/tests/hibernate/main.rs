//! `mainstay hibernate` as people type it: the real binary against an API on a port, with the real controller behind it.
//!
//! In real time, because the binary is another process: the plan's night is around now.

mod bad;
mod world;

use crate::world::{Said, World};
use anyhow::{Context, Result, bail, ensure};
use kube::api::DeleteParams;
use serde_json::{Value, json};

/// What every command says that asks for something.
const COMES_OF_IT: &str = "`kubectl get hplan staging -o wide` says what comes of it\n";
const MAP: &str = "hibernator-restore-staging";

#[tokio::test(flavor = "multi_thread")]
async fn before_it_is_followed_a_plan_is_previewed_and_tried_without_a_write() -> Result<()> {
    let world = World::with_staging("reads").await?;
    let before = world.writes();
    let (begin, end) = world.night;
    let shown = world
        .ok(&format!("preview staging --days 1 --from {begin}"))
        .await?;
    let line = |word: &str, from: jiff::Timestamp, to: jiff::Timestamp, length: &str| {
        let local = |at: jiff::Timestamp| at.strftime("%a %Y-%m-%d %H:%M").to_string();
        format!("{word}  {}  {}  {length}", local(from), local(to))
    };
    let night = line("asleep", begin, end, "5h00 ");
    ensure!(
        shown.starts_with("staging, all times in UTC\n") && shown.contains(&night),
        "{shown}"
    );
    // The same from a file, without an API.
    let target = json!({ "name": "apps", "executor": "workloads" });
    std::fs::write(
        world.folder.join("plan.yaml"),
        world.plan("staging", &target).to_string(),
    )?;
    let file = world
        .ok(&format!(
            "preview -f plan.yaml --days 1 --from {begin} --kubeconfig /no/such/file"
        ))
        .await?;
    ensure!(file == shown, "{file}\n{shown}");
    let listed = world.ok("dry-run staging").await?;
    ensure!(
        listed
            == "TARGET  RESOURCE                  WOULD  STATE OR REASON\n\
                apps    batch/v1/cronjobs/old     leave  it does not run\n\
                apps    batch/v1/cronjobs/report  stop   {\"suspend\":false}\n\
                1 would be stopped, nothing was touched\n",
        "{listed}"
    );
    ensure!(world.ok("savings staging --price 1").await? == "no cycle is over yet\n");
    ensure!(world.ok("restore list staging").await? == "there are no restore points\n");
    ensure!(world.writes() == before, "something was written");
    world.kubernetes.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_wish_is_granted_and_restore_points_are_looked_at_carried_and_given_up() -> Result<()> {
    let world = World::with_staging("wishes").await?;
    let operator = world.operator();
    world.until_phase("staging", "Hibernated").await?;
    restore_points(&world).await?;
    wishes(&world).await?;
    // Given up, what it names stays as it is, also when it is time to be awake.
    let said = world.ok("restore discard staging apps").await?;
    let leg = world
        .annotation("mainstay.dev/discard")
        .await?
        .context("no wish")?;
    let leg = leg.strip_prefix("apps=").context("of another target")?.to_owned();
    let told = format!(
        "staging: the restore point that `apps` has in {leg} is given up: what it names stays as it is\n"
    );
    ensure!(said == told, "{said}");
    world
        .until("staging", |status| {
            status["reasons"].to_string().contains("given up by a human")
        })
        .await?;
    world.ok("awake-for 1h staging --wait --timeout 30s").await?;
    ensure!(world.suspended("report").await?, "it was given up and started");
    operator.abort();
    world.kubernetes.shutdown().await;
    Ok(())
}

/// list, show, verify, export and import, at night.
async fn restore_points(world: &World) -> Result<()> {
    let listed = world.ok("restore list staging").await?;
    let rows: Vec<Vec<&str>> = listed.lines().map(|l| l.split_whitespace().collect()).collect();
    let [_, row] = rows.as_slice() else {
        bail!("one restore point: {listed}");
    };
    // Target, executor, cycle, when, resources, of them ran, still asleep.
    let [target, executor, cycle, _, counts @ ..] = row.as_slice() else {
        bail!("{listed}");
    };
    ensure!(
        (*target, *executor, *cycle) == ("apps", "workloads", "1"),
        "{listed}"
    );
    ensure!(counts == ["2", "1", "1"], "{listed}");
    let shown = world.ok("restore show staging apps").await?;
    ensure!(
        shown
            == "RESOURCE                  RAN  BROUGHT BACK  STATE\n\
                batch/v1/cronjobs/old     no   no            {\"suspend\":true}\n\
                batch/v1/cronjobs/report  yes  no            {\"suspend\":false}\n",
        "{shown}"
    );
    ensure!(world.ok("restore verify staging").await? == listed);
    let exported = world.ok("restore export staging").await?;
    std::fs::write(world.folder.join("points.json"), &exported)?;
    let again = world.ok("restore import staging -f points.json").await?;
    ensure!(again == "everything is there as it is in the file\n", "{again}");
    // Somebody loses it. The operator misses it, and so does `verify`; the file brings it back.
    world.maps().delete(MAP, &DeleteParams::default()).await?;
    let Said { well, out, err } = world.run("restore verify staging").await?;
    ensure!(
        !well
            && out.contains("it was captured in the cycle that is open, and is gone")
            && err.contains("1 restore points cannot be relied on"),
        "{out}\n{err}"
    );
    let brought = world.ok("restore import staging -f points.json").await?;
    ensure!(brought == format!("{MAP} is written\n"), "{brought}");
    world.ok("restore verify staging").await?;
    // A file that somebody edited is refused: its hash says so.
    let edited = exported.replace("\\\"live\\\":true", "\\\"live\\\":false");
    ensure!(edited != exported, "{exported}");
    std::fs::write(world.folder.join("edited.json"), edited)?;
    let why = world.fails("restore import staging -f edited.json").await?;
    ensure!(why.contains("the restore point of `apps`:"), "{why}");
    Ok(())
}

/// suspend, resume, wake, awake-for, sleep, savings: each is granted before it returns.
async fn wishes(world: &World) -> Result<()> {
    let wait = "staging --wait --timeout 30s";
    let said = world.ok(&format!("suspend {wait}")).await?;
    let told = "staging: suspended until it is resumed: nothing is touched\n";
    ensure!(said == format!("{told}{COMES_OF_IT}"), "{said}");
    ensure!(world.is("staging", "Suspended").await?);
    let said = world.ok(&format!("resume {wait}")).await?;
    ensure!(said == format!("staging: resumed\n{COMES_OF_IT}"), "{said}");
    ensure!(world.is("staging", "Hibernated").await? && world.suspended("report").await?);

    let said = world.ok(&format!("wake --note release {wait}")).await?;
    let (_, end) = world.night;
    let told = format!("staging: awake until {end}, then the schedule decides\n{COMES_OF_IT}");
    ensure!(said == told, "{said}");
    ensure!(world.is("staging", "Active").await? && !world.suspended("report").await?);
    ensure!(world.suspended("old").await?, "what did not run stays as it was");
    let wish = world.annotation("mainstay.dev/override").await?.context("none")?;
    ensure!(wish.starts_with("awake ") && wish.ends_with(" release"), "{wish}");
    let saved = world.ok("savings staging --price 1").await?;
    ensure!(
        saved.starts_with("CYCLE  TARGET  HOURS ASLEEP")
            && saved.contains("in the last 1 cycles\n")
            && saved.contains("1      apps"),
        "{saved}"
    );

    // Somebody asked for the opposite: that has to be taken back, or a time has to be given.
    let why = world.fails("sleep staging").await?;
    ensure!(
        why.contains("the schedule wants it asleep now") && why.contains("`mainstay hibernate resume`"),
        "{why}"
    );
    let said = world.ok(&format!("resume {wait}")).await?;
    let told = format!("staging: the schedule decides again\n{COMES_OF_IT}");
    ensure!(said == told, "{said}");
    ensure!(world.suspended("report").await?);
    let why = world.fails("resume staging").await?;
    ensure!(
        why.contains("`staging` is not suspended, and nobody asked for anything"),
        "{why}"
    );
    world.ok(&format!("awake-for 3h {wait}")).await?;
    ensure!(!world.suspended("report").await?);
    let said = world.ok(&format!("sleep --until {end} {wait}")).await?;
    ensure!(
        said.starts_with(&format!("staging: asleep until {end}, then")),
        "{said}"
    );
    ensure!(world.suspended("report").await?);
    let why = world.fails("retry staging").await?;
    ensure!(why.contains("nothing of `staging` has failed"), "{why}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_failed_is_tried_again_when_asked() -> Result<()> {
    let world = World::new("retry").await?;
    let fails = json!({ "failureMode": "shutdown", "failureMessage": "no credentials" });
    let target = json!({ "name": "cloud", "executor": "noop", "parameters": fails });
    world.create(world.plan("staging", &target)).await?;
    let operator = world.operator();
    let failed = |status: &Value| status["targets"][0]["state"] == "Failed";
    world.until("staging", failed).await?;
    let retry = async || world.annotation("mainstay.dev/retry").await;
    ensure!(retry().await?.is_none());
    // By itself it waits for a minute.
    let said = world.ok("retry staging").await?;
    let told = "staging: what has failed is tried again now\n";
    ensure!(said == format!("{told}{COMES_OF_IT}"), "{said}");
    let wish = retry().await?.context("no wish")?;
    world
        .until("staging", |status| {
            status["state"]["retried"] == wish.as_str() && failed(status)
        })
        .await?;
    // Waiting for it ends, and says why it is not there.
    let why = world.fails("retry staging --wait --timeout 2s").await?;
    ensure!(
        why.contains("the plan is not Hibernated after 2 s") && why.contains("no credentials"),
        "{why}"
    );
    operator.abort();
    world.kubernetes.shutdown().await;
    Ok(())
}

/// The same line twice: as JSON and as YAML.
async fn read_twice(world: &World, line: &str) -> Result<(Value, Value)> {
    let json = world.ok(&format!("{line} -o json")).await?;
    let read: Value = serde_json::from_str(&json).with_context(|| format!("{line}: {json}"))?;
    ensure!(read.is_object() || read.is_array(), "{line}: {json}");
    let yaml = world.ok(&format!("{line} -o yaml")).await?;
    let same: Value = serde_saphyr::from_str(&yaml).with_context(|| format!("{line}: {yaml}"))?;
    Ok((read, same))
}

/// For programs: everything is JSON and YAML, too.
#[tokio::test(flavor = "multi_thread")]
async fn programs_read_json_and_yaml_of_every_command() -> Result<()> {
    let world = World::with_staging("data").await?;
    let fails = json!({ "failureMode": "shutdown", "failureMessage": "no credentials" });
    let target = json!({ "name": "cloud", "executor": "noop", "parameters": fails });
    world.create(world.plan("cloud", &target)).await?;
    let operator = world.operator();
    world.until_phase("staging", "Hibernated").await?;
    let exported = world.ok("restore export staging").await?;
    std::fs::write(world.folder.join("points.json"), exported)?;
    for line in [
        "preview staging",
        "dry-run staging",
        "restore list staging",
        "restore show staging apps",
        "restore verify staging",
        "restore export staging",
        "restore import staging -f points.json",
        "savings staging",
        "restore discard staging apps",
    ] {
        let (json, yaml) = read_twice(&world, line).await?;
        ensure!(
            yaml == json || line.starts_with("preview"),
            "{line}: {yaml}\n{json}"
        );
    }
    // Each asks for something else the second time: at another moment, or because the first was granted.
    let (_, end) = world.night;
    let sleep = format!("sleep staging --until {end}");
    for line in [
        "wake staging",
        "awake-for 3h staging",
        &sleep,
        "suspend staging",
        "resume staging",
    ] {
        let (json, yaml) = read_twice(&world, line).await?;
        for told in [json, yaml] {
            ensure!(
                told["plan"] == "staging" && told["asked"].is_string(),
                "{line}: {told}"
            );
        }
    }
    for output in ["json", "yaml"] {
        let failed = |status: &Value| status["targets"][0]["state"] == "Failed";
        world.until("cloud", failed).await?;
        let said = world.ok(&format!("retry cloud -o {output}")).await?;
        let told: Value = serde_saphyr::from_str(&said).with_context(|| said.clone())?;
        ensure!(told["plan"] == "cloud" && told["asked"].is_string(), "{said}");
    }
    operator.abort();
    world.kubernetes.shutdown().await;
    Ok(())
}

/// Everything is awake, and somebody finds a backup of the night.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_brought_back_by_day_only_if_that_is_meant() -> Result<()> {
    let world = World::with_staging("backup").await?;
    let operator = world.operator();
    world.until_phase("staging", "Hibernated").await?;
    let exported = world.ok("restore export staging").await?;
    std::fs::write(world.folder.join("points.json"), exported)?;
    world.ok("awake-for 3h staging --wait --timeout 30s").await?;
    let why = world.fails("restore import staging -f points.json").await?;
    ensure!(
        why.contains("no cycle of `staging` is open") && why.contains("--force"),
        "{why}"
    );
    ensure!(world.is("staging", "Active").await?);
    let wrote = world.ok("restore import staging -f points.json --force").await?;
    ensure!(wrote == format!("{MAP} is written\n"), "{wrote}");
    operator.abort();
    world.kubernetes.shutdown().await;
    Ok(())
}
