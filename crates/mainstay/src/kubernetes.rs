//! Which Kubernetes a command talks to.

use crate::sandbox::found::{Description, find};
use anyhow::{Context, Result};
use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// That of a file; without one the pod's own service account, or what kubectl would use. Nothing is tried again by
/// the client itself: what is tried again, and when, is decided by whoever asks, and kube would go on for minutes.
pub(crate) async fn client(kubeconfig: Option<&Path>) -> Result<Client> {
    let mut config = config(kubeconfig).await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// How that Kubernetes is reached.
pub(crate) async fn config(kubeconfig: Option<&Path>) -> Result<Config> {
    Ok(match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?
        }
        None => Config::infer()
            .await
            .context("no Kubernetes: neither a service account nor a kubeconfig")?,
    })
}

/// Which Kubernetes a person means.
// Not from the environment: KUBECONFIG may be a list of paths, which only kube's own search reads as kubectl does.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Meant {
    /// A kubeconfig; without it a sandbox that runs, or what kubectl would use.
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig, and no sandbox; without it the current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// Whom a command means if a sandbox runs and KUBECONFIG is exported, and nothing was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Both {
    /// The sandbox: it says itself what to ask it next, and a wrong answer does no harm, as it says who gave it.
    Sandbox,
    /// Neither. Names are the same in many clusters: what somebody saw of the sandbox must not be done to the cluster that
    /// he exported, nor the other way round.
    Neither,
    /// What was exported, as plans have it: no sandbox has any of its own.
    Exported,
}

/// Which one it is.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    File(PathBuf),
    Sandbox {
        folder: PathBuf,
        kubeconfig: PathBuf,
    },
    /// What was exported; or that in the home, if a context of it was named.
    Usual,
    /// The same, or a pod's own service account.
    Inferred,
}

impl Place {
    fn of(found: Description) -> Self {
        Self::Sandbox {
            folder: found.folder,
            kubeconfig: found.kubeconfig,
        }
    }
}

/// Two could be meant.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "KUBECONFIG is exported and a sandbox runs in {folder}: say which is meant with --kubeconfig PATH (that of the sandbox is {kubeconfig}) or with --context NAME"
)]
struct TwoAreMeant {
    folder: PathBuf,
    kubeconfig: PathBuf,
}

impl Meant {
    /// Does it say which, without a look at sandboxes?
    const fn is_said(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    fn place(&self, exported: bool, sandbox: Option<Description>, both: Both) -> Result<Place, TwoAreMeant> {
        if let Some(path) = &self.kubeconfig {
            return Ok(Place::File(path.clone()));
        }
        // No sandbox has the context that was named.
        let sandbox = sandbox.filter(|_| self.context.is_none());
        match (sandbox, both) {
            (Some(found), Both::Neither) if exported => Err(TwoAreMeant {
                folder: found.folder,
                kubeconfig: found.kubeconfig,
            }),
            (Some(found), Both::Sandbox | Both::Neither) => Ok(Place::of(found)),
            (Some(found), Both::Exported) if !exported => Ok(Place::of(found)),
            _ if exported || self.context.is_some() => Ok(Place::Usual),
            _ => Ok(Place::Inferred),
        }
    }

    fn options(&self) -> KubeConfigOptions {
        KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        }
    }

    /// How it is reached, and what it is called.
    async fn reach(&self, place: Place) -> Result<(Config, String)> {
        let from = |path: &Path| {
            Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read the kubeconfig {}", path.display()))
        };
        let file = match &place {
            Place::File(path) => Some(from(path)?),
            Place::Sandbox { kubeconfig, .. } => Some(from(kubeconfig)?),
            Place::Usual => Some(Kubeconfig::read().context("cannot read the kubeconfig")?),
            Place::Inferred => Kubeconfig::read().ok(),
        };
        let current = file.as_ref().and_then(|file| file.current_context.clone());
        let config = match (&place, file) {
            (Place::Inferred, _) | (_, None) => config(None).await?,
            (_, Some(file)) => Config::from_custom_kubeconfig(file, &self.options()).await?,
        };
        let name = match place {
            Place::Sandbox { folder, .. } => format!("the sandbox in {}", folder.display()),
            _ => named(&config.cluster_url.to_string(), self.context.clone().or(current)),
        };
        Ok((config, name))
    }

    /// For people: a file, a sandbox that runs, or what kubectl would use. Unless it is to be `quiet`, it says which.
    pub(crate) async fn client(&self, both: Both, quiet: bool) -> Result<Client> {
        install_tls();
        let exported = std::env::var_os("KUBECONFIG").is_some_and(|paths| !paths.is_empty());
        let sandbox = if self.is_said() {
            None
        } else {
            find(None).await.ok()
        };
        let (mut config, name) = self.reach(self.place(exported, sandbox, both)?).await?;
        if !quiet {
            eprintln!("asking {name}");
        }
        config.default_retry = false;
        Ok(Client::try_from(config)?)
    }
}

fn named(url: &str, context: Option<String>) -> String {
    let url = url.trim_end_matches('/');
    context.map_or_else(|| url.to_owned(), |context| format!("{url} (context {context})"))
}

/// One TLS provider; whoever installed it before chose the same one.
pub(crate) fn install_tls() {
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running() -> Description {
        Description {
            folder: "/tmp/s".into(),
            pid: 1,
            bolt: "127.0.0.1:7687".parse().unwrap(),
            reads: "127.0.0.1:7688".parse().unwrap(),
            kubeconfig: "/tmp/s/kubeconfig".into(),
            control: "/tmp/s/control".into(),
            namespace: "default".to_owned(),
            cluster: "memgraph-ha".to_owned(),
            stand_ins: true,
            replication_port: None,
        }
    }

    fn meant(kubeconfig: Option<&str>, context: Option<&str>) -> Meant {
        Meant {
            kubeconfig: kubeconfig.map(PathBuf::from),
            context: context.map(str::to_owned),
        }
    }

    #[test]
    fn a_file_goes_before_a_sandbox_and_a_sandbox_before_what_was_exported() {
        let asked = |meant: &Meant, exported, sandbox| meant.place(exported, sandbox, Both::Sandbox).unwrap();
        let silent = meant(None, None);
        let there = Place::Sandbox {
            folder: "/tmp/s".into(),
            kubeconfig: "/tmp/s/kubeconfig".into(),
        };
        let file = Place::File("/k".into());
        assert_eq!(asked(&meant(Some("/k"), None), true, Some(running())), file);
        assert_eq!(asked(&silent, true, Some(running())), there);
        assert_eq!(asked(&silent, false, Some(running())), there);
        assert_eq!(asked(&silent, true, None), Place::Usual);
        assert_eq!(asked(&silent, false, None), Place::Inferred);
        let context = meant(None, Some("prod"));
        assert_eq!(
            asked(&context, false, Some(running())),
            Place::Usual,
            "no sandbox has it"
        );
    }

    #[test]
    fn what_changes_something_never_chooses_between_a_sandbox_and_what_was_exported() {
        let silent = meant(None, None);
        let refused = silent.place(true, Some(running()), Both::Neither).unwrap_err();
        let said = refused.to_string();
        for part in ["--kubeconfig", "--context", "/tmp/s/kubeconfig"] {
            assert!(said.contains(part), "{said}");
        }
        assert!(matches!(
            silent.place(false, Some(running()), Both::Neither),
            Ok(Place::Sandbox { .. })
        ));
        assert_eq!(silent.place(true, None, Both::Neither), Ok(Place::Usual));
        let said = [meant(Some("/k"), None), meant(None, Some("prod"))];
        assert!(
            said.iter()
                .all(|m| m.place(true, Some(running()), Both::Neither).is_ok())
        );
        assert_eq!(
            silent.place(true, Some(running()), Both::Exported),
            Ok(Place::Usual)
        );
    }

    /// A kubeconfig with these contexts, each of which is a cluster of that name.
    fn kubeconfig(contexts: &[&str]) -> Kubeconfig {
        let each = |text: &dyn Fn(&str) -> String| contexts.iter().map(|c| text(c)).collect::<String>();
        let first = contexts.first().unwrap();
        let clusters = each(&|c| format!("- name: {c}\n  cluster: {{ server: 'https://{c}.example' }}\n"));
        let named = each(&|c| format!("- name: {c}\n  context: {{ cluster: {c}, user: u }}\n"));
        Kubeconfig::from_yaml(&format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: {first}\nclusters:\n{clusters}contexts:\n{named}"
        ))
        .unwrap()
    }

    #[test]
    fn a_list_of_paths_is_left_to_the_search_that_can_read_it() {
        let command = Meant::augment_args(clap::Command::new("status"));
        assert!(
            command
                .get_arguments()
                .all(|argument| argument.get_env().is_none())
        );
    }

    #[tokio::test]
    async fn the_context_that_is_named_is_asked_and_the_answer_says_whose_it_is() {
        install_tls();
        let path = std::env::temp_dir().join(format!("mainstay-contexts-{}", std::process::id()));
        let text = serde_json::to_string(&kubeconfig(&["dev", "prod"])).unwrap();
        std::fs::write(&path, text).unwrap();
        let file = path.to_str();
        let name = async |context| {
            let meant = meant(file, context);
            let place = meant.place(false, None, Both::Sandbox).unwrap();
            meant.reach(place).await.map(|(_, name)| name)
        };
        let found = [
            name(None).await.unwrap(),
            name(Some("prod")).await.unwrap(),
            name(Some("none")).await.unwrap_err().to_string(),
        ];
        std::fs::remove_file(&path).unwrap();
        assert_eq!(found[0], "https://dev.example (context dev)");
        assert_eq!(found[1], "https://prod.example (context prod)");
        assert!(found[2].contains("none"), "{}", found[2]);
        assert_eq!(named("https://10.0.0.1/", None), "https://10.0.0.1");
    }
}
