//! Which kinds are served, under which names.

use std::sync::Arc;

use serde_json::Value;

/// A kind that is stored. Built-in kinds have constants, custom ones are
/// numbered as their definitions come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(u16);

/// A column of `kubectl get`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) format: String,
    pub(crate) path: String,
    pub(crate) priority: i64,
}

/// Where `scale` finds its numbers, as JSON pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    pub(crate) spec: String,
    pub(crate) status: String,
    pub(crate) selector: String,
}

/// One version of a kind.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) name: String,
    pub(crate) served: bool,
    pub(crate) status: bool,
    pub(crate) scale: Option<Scale>,
    /// Only custom kinds have one.
    pub(crate) schema: Option<Value>,
    pub(crate) columns: Vec<Column>,
    pub(crate) selectable: Vec<String>,
}

/// What is known about a kind.
#[allow(
    clippy::struct_excessive_bools,
    reason = "four independent facts, each read alone"
)]
#[derive(Clone, Debug)]
pub struct KindInfo {
    /// Empty for the core group.
    pub group: String,
    /// `Pod`
    pub kind: String,
    /// `pods`
    pub plural: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    pub(crate) singular: String,
    pub(crate) short: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) custom: bool,
    /// Whether the server counts changes of the spec.
    pub(crate) generation: bool,
    /// The first is the one that is stored.
    pub(crate) versions: Vec<Version>,
    /// The definition is gone; its number stays taken, because a watch may hold it.
    pub(crate) gone: bool,
}

impl KindInfo {
    /// `widgets.example.com`, as messages name it.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// The `apiVersion` of one of its versions.
    pub(crate) fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() {
            version.to_owned()
        } else {
            format!("{}/{version}", self.group)
        }
    }

    pub(crate) fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// The `apiVersion` that is stored.
    pub(crate) fn stored_as(&self) -> String {
        self.versions
            .first()
            .map_or_else(String::new, |version| self.api_version(&version.name))
    }
}

struct BuiltIn {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static str,
    /// n: namespaced, s: status, c: scale, g: generation, a: in the category "all".
    flags: &'static str,
}

macro_rules! built_in {
    ($($(#[$doc:meta])* $constant:ident = $group:literal $version:literal $kind:literal $plural:literal $short:literal $flags:literal;)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Number { $($constant),* }
        impl Kind {
            $(
                #[doc = concat!("`", $kind, "` of `", $group, "/", $version, "`")]
                pub const $constant: Self = Self(Number::$constant as u16);
            )*
        }
        const BUILT_IN: &[BuiltIn] = &[
            $(BuiltIn { group: $group, version: $version, kind: $kind, plural: $plural, short: $short, flags: $flags }),*
        ];
    };
}

built_in! {
    NAMESPACE = "" "v1" "Namespace" "namespaces" "ns" "s";
    NODE = "" "v1" "Node" "nodes" "no" "s";
    POD = "" "v1" "Pod" "pods" "po" "nsga";
    SERVICE = "" "v1" "Service" "services" "svc" "nsa";
    ENDPOINTS = "" "v1" "Endpoints" "endpoints" "ep" "n";
    CONFIG_MAP = "" "v1" "ConfigMap" "configmaps" "cm" "n";
    SECRET = "" "v1" "Secret" "secrets" "" "n";
    SERVICE_ACCOUNT = "" "v1" "ServiceAccount" "serviceaccounts" "sa" "n";
    PERSISTENT_VOLUME = "" "v1" "PersistentVolume" "persistentvolumes" "pv" "s";
    PERSISTENT_VOLUME_CLAIM = "" "v1" "PersistentVolumeClaim" "persistentvolumeclaims" "pvc" "ns";
    EVENT = "" "v1" "Event" "events" "ev" "n";
    STATEFUL_SET = "apps" "v1" "StatefulSet" "statefulsets" "sts" "nscga";
    DEPLOYMENT = "apps" "v1" "Deployment" "deployments" "deploy" "nscga";
    REPLICA_SET = "apps" "v1" "ReplicaSet" "replicasets" "rs" "nscga";
    DAEMON_SET = "apps" "v1" "DaemonSet" "daemonsets" "ds" "nsga";
    CONTROLLER_REVISION = "apps" "v1" "ControllerRevision" "controllerrevisions" "" "n";
    LEASE = "coordination.k8s.io" "v1" "Lease" "leases" "" "n";
    POD_DISRUPTION_BUDGET = "policy" "v1" "PodDisruptionBudget" "poddisruptionbudgets" "pdb" "nsg";
    ENDPOINT_SLICE = "discovery.k8s.io" "v1" "EndpointSlice" "endpointslices" "" "n";
    ROLE = "rbac.authorization.k8s.io" "v1" "Role" "roles" "" "n";
    ROLE_BINDING = "rbac.authorization.k8s.io" "v1" "RoleBinding" "rolebindings" "" "n";
    CLUSTER_ROLE = "rbac.authorization.k8s.io" "v1" "ClusterRole" "clusterroles" "" "";
    CLUSTER_ROLE_BINDING = "rbac.authorization.k8s.io" "v1" "ClusterRoleBinding" "clusterrolebindings" "" "";
    CUSTOM_RESOURCE_DEFINITION = "apiextensions.k8s.io" "v1" "CustomResourceDefinition" "customresourcedefinitions" "crd,crds" "sg";
    JOB = "batch" "v1" "Job" "jobs" "" "nsga";
    CRON_JOB = "batch" "v1" "CronJob" "cronjobs" "cj" "nsga";
    STORAGE_CLASS = "storage.k8s.io" "v1" "StorageClass" "storageclasses" "sc" "";
    PRIORITY_CLASS = "scheduling.k8s.io" "v1" "PriorityClass" "priorityclasses" "pc" "";
    NETWORK_POLICY = "networking.k8s.io" "v1" "NetworkPolicy" "networkpolicies" "netpol" "ng";
}

/// What a path's group, version and resource stand for.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    pub(crate) kind: Kind,
    pub(crate) version: String,
    /// Events are one kind with two faces.
    pub(crate) as_new_event: bool,
}

/// All kinds, by number.
#[derive(Clone, Debug)]
pub(crate) struct Registry(Vec<Arc<KindInfo>>);

impl Registry {
    pub(crate) fn new() -> Self {
        Self(BUILT_IN.iter().map(described).map(Arc::new).collect())
    }

    pub(crate) fn info(&self, kind: Kind) -> Option<&Arc<KindInfo>> {
        self.0.get(usize::from(kind.0))
    }

    /// Every kind that is served now.
    pub(crate) fn served(&self) -> impl Iterator<Item = (Kind, &Arc<KindInfo>)> {
        (0..).map(Kind).zip(&self.0).filter(|(_, info)| !info.gone)
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<Resource> {
        let as_new_event = group == "events.k8s.io" && plural == "events";
        let group = if as_new_event { "" } else { group };
        let (kind, _) = self.served().find(|(_, info)| {
            info.group == group
                && info.plural == plural
                && info.version(version).is_some_and(|version| version.served)
        })?;
        Some(Resource {
            kind,
            version: version.to_owned(),
            as_new_event,
        })
    }

    /// By group and kind, as owner references and scale targets name it.
    pub(crate) fn by_kind(&self, group: &str, kind: &str) -> Option<Kind> {
        self.served()
            .find(|(_, info)| info.group == group && info.kind == kind)
            .map(|(kind, _)| kind)
    }

    /// Serve a custom kind, new or changed.
    pub(crate) fn define(&mut self, info: KindInfo) -> Option<Kind> {
        let same = |known: &Arc<KindInfo>| known.group == info.group && known.plural == info.plural;
        if let Some(at) = self.0.iter().position(same) {
            let known = self.0.get_mut(at)?;
            if known.custom {
                *known = Arc::new(info);
            }
            return u16::try_from(at).ok().map(Kind);
        }
        let kind = Kind(u16::try_from(self.0.len()).ok()?);
        self.0.push(Arc::new(info));
        Some(kind)
    }

    /// No longer serve a custom kind. Its number stays: a watch may still hold it.
    pub(crate) fn forget(&mut self, group: &str, plural: &str) {
        for info in &mut self.0 {
            if info.custom && info.group == group && info.plural == plural {
                Arc::make_mut(info).gone = true;
            }
        }
    }
}

fn described(built_in: &BuiltIn) -> KindInfo {
    let has = |flag| built_in.flags.contains(flag);
    let scale = has('c').then(|| Scale {
        spec: "/spec/replicas".to_owned(),
        status: "/status/replicas".to_owned(),
        selector: "/spec/selector".to_owned(),
    });
    KindInfo {
        group: built_in.group.to_owned(),
        kind: built_in.kind.to_owned(),
        plural: built_in.plural.to_owned(),
        namespaced: has('n'),
        singular: built_in.kind.to_lowercase(),
        short: built_in
            .short
            .split(',')
            .filter(|short| !short.is_empty())
            .map(str::to_owned)
            .collect(),
        categories: has('a').then(|| "all".to_owned()).into_iter().collect(),
        custom: false,
        generation: has('g'),
        versions: vec![Version {
            name: built_in.version.to_owned(),
            served: true,
            status: has('s'),
            scale,
            schema: None,
            columns: Vec::new(),
            selectable: Vec::new(),
        }],
        gone: false,
    }
}
