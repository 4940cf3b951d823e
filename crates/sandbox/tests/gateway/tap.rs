//! A wire to a database on which every byte is counted, also what the system has taken and nobody has read yet.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A port that leads to a database, as long as this lives.
pub(crate) struct Tap {
    pub(crate) address: SocketAddr,
    wires: Arc<Mutex<Wires>>,
    over: Arc<AtomicBool>,
    moves: Option<JoinHandle<()>>,
}

struct Wires {
    to: SocketAddr,
    listener: TcpListener,
    open: Vec<(TcpStream, TcpStream)>,
    bytes: usize,
}

impl Tap {
    pub(crate) fn before(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let wires = Arc::new(Mutex::new(Wires {
            to,
            listener,
            open: Vec::new(),
            bytes: 0,
        }));
        let over = Arc::new(AtomicBool::new(false));
        let (mine, ended) = (Arc::clone(&wires), Arc::clone(&over));
        let moves = thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                mine.lock().unwrap().sweep();
                thread::sleep(Duration::from_millis(1));
            }
        });
        Self {
            address,
            wires,
            over,
            moves: Some(moves),
        }
    }

    /// How many bytes have arrived for the database so far: what is sent later is not in it.
    pub(crate) fn bytes(&self) -> usize {
        let mut wires = self.wires.lock().unwrap();
        wires.sweep();
        wires.bytes
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(moves) = self.moves.take() {
            moves.join().ok();
        }
    }
}

impl Wires {
    /// Moves everything that is there, both ways.
    fn sweep(&mut self) {
        while let Ok((near, _)) = self.listener.accept() {
            let Ok(far) = TcpStream::connect(self.to) else {
                continue;
            };
            for stream in [&near, &far] {
                stream.set_nonblocking(true).unwrap();
                stream.set_nodelay(true).unwrap();
            }
            self.open.push((near, far));
        }
        let mut bytes = 0;
        self.open.retain(|(near, far)| {
            let up = carry(near, far, &mut bytes);
            let down = carry(far, near, &mut 0);
            if !up || !down {
                for stream in [near, far] {
                    stream.shutdown(Shutdown::Both).ok();
                }
            }
            up && down
        });
        self.bytes += bytes;
    }
}

/// Moves what is there; `false` once one of the two is gone.
fn carry(mut from: &TcpStream, mut to: &TcpStream, counted: &mut usize) -> bool {
    let mut some = [0; 1 << 14];
    loop {
        let read = match from.read(&mut some) {
            Ok(0) => return false,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
            Err(_) => return false,
        };
        *counted += read;
        let mut rest = &some[..read];
        while !rest.is_empty() {
            match to.write(rest) {
                Ok(written) => rest = &rest[written..],
                // Small requests and answers: whoever is full for now takes them soon.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::yield_now(),
                // What arrived has arrived, whether the database takes it or not.
                Err(_) => break,
            }
        }
    }
}
