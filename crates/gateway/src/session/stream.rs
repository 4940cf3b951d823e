//! A connection to a client or to a database, plain or over TLS.
//!
//! Both directions of a session use it at the same time, in one task, so everything takes `&self`. A plain connection
//! is a socket and nothing else: what TLS needs is boxed.

use super::secured::Secured;
use socket2::SockRef;
use std::future::poll_fn;
use std::io::{self, Read};
use std::net::Shutdown;
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::TcpStream;

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
    pub(crate) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = match self {
                Self::Plain(tcp) => tcp.try_write(bytes),
                Self::Tls(secured) => secured.try_write(bytes),
            };
            match written {
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    poll_fn(|context| self.tcp().poll_write_ready(context)).await?;
                }
                Err(error) => return Err(error),
            }
        }
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(secured) => secured.flush().await,
        }
    }

    /// Says that nothing more is said.
    pub(crate) fn shutdown(&self) -> io::Result<()> {
        if let Self::Tls(secured) = self {
            secured.say_goodbye();
        }
        SockRef::from(self.tcp()).shutdown(Shutdown::Write)
    }

    /// What is still on its way must not arrive.
    pub(crate) fn forget(&self) {
        SockRef::from(self.tcp()).set_linger(Some(Duration::ZERO)).ok();
    }
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
