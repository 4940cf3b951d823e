//! What the API asks of whoever runs the pods: logs, exec, attach, port-forward.

use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

/// Bytes that come from a pod.
pub type BoxRead = Box<dyn AsyncRead + Send + Unpin>;
/// Bytes that go to a pod or to a client.
pub type BoxWrite = Box<dyn AsyncWrite + Send + Unpin>;

/// A connection in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Which pod is meant. The uid is the one stored when the request came: a pod
/// that was replaced meanwhile is another pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The node it is bound to.
    pub node: String,
}

/// `GET pods/NAME/log`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRequest {
    /// Whose.
    pub pod: PodRef,
    /// Of which container; always resolved, to the only one or to the first.
    pub container: String,
    /// Stay and send what is written later.
    pub follow: bool,
    /// Of the run before the present one.
    pub previous: bool,
    /// Only the last so many lines.
    pub tail_lines: Option<usize>,
    /// Only what is at most so many seconds old.
    pub since_seconds: Option<u64>,
    /// Each line with its time in front.
    pub timestamps: bool,
    /// At most so many bytes.
    pub limit_bytes: Option<usize>,
}

/// `pods/NAME/exec`, and `pods/NAME/attach` when there is no command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecRequest {
    /// Where.
    pub pod: PodRef,
    /// In which container; always resolved.
    pub container: String,
    /// Program and arguments. Empty means: attach to what runs.
    pub command: Vec<String>,
    /// A terminal is asked for: stderr goes the way of stdout.
    pub tty: bool,
}

/// The ends of an exec that the node agent holds. Dropping a writer ends its stream.
pub struct ExecStreams {
    /// What the client types, if it said it would.
    pub stdin: Option<BoxRead>,
    /// Where the output goes.
    pub stdout: BoxWrite,
    /// Where the errors go.
    pub stderr: BoxWrite,
    /// Columns and rows of the client's terminal, as they change.
    pub resize: mpsc::Receiver<(u16, u16)>,
}

/// Why a stream was not opened, or broke.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// There is no such container, or nothing of it to show: 400.
    #[error("{0}")]
    BadRequest(String),
    /// The node does not know the pod: 404.
    #[error("{0}")]
    NotFound(String),
    /// The node is gone or the pod does not run: 500.
    #[error("{0}")]
    Unavailable(String),
    /// The bytes could not be moved.
    #[error("the stream broke")]
    Io(#[from] std::io::Error),
}

/// Implemented by the node agent.
pub trait PodStreams: Send + Sync + 'static {
    /// The log of a container, as one stream.
    fn logs(&self, request: LogRequest) -> BoxFuture<'static, Result<BoxRead, StreamError>>;

    /// Run the command to its end; the answer is its exit code. Dropping the
    /// future means that the client is gone.
    fn exec(
        &self,
        request: ExecRequest,
        streams: ExecStreams,
    ) -> BoxFuture<'static, Result<i32, StreamError>>;

    /// A connection to a port of the pod.
    fn forward(&self, pod: PodRef, port: u16) -> BoxFuture<'static, Result<Box<dyn Duplex>, StreamError>>;
}

/// Nobody runs pods here.
#[derive(Debug, Clone, Copy)]
pub struct NoPods;

impl NoPods {
    fn refusal<T>() -> Result<T, StreamError> {
        Err(StreamError::Unavailable("no node agent is running".to_owned()))
    }
}

impl PodStreams for NoPods {
    fn logs(&self, _: LogRequest) -> BoxFuture<'static, Result<BoxRead, StreamError>> {
        Box::pin(async { Self::refusal() })
    }

    fn exec(&self, _: ExecRequest, _: ExecStreams) -> BoxFuture<'static, Result<i32, StreamError>> {
        Box::pin(async { Self::refusal() })
    }

    fn forward(&self, _: PodRef, _: u16) -> BoxFuture<'static, Result<Box<dyn Duplex>, StreamError>> {
        Box::pin(async { Self::refusal() })
    }
}
