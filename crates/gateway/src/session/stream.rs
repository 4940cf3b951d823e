//! A connection to a client or to a database, plain or over TLS.
//!
//! Both directions of a session use it at the same time, in one task, so everything takes `&self`. A plain connection
//! is a socket and nothing else: what TLS needs is boxed.

use super::secured::Secured;
use socket2::SockRef;
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<Secured>),
}

impl From<TcpStream> for Stream {
    fn from(tcp: TcpStream) -> Self {
        Self::Plain(tcp)
    }
}

impl Stream {
    /// The socket underneath.
    pub(crate) const fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(secured) => secured.tcp(),
        }
    }

    /// Ends when it is worth to try to read. Only one task waits for that, so that it needs no place in a list.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tls(secured) if secured.has_something() => Ok(()),
            Self::Plain(_) | Self::Tls(_) => poll_fn(|context| self.tcp().poll_read_ready(context)).await,
        }
    }

    /// Reads what is there; 0 is the end.
    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => read_what_is_there(tcp, buffer),
            Self::Tls(secured) => secured.try_read(buffer),
        }
    }

    /// Reads at least a byte, or the end. May be dropped at any time.
    pub(crate) async fn read_more(&self, to: &mut Vec<u8>, most: usize) -> io::Result<usize> {
        loop {
            self.readable().await?;
            let before = to.len();
            to.resize(before.saturating_add(most), 0);
            let read = self.try_read(to.get_mut(before..).unwrap_or_default());
            to.truncate(before.saturating_add(*read.as_ref().unwrap_or(&0)));
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }

    /// Sends everything. Dropped early, some of it was sent.
    pub(crate) async fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        self.write(bytes, None).await
    }

    /// The same, to somebody who takes something of it each time within the bound.
    pub(crate) async fn write_within(&self, bytes: &[u8], stall: Duration) -> io::Result<()> {
        self.write(bytes, Some(stall)).await
    }

    async fn write(&self, bytes: &[u8], stall: Option<Duration>) -> io::Result<()> {
        match self.write_some(bytes)? {
            None => Ok(()),
            // Boxed, so that a session does not carry what is rare.
            Some(rest) => Box::pin(self.write_rest(rest, stall)).await,
        }
    }

    /// Sends what goes at once, and gives the rest; `None` if everything is with the system.
    fn write_some<'a>(&self, mut bytes: &'a [u8]) -> io::Result<Option<&'a [u8]>> {
        loop {
            let written = match self {
                Self::Plain(_) if bytes.is_empty() => return Ok(None),
                Self::Plain(tcp) => tcp.try_write(bytes),
                Self::Tls(secured) if bytes.is_empty() => {
                    return Ok((!secured.try_flush()?).then_some(bytes));
                }
                Self::Tls(secured) => secured.try_write(bytes),
            };
            match written {
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Some(bytes)),
                Err(error) => return Err(error),
            }
        }
    }

    async fn write_rest(&self, mut bytes: &[u8], stall: Option<Duration>) -> io::Result<()> {
        loop {
            let writable = poll_fn(|context| self.tcp().poll_write_ready(context));
            let waited = match stall {
                None => Ok(writable.await),
                Some(stall) => timeout(stall, writable).await,
            };
            match waited {
                Ok(writable) => writable?,
                Err(_) => bytes = bytes.get(self.offer(bytes)?..).unwrap_or_default(),
            }
            match self.write_some(bytes)? {
                None => return Ok(()),
                Some(rest) => bytes = rest,
            }
        }
    }

    /// Asks the socket itself: it says that it is writable only when much of its buffer is free, and whoever takes little
    /// takes something.
    fn offer(&self, bytes: &[u8]) -> io::Result<usize> {
        let offered = match self {
            Self::Plain(tcp) => (&*SockRef::from(tcp)).write(bytes),
            // What it takes is not of these bytes.
            Self::Tls(secured) => secured.offer().map(|_| 0),
        };
        offered.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
            _ => error,
        })
    }

    /// Says that nothing more is said.
    pub(crate) fn shutdown(&self) -> io::Result<()> {
        if let Self::Tls(secured) = self {
            secured.say_goodbye();
        }
        SockRef::from(self.tcp()).shutdown(Shutdown::Write)
    }

    /// What is still on its way when this is closed must not arrive.
    pub(crate) fn forget(&self) {
        forget(self.tcp());
    }

    /// It is closed as connections are: nothing is on its way, or it may arrive.
    pub(crate) fn close_in_peace(&self) {
        SockRef::from(self.tcp()).set_linger(None).ok();
    }
}

/// See [`Stream::forget`].
pub(super) fn forget(tcp: &TcpStream) {
    SockRef::from(tcp).set_linger(Some(Duration::ZERO)).ok();
}

/// Reads. If less came than there was room for, nothing more is there, and the socket is not asked again before it says
/// so: tokio does the same where it reads itself, and it saves one of seven system calls of a small request.
pub(super) fn read_what_is_there(tcp: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    let room = buffer.len();
    let mut read = None;
    let asked = tcp.try_io(Interest::READABLE, || {
        let got = (&*SockRef::from(tcp)).read(buffer)?;
        read = Some(got);
        if got > 0 && got < room {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(())
    });
    match read {
        Some(read) => Ok(read),
        None => asked.map(|()| 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;
    use tokio::time::{Instant, sleep};

    async fn pair() -> (Stream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        (accepted.unwrap().0.into(), client.unwrap())
    }

    const STALL: Duration = Duration::from_millis(300);

    #[tokio::test]
    async fn who_takes_nothing_is_given_up_after_the_bound() {
        let (stream, _client) = pair().await;
        let began = Instant::now();
        let told = stream.write_within(&vec![0; 64 << 20], STALL).await.unwrap_err();
        assert_eq!(told.kind(), io::ErrorKind::TimedOut);
        assert!(
            began.elapsed() >= STALL && began.elapsed() < STALL * 20,
            "{:?}",
            began.elapsed()
        );
    }

    /// Far less in that time than makes the system call the socket writable.
    #[tokio::test]
    async fn who_takes_little_is_waited_for() {
        let (stream, mut client) = pair().await;
        let bytes = vec![7; 6 << 20];
        let began = Instant::now();
        let reads = async {
            let (mut some, mut all) = (vec![0; 128 << 10], 0);
            while all < bytes.len() {
                all += client.read(&mut some).await.unwrap();
                sleep(STALL / 5).await;
            }
        };
        let (written, ()) = tokio::join!(stream.write_within(&bytes, STALL), reads);
        written.unwrap();
        assert!(began.elapsed() > STALL * 4, "{:?}", began.elapsed());
    }
}
