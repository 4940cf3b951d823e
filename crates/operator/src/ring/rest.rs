//! What a ScyllaDB node says of the ring: all of it from this one node, over its REST interface.

use super::attended::{AGENT_PORT, Agent};
use super::cluster::API_PORT;
use crate::http::client::{self, PostError};
use futures::future::join_all;
use mainstay_core::ring::answers::ScyllaReplies;
use mainstay_core::ring::ids::{Address, HostId, Location, Name};
use mainstay_core::ring::observed::Keyspace;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use thiserror::Error;
use tokio::time::timeout;

/// Why a node's word cannot be had.
#[derive(Debug, Error)]
pub enum RestError {
    /// The call.
    #[error("{path}: {source}")]
    Call {
        /// Which.
        path: String,
        /// Why.
        source: PostError,
    },
    /// All calls together took too long.
    #[error("not everything was answered in {0:?}")]
    Slow(Duration),
    /// It is not who it should be.
    #[error("it calls itself {is}, not {wanted}")]
    Somebody {
        /// Who it is.
        is: HostId,
        /// Who it should be.
        wanted: HostId,
    },
}

/// The keyspace of the accounts.
const ACCOUNTS: &str = "system_auth";

/// How many tables are asked for at once: a keyspace may have hundreds.
const TABLES_AT_ONCE: usize = 8;

/// A node that can be asked.
#[derive(Clone, Debug)]
pub struct Rest {
    /// Where its pod is.
    pub at: IpAddr,
    /// Through its agent, where the database itself listens on loopback only.
    pub agent: Option<Agent>,
    /// How long one call may take, and ten times that all of them.
    pub patience: Duration,
}

#[derive(Deserialize)]
struct Pair {
    key: Address,
    value: HostId,
}

#[derive(Deserialize)]
struct Table {
    ks: String,
    cf: String,
}

#[derive(Deserialize)]
struct Range {
    endpoint_details: Vec<Detail>,
}

#[derive(Deserialize)]
struct Detail {
    datacenter: Name,
}

impl Rest {
    fn address(&self) -> String {
        SocketAddr::new(self.at, API_PORT).to_string()
    }

    async fn get<T: DeserializeOwned>(&self, path: String) -> Result<T, RestError> {
        let answer = match &self.agent {
            Some(Agent { tls, token }) => {
                let agent = SocketAddr::new(self.at, AGENT_PORT);
                client::get_tls(tls, agent, &path, token, self.patience).await
            }
            None => client::get(&self.address(), &path, None, self.patience).await,
        };
        let parsed = answer.and_then(|text| Ok(serde_json::from_str(&text)?));
        parsed.map_err(|source| RestError::Call { path, source })
    }

    /// Everything that is asked of a node.
    pub async fn replies(&self) -> Result<ScyllaReplies, RestError> {
        let longest = self.patience * 10;
        timeout(longest, self.ask())
            .await
            .unwrap_or(Err(RestError::Slow(longest)))
    }

    async fn ask(&self) -> Result<ScyllaReplies, RestError> {
        let listed: Vec<Pair> = self.get("/storage_service/host_id".to_owned()).await?;
        let host_id: Vec<(Address, HostId)> = listed.into_iter().map(|p| (p.key, p.value)).collect();
        let mut replies = ScyllaReplies {
            live: self.get("/gossiper/endpoint/live/".to_owned()).await?,
            joining: self.get("/storage_service/nodes/joining".to_owned()).await?,
            leaving: self.get("/storage_service/nodes/leaving".to_owned()).await?,
            excluded: self.excluded().await,
            keyspaces: self.keyspaces().await,
            ..ScyllaReplies::default()
        };
        for (address, _) in &host_id {
            let tokens: Vec<String> = self.get(format!("/storage_service/tokens/{address}")).await?;
            if !tokens.is_empty() {
                replies.owners.push(*address);
            }
            let generation = format!("/gossiper/generation_number/{address}");
            replies.generation.insert(*address, self.get(generation).await?);
            if !replies.live.contains(address) {
                let down = self.get(format!("/gossiper/downtime/{address}")).await?;
                replies.downtime.insert(*address, down);
            }
            let location = Location {
                dc: self.get(format!("/snitch/datacenter?host={address}")).await?,
                rack: self.get(format!("/snitch/rack?host={address}")).await?,
            };
            replies.locations.insert(*address, location);
        }
        replies.host_id = host_id;
        Ok(replies)
    }

    /// From 2026.1 on; older ones do not know the call, and nobody can be excluded there.
    async fn excluded(&self) -> Vec<HostId> {
        let asked = self.get("/storage_service/nodes/excluded".to_owned()).await;
        asked.unwrap_or_default()
    }

    /// How often the rows of each keyspace are kept. If it cannot even be told which there are, or all of them take too
    /// long, none is known: then nothing is replaced.
    async fn keyspaces(&self) -> Vec<Keyspace> {
        let found = timeout(self.patience * 5, self.all_keyspaces()).await;
        match found {
            Ok(Ok(found)) => found,
            Ok(Err(_)) | Err(_) => Vec::new(),
        }
    }

    async fn all_keyspaces(&self) -> Result<Vec<Keyspace>, RestError> {
        let names: Vec<Name> = self
            .get("/storage_service/keyspaces?type=non_local_strategy".to_owned())
            .await?;
        let mut found = Vec::new();
        for name in names {
            let copies = match self.ranges(&name, None).await {
                Ok(ranges) => Some(fewest(&ranges)),
                // Where rows are kept in tablets, each table has a ring of its own, and the keyspace has none.
                Err(_) => self.by_table(&name).await.ok(),
            };
            found.push(Keyspace {
                accounts: name.as_str() == ACCOUNTS,
                copies,
                name,
            });
        }
        Ok(found)
    }

    async fn ranges(&self, keyspace: &Name, table: Option<&str>) -> Result<Vec<Range>, RestError> {
        let table = table.map(|table| format!("?table={table}")).unwrap_or_default();
        self.get(format!("/storage_service/describe_ring/{keyspace}{table}"))
            .await
    }

    /// The copies of the table that has the fewest. One that cannot be told makes the keyspace unknown; a keyspace without
    /// tables has no rows, and so none to lose.
    async fn by_table(&self, keyspace: &Name) -> Result<BTreeMap<Name, u32>, RestError> {
        let mut own: Vec<Table> = self.get("/column_family/".to_owned()).await?;
        own.retain(|table| table.ks == keyspace.as_str());
        let mut ranges = Vec::new();
        for some in own.chunks(TABLES_AT_ONCE) {
            let mut asked = Vec::new();
            for table in some {
                asked.push(self.ranges(keyspace, Some(&table.cf)));
            }
            for found in join_all(asked).await {
                ranges.extend(found?);
            }
        }
        Ok(fewest(&ranges))
    }

    /// Does it say that it is drained?
    pub async fn is_drained(&self) -> Result<bool, RestError> {
        let mode: String = self.get("/storage_service/operation_mode".to_owned()).await?;
        Ok(mode == "DRAINED")
    }

    /// Tells the node to drain, if it is who is meant. Large memtables take longer than we wait.
    pub async fn drain(&self, wanted: Option<HostId>) -> Result<(), RestError> {
        if let Some(wanted) = wanted {
            self.is(wanted).await?;
        }
        self.order("/storage_service/drain").await
    }

    /// Tells the node to leave the ring, if it is who is meant. The call ends with the leaving: hours later, perhaps.
    pub async fn decommission(&self, wanted: HostId) -> Result<(), RestError> {
        self.is(wanted).await?;
        self.order("/storage_service/decommission").await
    }

    async fn is(&self, wanted: HostId) -> Result<(), RestError> {
        let is: HostId = self.get("/storage_service/hostid/local".to_owned()).await?;
        if is == wanted {
            Ok(())
        } else {
            Err(RestError::Somebody { is, wanted })
        }
    }

    /// A call that may take longer than anybody waits: what came of it is seen later.
    async fn order(&self, path: &str) -> Result<(), RestError> {
        let path = path.to_owned();
        let told = client::post(&self.address(), &path, None, String::new(), self.patience).await;
        match told {
            Ok(_) | Err(PostError::Silent(_)) => Ok(()),
            Err(source) => Err(RestError::Call { path, source }),
        }
    }
}

/// The copies of the range that has the fewest, by datacenter.
fn fewest(ranges: &[Range]) -> BTreeMap<Name, u32> {
    let mut fewest: BTreeMap<Name, u32> = BTreeMap::new();
    let places: std::collections::BTreeSet<&Name> = ranges
        .iter()
        .flat_map(|range| range.endpoint_details.iter().map(|d| &d.datacenter))
        .collect();
    for range in ranges {
        for dc in &places {
            let here = range.endpoint_details.iter().filter(|d| d.datacenter == **dc);
            let copies = u32::try_from(here.count()).unwrap_or(u32::MAX);
            let least = fewest.entry((*dc).clone()).or_insert(copies);
            *least = copies.min(*least);
        }
    }
    fewest
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    /// What a node answers to the calls for keyspaces, by the path; anything else is an error there.
    async fn answering(at: IpAddr, said: &'static [(&'static str, &'static str)]) -> Rest {
        let listener = TcpListener::bind(SocketAddr::new(at, API_PORT)).await.unwrap();
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let mut request = vec![0; 2_048];
                let read = socket.read(&mut request).await.unwrap_or(0);
                let text = String::from_utf8_lossy(&request[..read]).into_owned();
                let path = text.split(' ').nth(1).unwrap_or_default();
                let found = said.iter().find(|(known, _)| *known == path);
                let (code, body) = found.map_or((500, r#"{"message":"no"}"#), |(_, body)| (200, *body));
                let answer = format!(
                    "HTTP/1.1 {code} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                    body.len()
                );
                socket.write_all(answer.as_bytes()).await.ok();
            }
        });
        Rest {
            at,
            agent: None,
            patience: Duration::from_secs(5),
        }
    }

    const TWO: &str = r#"[{"endpoint_details": [{"datacenter": "a"}, {"datacenter": "a"}]}]"#;
    const THREE: &str =
        r#"[{"endpoint_details": [{"datacenter": "a"}, {"datacenter": "a"}, {"datacenter": "a"}]}]"#;

    #[tokio::test]
    async fn tables_are_asked_for_where_the_keyspace_has_no_ring_and_one_error_is_one_unknown() {
        let rest = answering(
            IpAddr::from([127, 91, 0, 1]),
            &[
                (
                    "/storage_service/keyspaces?type=non_local_strategy",
                    r#"["vnodes", "tablets", "broken", "empty"]"#,
                ),
                ("/storage_service/describe_ring/vnodes", THREE),
                (
                    "/column_family/",
                    r#"[{"ks": "tablets", "cf": "t1", "type": "ColumnFamilies"},
                        {"ks": "tablets", "cf": "t2", "type": "ColumnFamilies"},
                        {"ks": "broken", "cf": "t3", "type": "ColumnFamilies"}]"#,
                ),
                ("/storage_service/describe_ring/tablets?table=t1", THREE),
                ("/storage_service/describe_ring/tablets?table=t2", TWO),
            ],
        )
        .await;
        let found = rest.keyspaces().await;
        let copies: Vec<_> = found
            .iter()
            .map(|k| {
                (
                    k.name.as_str(),
                    k.copies.as_ref().map(|c| c.values().copied().next()),
                )
            })
            .collect();
        assert_eq!(
            copies,
            [
                ("vnodes", Some(Some(3))),
                ("tablets", Some(Some(2))),
                ("broken", None),
                ("empty", Some(None)),
            ]
        );
    }

    #[test]
    fn the_range_with_the_fewest_copies_counts() {
        let ranges: Vec<Range> = serde_json::from_str(
            r#"[{"endpoint_details": [{"datacenter": "a"}, {"datacenter": "a"}, {"datacenter": "b"}]},
                {"endpoint_details": [{"datacenter": "a"}]}]"#,
        )
        .unwrap();
        let name = |text: &str| text.parse::<Name>().unwrap();
        assert_eq!(fewest(&ranges), BTreeMap::from([(name("a"), 1), (name("b"), 0)]));
        assert!(fewest(&[]).is_empty());
    }
}
