//! Records and confirmations over channels.

use super::HEARD_EVERY;
use crate::control::Control;
use mainstay_core::memgraph::Record;
use mainstay_core::memgraph::objects::Confirmation;
use tokio::sync::watch;
use tokio::time::interval;
use tokio_util::sync::CancellationToken;

pub(super) async fn run(
    control: &Control,
    mut records: watch::Receiver<Option<Record>>,
    told: &watch::Sender<Option<Confirmation>>,
    stop: &CancellationToken,
) {
    told.send_replace(Some(control.confirmation()));
    control.registered().await;
    let mut confirmed = control.confirmed();
    let mut clock = interval(HEARD_EVERY);
    records.mark_changed();
    let mut silent = false;
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            changed = records.changed(), if !silent => {
                // Whoever told of records is gone: the last one stands (G4).
                silent = changed.is_err();
                let record = records.borrow_and_update().clone();
                if let Some(record) = record {
                    control.follow(record).await;
                }
            }
            _ = confirmed.changed() => {}
            _ = clock.tick() => {}
        }
        told.send_replace(Some(control.confirmation()));
    }
    told.send_replace(None);
}
