//! Clients. Answers have a known size, so that they are counted and not read, except for the first one.

use crate::database::{Answers, LARGE_ROWS, SMALL, VERSION};
use anyhow::{Result, ensure};
use bolt::frame::Assembler;
use bolt::handshake::{ClientHandshake, Proposals};
use bolt::message::{Auth, Fetch, Hello, Request, Response, Run, tag};
use bolt::packstream::{Dict, Limits, Value};
use std::net::SocketAddr;
use std::rc::Rc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, yield_now};

/// One client that is logged in.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    pub(crate) unread: Vec<u8>,
    pub(crate) assembler: Assembler,
}

/// A RUN and its PULL, as drivers send them: together.
pub(crate) fn run_and_pull(query: &'static str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let run = Run::new(query).with("id", Value::from(123_456_i64));
    Request::Run(run).frame(VERSION, &mut bytes)?;
    Request::Pull(Fetch::ALL).frame(VERSION, &mut bytes)?;
    Ok(bytes)
}

impl Client {
    /// Connects and logs in.
    pub(crate) async fn connect(to: SocketAddr) -> Result<Self> {
        let mut stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        let mut handshake = ClientHandshake::new(Proposals::only(VERSION));
        stream.write_all(&handshake.request()).await?;
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).await?;
        let version = handshake.read(&mut answer.as_slice())?;
        ensure!(version == Some(VERSION), "{version:?} was agreed");
        let mut client = Self {
            stream,
            unread: Vec::with_capacity(512),
            assembler: Assembler::new(1 << 20),
        };
        let hello = Hello {
            user_agent: "mainstay-bench/1".into(),
            auth: None,
            extra: Dict::new(),
        };
        for request in [
            Request::Hello(hello),
            Request::Logon(Auth::basic("bench", "bench")),
        ] {
            let mut bytes = Vec::new();
            request.frame(VERSION, &mut bytes)?;
            client.stream.write_all(&bytes).await?;
            let answer = client.message().await?;
            ensure!(answer.get(1) == Some(&tag::SUCCESS), "the login failed");
        }
        Ok(client)
    }

    /// The next message.
    pub(crate) async fn message(&mut self) -> Result<Vec<u8>> {
        loop {
            let mut input = self.unread.as_slice();
            let message = self.assembler.next(&mut input)?.map(<[u8]>::to_vec);
            let used = self.unread.len() - input.len();
            self.unread.drain(..used);
            if let Some(message) = message {
                return Ok(message);
            }
            ensure!(self.stream.read_buf(&mut self.unread).await? > 0, "closed");
        }
    }

    /// Asks, and reads the answer: the text of its one row.
    pub(crate) async fn ask(&mut self) -> Result<String> {
        self.stream.write_all(&run_and_pull(SMALL)?).await?;
        let mut text = None;
        let mut successes = 0;
        while successes < 2 {
            let message = self.message().await?;
            match Response::parse(&message, Limits::DEFAULT)? {
                Response::Success(_) => successes += 1,
                Response::Record(values) => {
                    text = values.first().and_then(Value::as_str).map(str::to_owned);
                }
                Response::Failure(failure) => anyhow::bail!("{failure:?}"),
                Response::Ignored => anyhow::bail!("ignored"),
            }
        }
        text.ok_or_else(|| anyhow::anyhow!("an answer without a row"))
    }

    async fn skip(&mut self, mut bytes: usize, buffer: &mut [u8]) -> Result<()> {
        while bytes > 0 {
            let read = self.stream.read(buffer).await?;
            ensure!(read > 0 && read <= bytes, "closed, or more than was asked for");
            bytes -= read;
        }
        Ok(())
    }
}

async fn all(mut tasks: JoinSet<Result<()>>) -> Result<()> {
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

/// `count` requests on each of these connections, all at the same time.
pub(crate) async fn requests(clients: Vec<Client>, answers: &Rc<Answers>, count: usize) -> Result<()> {
    let mut tasks = JoinSet::new();
    let size = answers.small.len();
    for mut client in clients {
        let request = run_and_pull(SMALL)?;
        tasks.spawn_local(async move {
            let mut buffer = [0; 512];
            for _ in 0..count {
                client.stream.write_all(&request).await?;
                client.skip(size, &mut buffer).await?;
            }
            Ok(())
        });
    }
    all(tasks).await
}

/// Logs in `count` times over `at_once` connections at a time, and leaves each time.
pub(crate) async fn connections(to: SocketAddr, count: usize, at_once: usize) -> Result<()> {
    let mut tasks = JoinSet::new();
    for _ in 0..at_once {
        tasks.spawn_local(async move {
            for _ in 0..count.div_ceil(at_once) {
                let mut client = Client::connect(to).await?;
                let mut bytes = Vec::new();
                Request::Goodbye.frame(VERSION, &mut bytes)?;
                client.stream.write_all(&bytes).await?;
                let closed = client.stream.read(&mut [0]).await?;
                ensure!(closed == 0, "something was said after GOODBYE");
                // A reset leaves no port waiting; the proxy's side is closed already.
                socket2::SockRef::from(&client.stream).set_linger(Some(std::time::Duration::ZERO))?;
            }
            Ok(())
        });
    }
    all(tasks).await
}

/// One large result on each of these connections.
pub(crate) async fn bulk(
    clients: Vec<Client>,
    answers: &Rc<Answers>,
    query: &'static str,
    blocks: usize,
) -> Result<()> {
    let mut tasks = JoinSet::new();
    let size = answers.bulk(query, blocks);
    for mut client in clients {
        tasks.spawn_local(async move {
            client.stream.write_all(&run_and_pull(query)?).await?;
            let mut buffer = vec![0; 1 << 18];
            client.skip(size, &mut buffer).await
        });
    }
    all(tasks).await
}

/// Connections that have logged in, and asked once.
pub(crate) async fn idle(to: SocketAddr, count: usize) -> Result<Vec<Client>> {
    let mut clients = Vec::with_capacity(count);
    for _ in 0..count {
        let mut client = Client::connect(to).await?;
        client.ask().await?;
        clients.push(client);
        yield_now().await;
    }
    Ok(clients)
}

/// What bulk is measured with.
pub(crate) const BULK: [&str; 2] = [LARGE_ROWS, crate::database::SMALL_ROWS];
