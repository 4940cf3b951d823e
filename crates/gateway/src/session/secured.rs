//! TLS over a socket, for two directions of one task.
//!
//! It is rustls without anything in between: what it has to send and what it has decrypted stays in it until somebody
//! asks, and nothing waits inside a lock.

use super::stream::read_what_is_there;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};
use socket2::SockRef;
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::TcpStream;

/// A connection whose handshake is done.
#[derive(Debug)]
pub(crate) struct Secured {
    tcp: TcpStream,
    tls: Mutex<Connection>,
}

impl Secured {
    /// As the server.
    pub(crate) async fn accept(tcp: TcpStream, config: Arc<ServerConfig>) -> io::Result<Self> {
        let tls = ServerConnection::new(config).map_err(io::Error::other)?;
        Self::shake_hands(tcp, tls.into()).await
    }

    /// As the client of somebody with this name.
    pub(crate) async fn connect(
        tcp: TcpStream,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> io::Result<Self> {
        let tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
        Self::shake_hands(tcp, tls.into()).await
    }

    async fn shake_hands(tcp: TcpStream, tls: Connection) -> io::Result<Self> {
        let new = Self {
            tcp,
            tls: Mutex::new(tls),
        };
        loop {
            let shaken = new.step();
            // Also what is said before it fails: the reason.
            new.flush().await?;
            if !shaken? {
                return Ok(new);
            }
            new.tcp.readable().await?;
        }
    }

    /// Takes what came; is there more to come?
    fn step(&self) -> io::Result<bool> {
        let mut tls = self.tls();
        while tls.is_handshaking() && tls.wants_read() {
            match take(&mut tls, &self.tcp) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
            if tls.wants_write() {
                return Ok(tls.is_handshaking());
            }
        }
        Ok(tls.is_handshaking())
    }

    pub(crate) const fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// Never held across an await.
    fn tls(&self) -> MutexGuard<'_, Connection> {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Is there something to read that the socket knows nothing of?
    pub(crate) fn has_something(&self) -> bool {
        match self.tls().process_new_packets() {
            Ok(state) => state.plaintext_bytes_to_read() > 0 || state.peer_has_closed(),
            Err(_) => true,
        }
    }

    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut tls = self.tls();
        loop {
            match tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Closed without a goodbye: whoever speaks Bolt knows from its messages whether it was complete.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            let taken = take(&mut tls, &self.tcp);
            // Answers to what came, such as new keys.
            if tls.wants_write() {
                give(&mut tls, &self.tcp)?;
            }
            taken?;
        }
    }

    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut tls = self.tls();
        if !give(&mut tls, &self.tcp)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let written = tls.writer().write(bytes)?;
        give(&mut tls, &self.tcp)?;
        Ok(written)
    }

    /// Gives the socket what was written; `false` if it takes no more for now.
    pub(crate) fn try_flush(&self) -> io::Result<bool> {
        give(&mut self.tls(), &self.tcp)
    }

    /// Gives the socket something, whatever it last said of itself.
    pub(crate) fn offer(&self) -> io::Result<usize> {
        self.tls().write_tls(&mut &*SockRef::from(&self.tcp))
    }

    /// Ends when everything that was written is with the socket.
    async fn flush(&self) -> io::Result<()> {
        while !self.try_flush()? {
            poll_fn(|context| self.tcp.poll_write_ready(context)).await?;
        }
        Ok(())
    }

    /// Says that nothing more comes, if it can be said at once.
    pub(crate) fn say_goodbye(&self) {
        let mut tls = self.tls();
        tls.send_close_notify();
        give(&mut tls, &self.tcp).ok();
    }
}

/// Takes encrypted bytes from the socket.
fn take(tls: &mut Connection, tcp: &TcpStream) -> io::Result<usize> {
    let taken = tls.read_tls(&mut Socket(tcp))?;
    tls.process_new_packets()
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(taken)
}

/// Gives the socket what is encrypted; `false` if it takes no more for now.
fn give(tls: &mut Connection, tcp: &TcpStream) -> io::Result<bool> {
    while tls.wants_write() {
        match tls.write_tls(&mut Socket(tcp)) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// The socket, as rustls uses one.
struct Socket<'a>(&'a TcpStream);

impl Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        read_what_is_there(self.0, buffer)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
