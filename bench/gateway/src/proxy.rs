//! The gateway that is measured: the crate itself, with one worker, told of its first record over a channel.

use crate::Proxy;
use crate::record::{TOKEN, serving};
use anyhow::Result;
use gateway::{Config, Gateway, Plane, PushToken, Resolve};
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::objects::ClusterName;
use std::future::pending;
use tokio::runtime::Builder;
use tokio::sync::watch;

/// Runs until it is killed.
pub(crate) fn run(arguments: Proxy) -> Result<()> {
    // As the product runs it, except that there is one worker as everybody has here.
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let Proxy {
            listen,
            admin,
            databases,
        } = arguments;
        let cluster: ClusterName = "bench".parse()?;
        let table = (0_u8..)
            .zip(databases)
            .map(|(pod, address)| (cluster.pod_host(Ordinal(pod), "bench"), address));
        let resolve = Resolve::Table(table.collect());
        let mut config = Config::new(cluster.clone(), "bench", "bench");
        config.listen = listen;
        config.admin = admin;
        config.token = PushToken::Fixed(TOKEN.to_owned());
        let (_records, followed) = watch::channel(Some(serving(1, 0)));
        let (told, _confirmed) = watch::channel(None);
        let plane = Plane::Channel {
            records: followed,
            told,
        };
        let _gateway = Gateway::start(config, plane, resolve).await?;
        pending::<Result<()>>().await
    })
}
