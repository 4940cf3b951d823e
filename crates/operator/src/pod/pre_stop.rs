//! A database that is told to end: MAIN waits until its office was moved.

use super::helper::Ask;
use mainstay_core::memgraph::helper::{PreStop, PreStopLimits, pre_stop};
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::prepare::Asked;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Between two looks at the record.
const PAUSE: Duration = Duration::from_millis(200);

/// Returns when the database of this pod may end: whether it was free to, or ran out of time.
pub async fn until_free(me: Ordinal, limits: PreStopLimits, ask: &Ask) -> PreStop {
    let began = Instant::now();
    loop {
        let answer = ask().await;
        let asked = match &answer {
            Ok(Some(record)) => Asked::Record(record),
            Ok(None) => Asked::NoRecord,
            Err(_) => Asked::NoAnswer,
        };
        match pre_stop(asked, me, began.elapsed(), limits) {
            PreStop::Wait => sleep(PAUSE).await,
            ended => return ended,
        }
    }
}
