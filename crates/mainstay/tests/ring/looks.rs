//! What is seen of a ring: by its members, in their logs and command lines, in its status and by `mainstay why`.

use super::bed::{Bed, NAME};
use anyhow::{Context, Result, ensure};
use api::ring::RingClusterStatus;
use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim, Service};
use kube::ResourceExt;
use kube::api::{Api, ListParams, LogParams};
use mainstay_core::ring::checks::Letter;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

/// Longer than it takes from the moment at which nothing stands against a replacement to its permission.
pub(crate) const LONG_ENOUGH: Duration = Duration::from_secs(6);

/// What this check has against the replacement of this member.
pub(crate) fn against<'a>(status: &'a RingClusterStatus, member: &str, check: &str) -> Option<&'a str> {
    let mut own = status.checks.iter();
    let found = own.find(|c| c.member == member && c.name == check && !c.holds);
    found.map(|c| c.message.as_str())
}

/// What the gate of this member said last.
pub(crate) fn gate<'a>(status: &'a RingClusterStatus, member: &str) -> &'a str {
    let found = status.members.iter().find(|m| m.name == member);
    found.map_or("", |m| m.gate.as_str())
}

impl Bed {
    /// What `mainstay why` prints.
    pub(crate) async fn why(&self) -> Result<String> {
        let mut asked = Command::new(env!("CARGO_BIN_EXE_mainstay"));
        asked
            .args(["why", NAME, "--kubeconfig"])
            .arg(self.folder.join("config"));
        let output = asked.output().await?;
        let text = String::from_utf8(output.stdout)?;
        ensure!(output.status.success(), "{text}{:?}", output.stderr);
        Ok(text)
    }

    /// What the container of a database has said in its last run: its gate first.
    pub(crate) async fn log(&self, member: &str) -> Result<String> {
        let container = LogParams {
            container: Some("scylla".to_owned()),
            ..LogParams::default()
        };
        Ok(self.pods().logs(member, &container).await?)
    }

    /// With which arguments the database of this member runs.
    pub(crate) fn command_line(&self, member: &str) -> Result<String> {
        let groups = self.nodes.processes(&Self::party(member));
        let leader = groups.first().context("nothing runs")?;
        let words = std::fs::read(format!("/proc/{leader}/cmdline"))?;
        Ok(String::from_utf8_lossy(&words).replace('\0', " "))
    }

    /// The reasons of all Events.
    pub(crate) async fn events(&self) -> Result<Vec<String>> {
        let events: Api<Event> = Api::default_namespaced(self.client.clone());
        let all = events.list(&ListParams::default()).await?;
        Ok(all.items.into_iter().filter_map(|e| e.reason).collect())
    }

    /// Waits until an Event of this reason says this.
    pub(crate) async fn until_told(&self, reason: &str, message: &str) -> Result<()> {
        let events: Api<Event> = Api::default_namespaced(self.client.clone());
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let all = events.list(&ListParams::default()).await?.items;
            let of = all.iter().filter(|e| e.reason.as_deref() == Some(reason));
            let said: Vec<&str> = of.filter_map(|e| e.message.as_deref()).collect();
            if said.contains(&message) {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "{reason}: {said:?}");
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// The address under which the others know a member.
    pub(crate) async fn address(&self, member: &str) -> Result<String> {
        let services: Api<Service> = Api::default_namespaced(self.client.clone());
        let spec = services.get(member).await?.spec.context("no spec")?;
        spec.cluster_ip.context("no address")
    }

    pub(crate) async fn node_of(&self, member: &str) -> Result<String> {
        let spec = self.pods().get(member).await?.spec.context("no spec")?;
        spec.node_name.context("it is nowhere")
    }

    pub(crate) async fn claim_of(&self, member: &str) -> Result<PersistentVolumeClaim> {
        let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(self.client.clone());
        Ok(claims.get(&format!("data-{member}")).await?)
    }

    /// The one line of a member's record, if it has one.
    pub(crate) async fn record_line(&self, member: &str) -> Result<Option<String>> {
        let name = format!("{member}-autoreplacement-config");
        let record = self.maps().get_opt(&name).await?;
        let data = record.and_then(|map| map.data);
        Ok(data.and_then(|mut data| data.remove("autoreplacement.config")))
    }

    /// Waits until a member's record names this node.
    pub(crate) async fn until_recorded(&self, member: &str, host: &str) -> Result<()> {
        let (deadline, wanted) = (
            Instant::now() + Duration::from_secs(30),
            format!("replace-node-first-boot: {host}\n"),
        );
        loop {
            let line = self.record_line(member).await?;
            if line.as_ref() == Some(&wanted) {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "{member}: {line:?}");
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Does this list of addresses, as `member` answers it, name this one?
    pub(crate) async fn lists(&self, member: &str, path: &str, address: &str) -> Result<bool> {
        let listed = self.rest(member, path).await?;
        Ok(listed
            .as_array()
            .is_some_and(|all| all.iter().any(|a| a == address)))
    }

    /// Waits until all of these members list an address there.
    pub(crate) async fn until_listed(&self, members: &[&str], path: &str, address: &str) -> Result<()> {
        let deadline = Instant::now() + Duration::from_mins(1);
        for member in members {
            while !self.lists(member, path, address).await.unwrap_or(false) {
                ensure!(
                    Instant::now() < deadline,
                    "{member} does not list {address} in {path}"
                );
                sleep(Duration::from_millis(100)).await;
            }
        }
        Ok(())
    }

    /// For long enough nothing is permitted, and the gates of these members hold an empty disk.
    pub(crate) async fn holds(&self, members: &[&str]) -> Result<()> {
        let (before, until) = (self.ledger().await?, Instant::now() + LONG_ENOUGH);
        while Instant::now() < until {
            let ledger = self.ledger().await?;
            ensure!(ledger.grants == before.grants, "{}", ledger.headline());
            let status = self.status().await?;
            for member in members {
                ensure!(gate(&status, member) == "Empty", "{member}: {status:#?}");
            }
            sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }

    /// The new node has the place of the old one, the others agree, and all rows are there.
    pub(crate) async fn is_replaced(&self, member: &str, old: &str) -> Result<()> {
        self.took_the_place(member, old).await?;
        let rows = self.admin(member, "GET", "/rows").await?;
        let rows = rows.as_array().map_or(0, Vec::len);
        ensure!(rows == 20, "{member} has {rows} of 20 rows");
        Ok(())
    }

    /// The new node has the place of the old one, and the others agree.
    pub(crate) async fn took_the_place(&self, member: &str, old: &str) -> Result<()> {
        let new = self.host_of(member).await?;
        ensure!(new != old, "{member} still is {old}");
        let members = self.members.len();
        for other in &self.members {
            let listed = self.rest(other, "/storage_service/host_id").await?;
            let hosts: Vec<&str> = listed
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|pair| pair["value"].as_str())
                .collect();
            ensure!(hosts.len() == members, "{other} lists {hosts:?}");
            ensure!(!hosts.contains(&old), "{other} still lists {old}");
        }
        let effective = self.rest(member, "/v2/config/replace_node_first_boot").await?;
        ensure!(
            effective == old,
            "it was started with {effective}, not with {old}"
        );
        self.until_recorded(member, &new).await?;
        self.understood(member).await
    }

    /// N20: the database knew everything that it was started with.
    pub(crate) async fn understood(&self, member: &str) -> Result<()> {
        let log = self.log(member).await?;
        ensure!(!log.contains("Unknown option"), "{member}: {log}");
        Ok(())
    }
}

/// `mainstay why` names every check of this member once, and those that hold it before all others.
pub(crate) fn every_check_is_named(why: &str, member: &str, held: &[&str]) -> Result<()> {
    let rows = why
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let checks: Vec<(bool, &str)> = rows
        .filter(|words| matches!(words.as_slice(), ["HELD" | "holds", _, of, ..] if *of == member))
        .map(|words| (words[0] == "HELD", words[1]))
        .collect();
    let (first, rest) = checks.split_at_checked(held.len()).context("too few")?;
    ensure!(
        first
            .iter()
            .eq(held.iter().map(|h| (true, *h)).collect::<Vec<_>>().iter()),
        "{why}"
    );
    ensure!(rest.iter().all(|(held, _)| !held), "{why}");
    let mut named: Vec<&str> = checks.iter().map(|(_, name)| *name).collect();
    let mut all: Vec<&str> = Letter::ALL.iter().map(|letter| letter.name()).collect();
    named.sort_unstable();
    all.sort_unstable();
    ensure!(named == all, "{why}");
    Ok(())
}

/// The uid of an object.
pub(crate) fn uid(object: &impl ResourceExt) -> Result<String> {
    object.uid().context("no uid")
}
