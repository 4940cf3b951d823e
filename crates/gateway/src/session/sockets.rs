//! How a connection is kept, and given up.

use socket2::{SockRef, TcpKeepalive};
use std::time::Duration;

/// Small messages go at once, and a peer whose machine is gone is noticed within minutes: a silent one by keepalive, one
/// that was sent something after `lost`. Without either it only takes longer.
///
/// What is accepted by a listener is tuned as that was.
pub(crate) fn tune(socket: &SockRef<'_>, lost: Option<Duration>) {
    socket.set_tcp_nodelay(true).ok();
    socket.set_tcp_user_timeout(lost).ok();
    let alive = TcpKeepalive::new()
        .with_time(Duration::from_mins(1))
        .with_interval(Duration::from_secs(15))
        .with_retries(4);
    socket.set_tcp_keepalive(&alive).ok();
}

/// When the system gives a client up that has not taken what it was sent.
///
/// The system does not tell a machine that is gone from a client that does not read, and keepalive waits as long as this,
/// too. So it is later than what the gateway itself allows, and where that is much there is none.
pub(crate) fn client_lost(stall: Duration) -> Option<Duration> {
    const MARGIN: Duration = Duration::from_secs(30);
    const MOST: Duration = Duration::from_mins(10);
    (stall <= MOST).then(|| stall + MARGIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_gives_no_client_up_before_the_gateway_does() {
        for seconds in [1, 120, 300, 600] {
            let stall = Duration::from_secs(seconds);
            assert!(client_lost(stall).unwrap() > stall);
        }
        // A client that is gone would be noticed as late.
        assert_eq!(client_lost(Duration::from_hours(24)), None);
    }
}
