//! Exec, attach and port-forward over a WebSocket: many streams on one connection.

use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use serde_json::json;
use sim::kube::{StreamKind, StreamRequest};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message, Role};

use super::Kubernetes;
use super::answer::{AnswerBody, full, pod, refused};
use super::streams::{Duplex, ExecRequest, ExecStreams, StreamError};

type Socket = WebSocketStream<TokioIo<Upgraded>>;
/// What one of the streams has to say: channel and bytes.
type Outgoing = mpsc::Sender<(u8, Bytes)>;

/// What clients of the last years speak, the best first. v5 can close stdin.
const PROTOCOLS: &[&str] = &["v5.channel.k8s.io", "v4.channel.k8s.io"];

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const RESIZE: u8 = 4;
const CLOSE: u8 = 255;

/// Agree to the upgrade and serve the streams until they end.
pub(super) fn open(
    kubernetes: &Kubernetes,
    parts: &Parts,
    upgrade: Option<OnUpgrade>,
    stream: &StreamRequest,
) -> Response<AnswerBody> {
    let key = parts.headers.get(SEC_WEBSOCKET_KEY);
    let (Some(key), Some(upgrade)) = (key, upgrade) else {
        let why = "unable to upgrade: only WebSocket connections are served";
        return refused(&StreamError::BadRequest(why.to_owned()));
    };
    let offered = parts.headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    let offered: Vec<_> = offered
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .collect();
    let Some(protocol) = PROTOCOLS.iter().find(|known| offered.contains(*known)) else {
        let why = format!("unable to upgrade: none of the protocols {offered:?} is served");
        return refused(&StreamError::BadRequest(why));
    };
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes()));
    let Ok(accept) = accept else {
        return refused(&StreamError::BadRequest("bad WebSocket key".to_owned()));
    };
    let (serving, stream) = (kubernetes.clone(), stream.clone());
    kubernetes.task(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
        match stream.kind {
            StreamKind::PortForward => forward(&serving, socket, &stream).await,
            _ => exec(&serving, socket, &stream).await,
        }
    });
    let mut response = Response::new(full(Bytes::new()));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    response
}

/// Write what the streams say until all of them are silent, then say goodbye.
async fn write_out(mut sink: SplitSink<Socket, Message>, mut outgoing: mpsc::Receiver<(u8, Bytes)>) {
    while let Some((channel, bytes)) = outgoing.recv().await {
        let mut message = Vec::with_capacity(bytes.len() + 1);
        message.push(channel);
        message.extend_from_slice(&bytes);
        if sink.send(Message::Binary(message.into())).await.is_err() {
            return;
        }
    }
    // Without a code `kubectl` takes it for a broken connection. Whoever does not hear it is gone already.
    let goodbye = CloseFrame {
        code: CloseCode::Normal,
        reason: Utf8Bytes::default(),
    };
    let _: Result<(), _> = sink.send(Message::Close(Some(goodbye))).await;
}

/// Copy from a pipe to a channel of the socket.
async fn copy_out(mut from: impl tokio::io::AsyncRead + Unpin, channel: u8, to: Outgoing) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(count) = from.read(&mut buffer).await {
        let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else {
            return;
        };
        if to.send((channel, Bytes::copy_from_slice(bytes))).await.is_err() {
            return;
        }
    }
}

async fn exec(kubernetes: &Kubernetes, socket: Socket, stream: &StreamRequest) {
    let all = |name: &str| -> Vec<String> {
        let found = stream.query.iter().filter(|(key, _)| key == name);
        found.map(|(_, value)| value.clone()).collect()
    };
    let flag = |name: &str| all(name).iter().any(|value| value == "true" || value == "1");
    let request = ExecRequest {
        pod: pod(stream),
        container: stream.container.clone(),
        command: if stream.kind == StreamKind::Exec {
            all("command")
        } else {
            Vec::new()
        },
        tty: flag("tty"),
    };
    let (stdin_writer, stdin_reader) = tokio::io::duplex(16 << 10);
    let (stdout_writer, stdout_reader) = tokio::io::duplex(16 << 10);
    let (stderr_writer, stderr_reader) = tokio::io::duplex(16 << 10);
    let (resized, resize) = mpsc::channel(4);
    let streams = ExecStreams {
        stdin: flag("stdin").then(|| Box::new(stdin_reader) as super::streams::BoxRead),
        stdout: Box::new(stdout_writer),
        stderr: Box::new(stderr_writer),
        resize,
    };
    let (outgoing, queue) = mpsc::channel(16);
    let (sink, source) = socket.split();
    let run = async {
        let output = copy_out(stdout_reader, STDOUT, outgoing.clone());
        let errors = copy_out(stderr_reader, STDERR, outgoing.clone());
        let running = kubernetes.streams().exec(request, streams);
        let (code, (), ()) = tokio::join!(running, output, errors);
        // A full queue empties; a closed one means that nobody listens.
        let _: Result<(), _> = outgoing.send((STATUS, status(code).into())).await;
        drop(outgoing);
    };
    let served = async { tokio::join!(run, write_out(sink, queue)) };
    tokio::select! {
        _ = served => {}
        // The client went away: the future of the command is dropped with the rest.
        () = read_in(source, stdin_writer, resized) => {}
    }
}

/// Take what the client sends until it goes away.
async fn read_in(
    mut source: SplitStream<Socket>,
    stdin: tokio::io::DuplexStream,
    resized: mpsc::Sender<(u16, u16)>,
) {
    let mut stdin = Some(stdin);
    while let Some(Ok(message)) = source.next().await {
        let Message::Binary(message) = message else {
            if message.is_close() {
                return;
            }
            continue;
        };
        match message.split_first() {
            Some((&STDIN, bytes)) => {
                let broken = match &mut stdin {
                    Some(open) => open.write_all(bytes).await.is_err(),
                    None => false,
                };
                if broken {
                    stdin = None;
                }
            }
            Some((&CLOSE, [STDIN])) => stdin = None,
            Some((&RESIZE, bytes)) => {
                let size: serde_json::Value = serde_json::from_slice(bytes).unwrap_or_default();
                let read = |name: &str| {
                    size.get(name)
                        .and_then(serde_json::Value::as_u64)
                        .and_then(|side| u16::try_from(side).ok())
                };
                if let (Some(width), Some(height)) = (read("Width"), read("Height")) {
                    // Only the newest size matters.
                    let _: Result<(), _> = resized.try_send((width, height));
                }
            }
            _ => {}
        }
    }
}

/// How a command ended, as clients read it.
fn status(code: Result<i32, StreamError>) -> String {
    let status = match code {
        Ok(0) => json!({"metadata": {}, "status": "Success"}),
        Ok(code) => json!({
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
        Err(error) => {
            json!({"metadata": {}, "status": "Failure", "reason": "InternalError", "message": error.to_string(), "code": 500})
        }
    };
    status.to_string()
}

/// Channels come in pairs, data and error, one pair for each port asked for.
async fn forward(kubernetes: &Kubernetes, socket: Socket, stream: &StreamRequest) {
    let (sink, source) = socket.split();
    let (outgoing, queue) = mpsc::channel(16);
    let served = async {
        let asked = stream.query.iter().filter(|(key, _)| key == "ports");
        let ports = asked
            .flat_map(|(_, value)| value.split(','))
            .filter_map(|port| port.parse().ok());
        let mut writers = Vec::new();
        let mut copies = Vec::new();
        for (port, pair) in ports.zip((0_u8..=254).step_by(2)) {
            let (writer, copy) = connect(kubernetes, stream, port, pair, &outgoing).await;
            writers.push(writer);
            copies.extend(copy);
        }
        drop(outgoing);
        tokio::select! {
            () = to_ports(source, writers) => {}
            _ = futures::future::join_all(copies) => {}
        }
    };
    tokio::join!(served, write_out(sink, queue));
}

type PortWriter = tokio::io::WriteHalf<Box<dyn Duplex>>;

/// Both channels begin with the number of their port; an error ends the pair.
async fn connect(
    kubernetes: &Kubernetes,
    stream: &StreamRequest,
    port: u16,
    pair: u8,
    outgoing: &Outgoing,
) -> (Option<PortWriter>, Option<impl Future<Output = ()> + use<>>) {
    for channel in [pair, pair + 1] {
        // A closed queue means that nobody listens: then the rest does not matter either.
        let _: Result<(), _> = outgoing
            .send((channel, Bytes::copy_from_slice(&port.to_le_bytes())))
            .await;
    }
    match kubernetes.streams().forward(pod(stream), port).await {
        Ok(connection) => {
            let (reader, writer) = tokio::io::split(connection);
            (Some(writer), Some(copy_out(reader, pair, outgoing.clone())))
        }
        Err(error) => {
            let _: Result<(), _> = outgoing.send((pair + 1, error.to_string().into())).await;
            (None, None)
        }
    }
}

/// Hand what the client sends to its ports until it goes away.
async fn to_ports(mut source: SplitStream<Socket>, mut writers: Vec<Option<PortWriter>>) {
    while let Some(Ok(message)) = source.next().await {
        if message.is_close() {
            return;
        }
        let Message::Binary(message) = message else {
            continue;
        };
        let Some((channel, bytes)) = message.split_first() else {
            continue;
        };
        let place = writers
            .get_mut(usize::from(*channel / 2))
            .filter(|_| channel % 2 == 0);
        if let Some(place) = place {
            let broken = match place {
                Some(open) => open.write_all(bytes).await.is_err(),
                None => false,
            };
            if broken {
                *place = None;
            }
        }
    }
}
