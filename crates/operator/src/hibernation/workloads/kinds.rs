//! Which kinds are workloads.

use crate::hibernation::objects::resource;
use kube::api::ApiResource;
use std::fmt;

/// A kind that can be stopped and started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Workload {
    /// Has `spec.replicas`: the number and our annotations go in one write.
    Replicas(&'static str, &'static str),
    /// Has `spec.suspend`.
    CronJob,
    /// Anything else with a scale.
    Scale {
        /// Its group.
        group: String,
        /// Its version.
        version: String,
        /// Its name in paths.
        plural: String,
    },
    /// A KEDA ScaledObject: never selected by itself, only as the scaler of something else.
    Keda,
}

const DEPLOYMENT: Workload = Workload::Replicas("Deployment", "deployments");
const STATEFUL_SET: Workload = Workload::Replicas("StatefulSet", "statefulsets");
const REPLICA_SET: Workload = Workload::Replicas("ReplicaSet", "replicasets");

impl Workload {
    /// What a plan means that names no kinds.
    pub(super) fn usual() -> Vec<Self> {
        vec![DEPLOYMENT, STATEFUL_SET, Self::CronJob]
    }

    /// `Deployment`, or `argoproj.io/v1alpha1/rollouts`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "Deployment" => Some(DEPLOYMENT),
            "StatefulSet" => Some(STATEFUL_SET),
            "ReplicaSet" => Some(REPLICA_SET),
            "CronJob" => Some(Self::CronJob),
            path => Self::by_path(path).filter(|kind| *kind != Self::Keda),
        }
    }

    /// `apps/v1/deployments`.
    pub(super) fn by_path(path: &str) -> Option<Self> {
        let mut parts = path.split('/');
        let (group, version, plural) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() || [group, version, plural].contains(&"") {
            return None;
        }
        Some(match (group, version, plural) {
            ("apps", "v1", "deployments") => DEPLOYMENT,
            ("apps", "v1", "statefulsets") => STATEFUL_SET,
            ("apps", "v1", "replicasets") => REPLICA_SET,
            ("batch", "v1", "cronjobs") => Self::CronJob,
            ("keda.sh", "v1alpha1", "scaledobjects") => Self::Keda,
            _ => Self::Scale {
                group: group.to_owned(),
                version: version.to_owned(),
                plural: plural.to_owned(),
            },
        })
    }

    /// The same back.
    pub(super) fn path(&self) -> String {
        let resource = self.resource();
        format!("{}/{}", resource.api_version, resource.plural)
    }

    /// As the API serves it. What is sent never names the kind of a scaled one, so it need not be known.
    pub(super) fn resource(&self) -> ApiResource {
        match self {
            Self::Replicas(kind, plural) => resource("apps", "v1", kind, plural),
            Self::CronJob => resource("batch", "v1", "CronJob", "cronjobs"),
            Self::Keda => resource("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects"),
            Self::Scale {
                group,
                version,
                plural,
            } => resource(group, version, "", plural),
        }
    }
}

/// As people write it.
impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scale { .. } => f.write_str(&self.path()),
            Self::Replicas(..) | Self::CronJob | Self::Keda => f.write_str(&self.resource().kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_and_written_the_same() {
        for kind in [
            DEPLOYMENT,
            STATEFUL_SET,
            REPLICA_SET,
            Workload::CronJob,
            Workload::Keda,
        ] {
            assert_eq!(Workload::by_path(&kind.path()), Some(kind));
        }
        let rollouts = Workload::parse("argoproj.io/v1alpha1/rollouts").unwrap();
        assert_eq!(rollouts.path(), "argoproj.io/v1alpha1/rollouts");
        assert_eq!(Workload::parse("Deployment"), Some(DEPLOYMENT));
        for bad in [
            "",
            "DaemonSet",
            "a/b",
            "a//c",
            "a/b/c/d",
            "keda.sh/v1alpha1/scaledobjects",
        ] {
            assert_eq!(Workload::parse(bad), None, "{bad}");
        }
    }
}
