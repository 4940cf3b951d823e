//! A database as far as a gateway asks, which then does what a test says; and a client that speaks in bytes.

use bolt::handshake::{Proposals, ServerHandshake};
use bolt::message::{Auth, Hello, Request, Response};
use bolt::packstream::{Dict, Value};
use bolt::version::Version;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) const VERSION: Version = Version::V5_2;

pub(crate) fn framed(responses: &[Response<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for response in responses {
        response.frame(&mut bytes).unwrap();
    }
    bytes
}

pub(crate) fn done() -> Response<'static> {
    Response::Success(Dict::new())
}

/// What shows a gateway that this is the MAIN of term 4.
pub(crate) fn checked() -> Vec<u8> {
    framed(&[
        done(),
        Response::Record(vec![Value::from("main")]),
        done(),
        done(),
        Response::Record(vec![Value::Int(4)]),
        done(),
    ])
}

/// Answers handshake, login and check as the MAIN of term 4.
pub(crate) async fn let_in(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut handshake = [0; 20];
    stream.read_exact(&mut handshake).await?;
    stream.write_all(&ServerHandshake::answer(VERSION)).await?;
    let mut sink = vec![0; 1 << 12];
    for answer in [framed(&[done()]), framed(&[done()]), checked()] {
        if stream.read(&mut sink).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        stream.write_all(&answer).await?;
    }
    Ok(())
}

/// What a client says to log in: handshake, HELLO, LOGON.
pub(crate) fn login(user_agent: &str) -> [Vec<u8>; 3] {
    let hello = Hello {
        user_agent: user_agent.to_owned().into(),
        auth: None,
        extra: Dict::new(),
    };
    let framed = |request: Request<'_>| {
        let mut bytes = Vec::new();
        request.frame(VERSION, &mut bytes).unwrap();
        bytes
    };
    [
        Proposals::MEMGRAPH.to_bytes().to_vec(),
        framed(Request::Hello(hello)),
        framed(Request::Logon(Auth::None)),
    ]
}

/// Logs in, byte by byte as a driver does.
pub(crate) async fn log_in(stream: &mut TcpStream) -> std::io::Result<()> {
    let [proposals, hello, logon] = login("test/1");
    stream.write_all(&proposals).await?;
    stream.write_all(&[hello, logon].concat()).await?;
    let mut greeting = vec![0; 4 + 2 * framed(&[done()]).len()];
    stream.read_exact(&mut greeting).await?;
    Ok(())
}
