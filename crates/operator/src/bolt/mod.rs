//! Our Bolt client on tokio: connect, log in, one query at a time, a time-out on everything.

pub mod cells;

use bolt::client::{
    Answer, ClientConfig, ClientError, ClientInput, ClientOutput, ClientSession, QueryResult,
};
use bolt::message::{Auth, Run};
use bolt::time::Moment;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

/// Why there is no connection. Nothing was asked.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The host answered that nobody listens.
    #[error("refused")]
    Refused,
    /// No answer in time: to the connection itself, or to the login.
    #[error("no answer")]
    Silent,
    /// The network says that there is no way.
    #[error("unreachable: {0}")]
    Unreachable(#[source] io::Error),
    /// The server is there and does not let us in.
    #[error("login: {0}")]
    Login(#[source] ClientError),
}

/// How to connect.
#[derive(Clone, Debug)]
pub struct Dial {
    /// Whom to log in as.
    pub auth: Auth<'static>,
    /// How long the connection may take, and then the server's first word.
    pub reach: Duration,
    /// How long the login may take. Only to check a password takes a real server about 0.23 s.
    pub login: Duration,
}

/// A connection that is logged in. A request that is given up half way must take it along: drop it.
pub struct Connection {
    stream: TcpStream,
    session: ClientSession,
    start: Instant,
    buffer: Vec<u8>,
}

impl Connection {
    /// Connects and logs in.
    pub async fn open(address: SocketAddr, dial: &Dial) -> Result<Self, ConnectError> {
        let connected = timeout(dial.reach, TcpStream::connect(address)).await;
        let stream = connected
            .map_err(|_| ConnectError::Silent)?
            .map_err(|error| match error.kind() {
                io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => ConnectError::Refused,
                io::ErrorKind::TimedOut => ConnectError::Silent,
                _ => ConnectError::Unreachable(error),
            })?;
        // A lost option costs milliseconds, not correctness.
        stream.set_nodelay(true).ok();
        let mut config = ClientConfig::new("mainstay-operator", dial.auth.clone());
        config.login_timeout = dial.login;
        let start = Instant::now();
        let mut connection = Self {
            stream,
            session: ClientSession::new(config, Moment::START),
            start,
            buffer: vec![0; 16 * 1024],
        };
        connection.first_word(dial.reach).await?;
        connection.log_in().await?;
        Ok(connection)
    }

    /// The kernel takes connections for a process that hangs: only its first word shows that it does not.
    async fn first_word(&mut self, patience: Duration) -> Result<(), ConnectError> {
        if let Some(ClientOutput::Transmit(handshake)) = self.session.poll() {
            self.send(&handshake).await;
        }
        let heard = timeout(patience, self.stream.readable()).await;
        // What is wrong with the connection is said by whoever reads from it.
        heard.map(drop).map_err(|_| ConnectError::Silent)
    }

    async fn log_in(&mut self) -> Result<(), ConnectError> {
        loop {
            match self.next().await {
                ClientOutput::Ready { .. } => return Ok(()),
                ClientOutput::Closed(Err(ClientError::TimedOut)) => return Err(ConnectError::Silent),
                // A server that ends in the middle of a login is on its way out, as one that refuses is.
                ClientOutput::Closed(Ok(()) | Err(ClientError::Closed)) => return Err(ConnectError::Refused),
                ClientOutput::Closed(Err(error)) => return Err(ConnectError::Login(error)),
                ClientOutput::Finished { .. } | ClientOutput::Transmit(_) => {}
            }
        }
    }

    /// Runs one query and collects its rows.
    pub async fn run(&mut self, run: &Run<'_>, patience: Duration) -> Result<QueryResult, ClientError> {
        let request = self
            .session
            .run(self.now(), run, patience)
            .map_err(|_| ClientError::Closed)?;
        loop {
            match self.next().await {
                ClientOutput::Finished { request: id, outcome } if id == request => {
                    return match outcome? {
                        Answer::Query(result) => Ok(result),
                        Answer::Done(_) => Err(ClientError::Closed),
                    };
                }
                ClientOutput::Closed(reason) => return Err(reason.err().unwrap_or(ClientError::Closed)),
                ClientOutput::Finished { .. } | ClientOutput::Ready { .. } | ClientOutput::Transmit(_) => {}
            }
        }
    }

    /// Runs a query without parameters.
    pub async fn query(&mut self, query: &str, patience: Duration) -> Result<QueryResult, ClientError> {
        self.run(&Run::new(query), patience).await
    }

    fn now(&self) -> Moment {
        Moment(self.start.elapsed())
    }

    /// What happens next, after sending what there is to send.
    async fn next(&mut self) -> ClientOutput {
        loop {
            while let Some(output) = self.session.poll() {
                match output {
                    ClientOutput::Transmit(bytes) => self.send(&bytes).await,
                    other => return other,
                }
            }
            self.receive().await;
        }
    }

    fn deadline(&self) -> Instant {
        // Only ever asked while something is awaited; an hour is for a session that awaits nothing.
        let wait = self
            .session
            .next_deadline()
            .map_or(Duration::from_hours(1), |at| at.0);
        self.start + wait
    }

    async fn send(&mut self, bytes: &[u8]) {
        let sent = timeout_at(self.deadline(), self.stream.write_all(bytes)).await;
        let now = self.now();
        match sent {
            Ok(Ok(())) => {}
            Ok(Err(_)) => self.session.handle(now, ClientInput::Closed),
            Err(_) => self.session.handle(now, ClientInput::Tick),
        }
    }

    async fn receive(&mut self) {
        let deadline = self.deadline();
        let read = timeout_at(deadline, self.stream.read(&mut self.buffer)).await;
        let now = Moment(self.start.elapsed());
        let input = match read {
            Ok(Ok(0) | Err(_)) => ClientInput::Closed,
            Ok(Ok(length)) => ClientInput::Bytes(self.buffer.get(..length).unwrap_or_default()),
            Err(_) => ClientInput::Tick,
        };
        self.session.handle(now, input);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn a_server_that_says_nothing_is_not_waited_for_as_long_as_a_login_may_take() {
        // Nobody accepts: the kernel does, as for a process that hangs.
        let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let dial = Dial {
            auth: Auth::None,
            reach: Duration::from_millis(50),
            login: Duration::from_mins(1),
        };
        let began = Instant::now();
        let opened = Connection::open(mute.local_addr().unwrap(), &dial).await;
        assert!(matches!(opened, Err(ConnectError::Silent)));
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
