//! A pod outside the pair that falls silent, bytes swallowed and nothing refused, does not hold up a failover.

use crate::bed::{Bed, NAME, PATIENCE, PROBE};
use anyhow::{Context, Result, ensure};
use sandbox::node::{Direction, Party};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// The pod outside the pair.
const THIRD: u8 = 2;

/// Until it counts as silent (`failover.silentProbes`) a pod is waited for this often.
const LOOKS: u32 = 3;

/// What a failover may take longer on a busy machine, whoever is silent.
const MARGIN: Duration = Duration::from_secs(1);

/// Bytes from and to the third pod are swallowed, the operator's and everybody else's.
fn everybody() -> [Party; 3] {
    [Party::Outside, Bed::party(0), Bed::party(1)]
}

/// A write, and then the loss of MAIN: how long it took until the other pod served. The cluster is protected then.
async fn fail_over(bed: &Bed) -> Result<Duration> {
    let main = bed.until_protected().await?.main.context("no MAIN")?.pod;
    bed.write(main.0, "Written").await?;
    let (_, took) = bed.fail_over().await?;
    bed.until_protected().await?;
    Ok(took)
}

/// Waits until the operator calls it silent, and some turns more.
async fn until_long_silent(bed: &Bed) -> Result<()> {
    let third = format!("{NAME}-{THIRD}");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = bed.clusters().get(NAME).await?.status.context("no status")?;
        let shown = status.pods.iter().find(|pod| pod.name == third);
        if shown.is_some_and(|pod| pod.role == "silent") {
            break;
        }
        ensure!(Instant::now() < deadline, "{:?}", status.pods);
        sleep(Duration::from_millis(50)).await;
    }
    sleep(2 * LOOKS * PROBE).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_async_pod_that_is_silent_does_not_hold_up_a_failover() -> Result<()> {
    let bed = Bed::new().await?;
    bed.create(3).await?;
    let operator = bed.operator().await?;
    let plain = fail_over(&bed).await?;

    let third = Bed::party(THIRD);
    for other in everybody() {
        bed.nodes.cut(&other, &third, Direction::Both);
    }
    let just = fail_over(&bed).await?;
    until_long_silent(&bed).await?;
    let long = fail_over(&bed).await?;
    eprintln!("failover: {plain:?}; the third pod just silent: {just:?}; for long: {long:?}");
    // Each look waits for it once, beside all others; from then on 0.15 s, and a failover is two looks and a fence.
    ensure!(
        just <= 2 * plain + LOOKS * PROBE + MARGIN,
        "{just:?} and {plain:?}"
    );
    ensure!(
        long <= 2 * plain + LOOKS * Duration::from_millis(150) + MARGIN,
        "{long:?} and {plain:?}"
    );

    for other in everybody() {
        bed.nodes.heal(&other, &third, Direction::Both);
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = bed.count(THIRD, "Written").await;
        if found.as_ref().is_ok_and(|found| *found == 3) {
            break;
        }
        ensure!(Instant::now() < deadline, "the third pod has {found:?} of 3");
        sleep(Duration::from_millis(100)).await;
    }
    operator.stop().await?;
    bed.end().await
}
