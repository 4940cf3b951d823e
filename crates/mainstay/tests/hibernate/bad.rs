//! Names that nobody has, and what makes no sense.

use crate::world::World;
use anyhow::{Result, ensure};

/// What is typed, and a part of what is said.
type Bad = (&'static str, &'static str);

/// Names that nobody has.
const NOBODY: &[Bad] = &[
    (
        "preview nobody",
        "the HibernatePlan `nobody` in `default` cannot be read",
    ),
    (
        "dry-run nobody",
        "the HibernatePlan `nobody` in `default`: the plan could not be read",
    ),
    (
        "wake nobody",
        "the HibernatePlan `nobody` in `default` cannot be read",
    ),
    (
        "sleep nobody",
        "the HibernatePlan `nobody` in `default` cannot be read",
    ),
    (
        "resume nobody",
        "the HibernatePlan `nobody` in `default` cannot be read",
    ),
    (
        "retry nobody",
        "the HibernatePlan `nobody` in `default` cannot be read",
    ),
    (
        "savings nobody",
        "the HibernatePlan `nobody` in `default` cannot be read",
    ),
    (
        "awake-for 3h nobody",
        "the HibernatePlan `nobody` in `default` cannot be changed",
    ),
    (
        "suspend nobody",
        "the HibernatePlan `nobody` in `default` cannot be changed",
    ),
    (
        "restore list nobody",
        "neither a HibernatePlan `nobody` in `default`",
    ),
    (
        "restore show nobody apps",
        "neither a HibernatePlan `nobody` in `default`",
    ),
    (
        "restore verify nobody",
        "neither a HibernatePlan `nobody` in `default`",
    ),
    (
        "restore export nobody",
        "neither a HibernatePlan `nobody` in `default`",
    ),
    (
        "restore discard nobody apps",
        "the HibernatePlan `nobody` in `default` cannot be read",
    ),
    (
        "suspend staging -n elsewhere",
        "the HibernatePlan `staging` in `elsewhere`",
    ),
];

/// What makes no sense.
const SENSELESS: &[Bad] = &[
    ("restore show staging nothing", "`nothing` has no restore point"),
    ("restore show staging a/b", "a/b"),
    ("restore discard staging apps", "no cycle of `staging` is open"),
    (
        "restore import staging -f /no/such/file",
        "/no/such/file cannot be read",
    ),
    (
        "awake-for soon staging",
        "`soon` is no length of time: write one such as 3h or 90m",
    ),
    ("wake staging --until tomorrow", "tomorrow"),
    ("preview", "name a plan, or give files with -f"),
    ("preview -f /no/such/file", "/no/such/file cannot be read"),
    ("preview staging --days 0", "0 is not in 1..=366"),
    ("dry-run staging -o xml", "xml"),
    ("dry-run staging --kubeconfig /no/such/file", "/no/such/file"),
];

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_or_makes_no_sense_is_a_clear_error() -> Result<()> {
    let world = World::with_staging("bad").await?;
    let before = world.writes();
    let mut wrong = Vec::new();
    for (line, part) in NOBODY.iter().chain(SENSELESS) {
        let said = world.run(line).await?;
        if said.well || !said.err.contains(part) {
            wrong.push(format!("{line}: {}{}", said.out, said.err));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    ensure!(world.writes() == before, "something was written");
    // At night a target that the cycle does not know is named.
    let operator = world.operator();
    world.until_phase("staging", "Hibernated").await?;
    let why = world.fails("restore discard staging nothing").await?;
    ensure!(
        why.contains("`nothing` is no target of the open cycle of `staging`"),
        "{why}"
    );
    operator.abort();
    world.kubernetes.shutdown().await;
    Ok(())
}
