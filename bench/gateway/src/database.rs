//! A database that has every answer ready: it costs as little as possible, because it is not what is measured.

use anyhow::{Result, ensure};
use bolt::frame::Assembler;
use bolt::handshake::ServerHandshake;
use bolt::message::{Response, frame_record, tag};
use bolt::packstream::{Dict, Value, dict};
use bolt::version::Version;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;

/// What is spoken.
pub(crate) const VERSION: Version = Version::V5_2;
/// A query with one small row as its result.
pub(crate) const SMALL: &str = "CREATE (n:Event {id: $id}) RETURN n.id";
/// A query whose result is large rows, by the block.
pub(crate) const LARGE_ROWS: &str = "RETURN large";
/// A query whose result is small rows, by the block.
pub(crate) const SMALL_ROWS: &str = "RETURN small";
/// What a block of rows holds at least.
pub(crate) const BLOCK: usize = 1 << 20;

const LARGE_ROW: usize = 60_000;
const SMALL_ROW: usize = 100;

/// Every answer, as it goes over the wire.
#[derive(Debug)]
pub(crate) struct Answers {
    hello: Vec<u8>,
    ok: Vec<u8>,
    role: Vec<u8>,
    /// RUN and PULL of [`SMALL`].
    pub(crate) small: Vec<u8>,
    head: Vec<u8>,
    tail: Vec<u8>,
    large_block: Vec<u8>,
    small_block: Vec<u8>,
}

fn framed(responses: &[Response<'_>]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for response in responses {
        response.frame(&mut bytes)?;
    }
    Ok(bytes)
}

fn fields(name: &'static str) -> Response<'static> {
    Response::Success(dict([("fields", Value::List(vec![Value::from(name)]))]))
}

fn end() -> Response<'static> {
    Response::Success(dict([
        ("run_id", Value::from("bench")),
        ("has_more", Value::Bool(false)),
    ]))
}

fn block(row: usize) -> Result<Vec<u8>> {
    let text = "x".repeat(row);
    let mut bytes = Vec::with_capacity(BLOCK + row);
    while bytes.len() < BLOCK {
        frame_record(&[Value::from(text.as_str())], &mut bytes)?;
    }
    Ok(bytes)
}

impl Answers {
    /// `name` is what the row of [`SMALL`] says.
    pub(crate) fn new(name: &str) -> Result<Self> {
        let row = |text| Response::Record(vec![Value::from(text)]);
        Ok(Self {
            hello: framed(&[Response::Success(dict([
                (
                    "server",
                    Value::from("Neo4j/v5.11.0 compatible graph database server - Memgraph"),
                ),
                ("connection_id", Value::from("bolt-1")),
            ]))])?,
            ok: framed(&[Response::Success(Dict::new())])?,
            role: framed(&[fields("replication role"), row("main"), end()])?,
            small: framed(&[fields("n.id"), row(name), end()])?,
            head: framed(&[fields("row")])?,
            tail: framed(&[end()])?,
            large_block: block(LARGE_ROW)?,
            small_block: block(SMALL_ROW)?,
        })
    }

    /// Bytes of a result of so many blocks.
    pub(crate) fn bulk(&self, query: &str, blocks: usize) -> usize {
        self.head.len() + self.tail.len() + self.block(query).len() * blocks
    }

    fn block(&self, query: &str) -> &[u8] {
        if query == LARGE_ROWS {
            &self.large_block
        } else {
            &self.small_block
        }
    }
}

/// What a database serves.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    pub(crate) answers: Rc<Answers>,
    /// The term that its data shows.
    pub(crate) term: Arc<AtomicU64>,
    /// Blocks of a large result.
    pub(crate) blocks: usize,
}

impl Database {
    /// Serves on a port of its own, as long as the process lives.
    pub(crate) async fn start(self) -> Result<SocketAddr> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        spawn_local(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let database = self.clone();
                spawn_local(async move { database.serve(stream).await.ok() });
            }
        });
        Ok(address)
    }

    async fn serve(self, mut stream: TcpStream) -> Result<()> {
        stream.set_nodelay(true)?;
        let mut unread = Vec::with_capacity(256);
        let mut handshake = ServerHandshake::new();
        loop {
            ensure!(stream.read_buf(&mut unread).await? > 0, "gone");
            let mut input = unread.as_slice();
            let proposals = handshake.read(&mut input)?;
            let used = unread.len() - input.len();
            unread.drain(..used);
            if proposals.is_some() {
                break;
            }
        }
        stream.write_all(&ServerHandshake::answer(VERSION)).await?;
        let mut assembler = Assembler::new(1 << 20);
        let mut running = Running::Nothing;
        loop {
            let mut said = Vec::new();
            let mut rows = None;
            let mut input = unread.as_slice();
            while let Some(message) = assembler.next(&mut input)? {
                if !self.answer(message, &mut running, &mut said, &mut rows)? {
                    return Ok(());
                }
            }
            unread.clear();
            stream.write_all(&said).await?;
            if let Some(query) = rows {
                for _ in 0..self.blocks {
                    stream.write_all(self.answers.block(query)).await?;
                }
                stream.write_all(&self.answers.tail).await?;
            }
            ensure!(stream.read_buf(&mut unread).await? > 0, "gone");
        }
    }

    /// Answers RUN and the PULL after it at once, when the PULL comes. `false`: the client left.
    fn answer(
        &self,
        message: &[u8],
        running: &mut Running,
        said: &mut Vec<u8>,
        rows: &mut Option<&'static str>,
    ) -> Result<bool> {
        let has = |words: &str| message.windows(words.len()).any(|part| part == words.as_bytes());
        match message.get(1).copied() {
            Some(tag::HELLO) => said.extend_from_slice(&self.answers.hello),
            Some(tag::LOGON | tag::RESET) => said.extend_from_slice(&self.answers.ok),
            Some(tag::GOODBYE) | None => return Ok(false),
            Some(tag::RUN) => {
                *running = if has(SMALL) {
                    Running::Small
                } else if has("SHOW REPLICATION ROLE") {
                    Running::Role
                } else if has("__mainstay") {
                    Running::Mark
                } else if has(LARGE_ROWS) {
                    Running::Rows(LARGE_ROWS)
                } else {
                    Running::Rows(SMALL_ROWS)
                };
            }
            Some(_) => match running {
                Running::Small => said.extend_from_slice(&self.answers.small),
                Running::Role => said.extend_from_slice(&self.answers.role),
                Running::Mark => {
                    let term = i64::try_from(self.term.load(Ordering::Relaxed))?;
                    let row = Response::Record(vec![Value::Int(term)]);
                    said.extend(framed(&[fields("m.term"), row, end()])?);
                }
                Running::Rows(query) => {
                    said.extend_from_slice(&self.answers.head);
                    *rows = Some(query);
                }
                Running::Nothing => said.extend_from_slice(&self.answers.ok),
            },
        }
        Ok(true)
    }
}

#[derive(Clone, Copy, Debug)]
enum Running {
    Nothing,
    Small,
    Role,
    Mark,
    Rows(&'static str),
}
