//! The Bolt data plane.
//!
//! A gateway stands between clients and the MAIN of one cluster. It forwards only to the MAIN that the record
//! names, after that very connection showed role and term (G1); it cuts when the record changes and says so only
//! afterwards (G2); it never follows an older record (G3). `docs/gateway.md` says what a client sees.
//!
//! | file | concern |
//! |---|---|
//! | `config` | how a gateway runs |
//! | `control` | the record it obeys: opens, cuts, confirms |
//! | `parts` | the tasks that it is made of, none of which may end |
//! | `plane` | where records come from and confirmations go: Kubernetes, or channels |
//! | `admin` | pushes, state, health and metrics over HTTP |
//! | `accept` | the port that clients connect to |
//! | `doors` | how many connections there may be, in all and of one address, and how fast they may come |
//! | `files` | how many files the process may have open |
//! | `front` | how clients come in and databases are reached: TLS, PROXY protocol, access log |
//! | `secure` | certificates, read again when they change |
//! | `proxy_header` | the PROXY protocol, without I/O |
//! | `session` | one client: login, check, hold, forward, refuse; and what becomes of it when its database goes |
//! | `reads` | the port for reads: which replicas take them, and who must leave one |
//! | `credentials` | whom the gateway itself logs in as |
//! | `resolve` | names of pods to addresses |
//! | `heard` | whom it last had an answer from (R21) |

mod accept;
mod admin;
mod buffers;
mod cells;
mod config;
mod control;
mod credentials;
mod doors;
mod files;
mod front;
mod gateway;
mod heard;
mod metrics;
mod parts;
mod plane;
mod proxy_header;
mod reads;
mod resolve;
mod secure;
mod session;
mod signal;
mod token;

pub use cells::cell;
pub use config::{Config, Limits, Pod, Reads, Routing, Timeouts};
pub use credentials::Credentials;
pub use files::{files_suffice, raise_file_limit};
pub use front::{Back, BackendTls, Front, Percent, ServerTls};
pub use gateway::{Gateway, StartError};
pub use parts::Broken;
pub use plane::Plane;
pub use resolve::Resolve;
pub use secure::SecureError;
pub use token::PushToken;
