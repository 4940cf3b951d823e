//! The agent in the database: who is alive, who owns tokens, and the few orders that are given. HTTP is always 200
//! there; the body says what came of it.

use crate::http::client::{self, PostError};
use mainstay_core::ring::ids::{Address, HostId};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use thiserror::Error;

/// Where the agent listens.
pub const JOLOKIA_PORT: u16 = 8778;

const STORAGE: &str = "org.apache.cassandra.db:type=StorageService";
const GOSSIPER: &str = "org.apache.cassandra.net:type=Gossiper";

/// Why the agent's word cannot be had.
#[derive(Debug, Error)]
pub enum JolokiaError {
    /// The call.
    #[error("jolokia: {0}")]
    Call(#[from] PostError),
    /// It answered that it will not, or cannot.
    #[error("jolokia answered {status}: {error}")]
    Refused {
        /// As in HTTP.
        status: u16,
        /// Its words.
        error: String,
    },
    /// Not what was asked for.
    #[error("jolokia's answer is not understood: {0}")]
    Odd(#[from] serde_json::Error),
    /// Fewer answers than questions.
    #[error("jolokia left a question unanswered")]
    Short,
    /// It is not who it should be.
    #[error("it calls itself {is}, not {wanted}")]
    Somebody {
        /// Who it is.
        is: HostId,
        /// Who it should be.
        wanted: HostId,
    },
    /// Its configuration does not list them (yet).
    #[error("it does not list {0} as a seed: its configuration is behind")]
    NotTaught(Address),
}

/// An agent that can be asked.
#[derive(Clone, Copy, Debug)]
pub struct Jolokia {
    /// Where its pod is.
    pub at: IpAddr,
    /// How long one call may take.
    pub patience: Duration,
}

/// What one node says of the ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ring {
    /// Who is alive.
    pub live: Vec<Address>,
    /// Who is where.
    pub hosts: BTreeMap<Address, HostId>,
    /// Who owns tokens.
    pub owners: Vec<Address>,
    /// With whom it always gossips.
    pub seeds: Vec<Address>,
}

#[derive(Deserialize)]
struct Reply {
    status: u16,
    #[serde(default)]
    value: Value,
    #[serde(default)]
    error: String,
}

impl Reply {
    fn value<T: DeserializeOwned>(self) -> Result<T, JolokiaError> {
        let Self { status, value, error } = self;
        if status != 200 {
            return Err(JolokiaError::Refused { status, error });
        }
        Ok(serde_json::from_value(value)?)
    }
}

fn read(bean: &str, attributes: &Value) -> Value {
    json!({ "type": "read", "mbean": bean, "attribute": attributes })
}

impl Jolokia {
    async fn send(self, requests: &[Value]) -> Result<Vec<Reply>, JolokiaError> {
        let address = SocketAddr::new(self.at, JOLOKIA_PORT).to_string();
        let body = serde_json::to_string(requests)?;
        let text = client::post(&address, "/jolokia/", None, body, self.patience).await?;
        Ok(serde_json::from_str(&text)?)
    }

    async fn one<T: DeserializeOwned>(self, request: Value) -> Result<T, JolokiaError> {
        let replies = self.send(&[request]).await?;
        replies.into_iter().next().ok_or(JolokiaError::Short)?.value()
    }

    /// Everything that is asked of it for a turn, in one call.
    pub async fn ring(self) -> Result<Ring, JolokiaError> {
        let storage = json!(["LiveNodes", "EndpointToHostId", "TokenToEndpointMap"]);
        let asked = [read(STORAGE, &storage), read(GOSSIPER, &json!("Seeds"))];
        let mut replies = self.send(&asked).await?.into_iter();
        let mut next = || replies.next().ok_or(JolokiaError::Short);
        ring(next()?, next()?)
    }

    /// Does its own table say that it is a member?
    pub async fn is_bootstrapped(self) -> Result<bool, JolokiaError> {
        let state: String = self.one(read(STORAGE, &json!("BootstrapState"))).await?;
        Ok(state == "COMPLETED")
    }

    /// Does it say that it is drained?
    pub async fn is_drained(self) -> Result<bool, JolokiaError> {
        let mode: String = self.one(read(STORAGE, &json!("OperationMode"))).await?;
        Ok(mode == "DRAINED")
    }

    /// Makes it read its seeds again, and sees whether these are among them. Its own address it never names.
    pub async fn reload_seeds(self, own: Option<Address>, wanted: &[Address]) -> Result<(), JolokiaError> {
        let reload =
            json!({ "type": "exec", "mbean": GOSSIPER, "operation": "reloadSeeds", "arguments": [] });
        let seeds: Vec<String> = self.one(reload).await?;
        let seeds = addresses(&seeds);
        let missing = wanted.iter().find(|a| Some(**a) != own && !seeds.contains(a));
        missing.map_or(Ok(()), |a| Err(JolokiaError::NotTaught(*a)))
    }

    /// Tells the node to drain, if it is who is meant.
    pub async fn drain(self, wanted: Option<HostId>) -> Result<(), JolokiaError> {
        if let Some(wanted) = wanted {
            self.is(wanted).await?;
        }
        self.order("drain", &json!([])).await
    }

    /// Tells the node to leave the ring, if it is who is meant; not by force.
    pub async fn decommission(self, wanted: HostId) -> Result<(), JolokiaError> {
        self.is(wanted).await?;
        self.order("decommission", &json!([false])).await
    }

    async fn is(self, wanted: HostId) -> Result<(), JolokiaError> {
        let is: HostId = self.one(read(STORAGE, &json!("LocalHostId"))).await?;
        if is == wanted {
            Ok(())
        } else {
            Err(JolokiaError::Somebody { is, wanted })
        }
    }

    /// A call that may take longer than anybody waits: what came of it is seen later.
    async fn order(self, operation: &str, arguments: &Value) -> Result<(), JolokiaError> {
        let exec =
            json!({ "type": "exec", "mbean": STORAGE, "operation": operation, "arguments": arguments });
        match self.one::<Value>(exec).await {
            Ok(_) | Err(JolokiaError::Call(PostError::Silent(_))) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn ring(storage: Reply, seeds: Reply) -> Result<Ring, JolokiaError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Storage {
        live_nodes: Vec<String>,
        endpoint_to_host_id: BTreeMap<String, HostId>,
        token_to_endpoint_map: BTreeMap<String, String>,
    }
    let Storage {
        live_nodes,
        endpoint_to_host_id,
        token_to_endpoint_map,
    } = storage.value()?;
    let owners: BTreeSet<&String> = token_to_endpoint_map.values().collect();
    let hosts = endpoint_to_host_id.iter();
    let seeds: Vec<String> = seeds.value()?;
    Ok(Ring {
        live: addresses(&live_nodes),
        hosts: hosts.filter_map(|(a, h)| Some((address(a)?, *h))).collect(),
        owners: owners.into_iter().filter_map(|a| address(a)).collect(),
        seeds: addresses(&seeds),
    })
}

fn addresses(texts: &[String]) -> Vec<Address> {
    texts.iter().filter_map(|text| address(text)).collect()
}

/// `127.0.0.11`, `/127.0.0.11`, `/127.0.0.11:7000` or `name/127.0.0.11:7000`.
fn address(text: &str) -> Option<Address> {
    let text = text.rsplit('/').next().unwrap_or(text);
    let socket = |text: &str| Some(Address(text.parse::<SocketAddr>().ok()?.ip()));
    text.parse().ok().or_else(|| socket(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_real_node_answered_is_read() {
        // Cassandra 5.0.9 with Jolokia 2.2.9, one node of two down.
        let storage = r#"{"value":{"LiveNodes":["127.0.0.11"],"TokenToEndpointMap":{"-414":"127.0.0.11","-185":"127.0.0.11","958":"127.0.0.12"},
            "EndpointToHostId":{"127.0.0.12":"97a20000-0000-4000-8000-000000000002","127.0.0.11":"3efeeafd-8bb1-4dbf-8d8d-9b1a239c2763"}},"status":200}"#;
        let seeds = r#"{"value":["/127.0.0.12:7000"],"status":200}"#;
        let ring = ring(
            serde_json::from_str(storage).unwrap(),
            serde_json::from_str(seeds).unwrap(),
        )
        .unwrap();
        let ip = |n: u8| format!("127.0.0.{n}").parse::<Address>().unwrap();
        assert_eq!(ring.live, [ip(11)]);
        assert_eq!(ring.owners, [ip(11), ip(12)]);
        assert_eq!(ring.seeds, [ip(12)]);
        assert_eq!(ring.hosts.len(), 2);
    }

    #[test]
    fn a_refusal_is_in_the_body_and_no_answer() {
        let young = r#"{"status":404,"error":"javax.management.InstanceNotFoundException : no such bean"}"#;
        let reply: Reply = serde_json::from_str(young).unwrap();
        assert!(matches!(
            reply.value::<String>(),
            Err(JolokiaError::Refused { status: 404, .. })
        ));
        for odd in ["nobody", "", "/"] {
            assert_eq!(address(odd), None, "{odd}");
        }
    }
}
