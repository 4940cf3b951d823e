//! A tool of the database that reads its tables while nothing runs.

use super::GateError;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::timeout;

/// What it printed. A tool that fails says nothing: its silence must not be taken for an empty disk.
pub(super) async fn output(mut tool: Command, patience: Duration) -> Result<Vec<u8>, GateError> {
    tool.stdin(Stdio::null()).kill_on_drop(true);
    match timeout(patience, tool.output()).await {
        Ok(Ok(output)) if output.status.success() => Ok(output.stdout),
        Ok(Ok(output)) => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(GateError::Tables(said))
        }
        Ok(Err(error)) => Err(GateError::Tables(error.to_string())),
        Err(_) => Err(GateError::Tables("no answer in time".to_owned())),
    }
}
