//! A connection while handshake and login are spoken on it: whole messages, with bounds.

use super::stream::Stream;
use bolt::frame::{Assembler, FrameError, frame_into};
use std::future::pending;
use std::io;
use std::time::Duration;
use thiserror::Error;
use tokio::time::timeout;

/// What is read at once: logins are small.
const STEP: usize = 4096;

/// How long a peer that was told why may take to read it.
const LINGER: Duration = Duration::from_secs(1);

/// Why there is no next message.
#[derive(Debug, Error)]
pub(crate) enum WireError {
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    #[error("the connection was closed")]
    Closed,
    #[error("{0}")]
    Frame(#[from] FrameError),
}

/// A connection with what was read from it and not used yet.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: Stream,
    unread: Vec<u8>,
    assembler: Assembler,
}

impl Wire {
    /// For messages of at most `limit` bytes.
    pub(crate) fn new(stream: Stream, limit: usize) -> Self {
        Self {
            stream,
            unread: Vec::new(),
            assembler: Assembler::new(limit),
        }
    }

    /// Reads until `take` has what it wants; it takes from the front of what is there.
    ///
    /// May be dropped at any time: nothing that was read is lost.
    pub(crate) async fn read<T, E: From<WireError>>(
        &mut self,
        mut take: impl FnMut(&mut Assembler, &mut &[u8]) -> Result<Option<T>, E>,
    ) -> Result<T, E> {
        loop {
            let mut input = self.unread.as_slice();
            let taken = take(&mut self.assembler, &mut input)?;
            let used = self.unread.len().saturating_sub(input.len());
            self.unread.drain(..used);
            if let Some(taken) = taken {
                return Ok(taken);
            }
            match self.stream.read_more(&mut self.unread, STEP).await {
                Ok(0) => return Err(WireError::Closed.into()),
                Ok(_) => {}
                Err(error) => return Err(WireError::Io(error).into()),
            }
        }
    }

    /// The next message, without its chunks.
    pub(crate) async fn message(&mut self) -> Result<Vec<u8>, WireError> {
        self.read(|assembler, input| {
            let message = assembler.next(input)?.map(<[u8]>::to_vec);
            // It may be the last one for as long as the connection lives.
            assembler.release();
            Ok(message)
        })
        .await
    }

    /// Sends bytes as they are.
    pub(crate) async fn send(&self, bytes: &[u8]) -> Result<(), WireError> {
        Ok(self.stream.write_all(bytes).await?)
    }

    /// Sends a message, in chunks.
    pub(crate) async fn send_message(&self, payload: &[u8]) -> Result<(), WireError> {
        let mut bytes = Vec::with_capacity(payload.len().saturating_add(8));
        frame_into(&mut bytes, payload);
        self.send(&bytes).await
    }

    /// Ends when the peer has closed. As long as there is something to read it cannot be seen, and this waits.
    pub(crate) async fn gone(&self) {
        if let Ok(1..) = self.stream.tcp().peek(&mut [0]).await {
            pending::<()>().await;
        }
    }

    pub(crate) const fn stream(&self) -> &Stream {
        &self.stream
    }

    /// What was read beyond the last message; nothing of it is kept here.
    pub(crate) fn take_unread(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.unread)
    }

    /// The connection, and what was read beyond the last message.
    pub(crate) fn into_parts(self) -> (Stream, Vec<u8>) {
        (self.stream, self.unread)
    }
}

/// Closes so that the last words arrive: a socket that is closed with unread bytes in it resets the connection,
/// and a reset overtakes what was sent.
pub(crate) async fn close_gently(stream: Stream) {
    let gently = async {
        stream.shutdown()?;
        let mut sink = Vec::new();
        while stream.read_more(&mut sink, STEP).await? > 0 {
            sink.clear();
        }
        io::Result::Ok(())
    };
    // Whoever does not read it in that time does not want to.
    timeout(LINGER, gently).await.ok();
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::sleep;

    /// The last message of a login may be the last one for months.
    #[tokio::test]
    async fn a_message_that_came_in_pieces_leaves_nothing_behind() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let mut client = client.unwrap();
        let mut wire = Wire::new(accepted.unwrap().0.into(), 100);
        let says = async {
            for piece in [&[0, 2, 0xB1][..], &[0x01, 0, 0]] {
                client.write_all(piece).await.unwrap();
                sleep(Duration::from_millis(50)).await;
            }
        };
        let (message, ()) = tokio::join!(wire.message(), says);
        assert_eq!(message.unwrap(), [0xB1, 0x01]);
        let left = format!("{:?}", wire.assembler);
        assert!(left.contains("buffer: []"), "{left}");
    }
}
