use proptest::prelude::*;

use super::*;
use crate::kube::controllers::View;
use crate::kube::controllers::object::{items, number, text};

/// What people, processes and machines do.
#[derive(Debug, Clone)]
enum Happening {
    Scale(i64),
    Template(u8),
    DeletePod(usize),
    DeleteClaim(usize),
    Ready(usize),
    NotReady(usize),
    Fails(usize),
    Ends(usize),
    Cordon(usize, bool),
    Silence(usize),
    Time(i64),
    Settle,
    OneTurn,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        (0..5i64).prop_map(Happening::Scale),
        (0..3u8).prop_map(Happening::Template),
        any::<usize>().prop_map(Happening::DeletePod),
        any::<usize>().prop_map(Happening::DeleteClaim),
        any::<usize>().prop_map(Happening::Ready),
        any::<usize>().prop_map(Happening::NotReady),
        any::<usize>().prop_map(Happening::Fails),
        any::<usize>().prop_map(Happening::Ends),
        (any::<usize>(), any::<bool>()).prop_map(|(node, cordoned)| Happening::Cordon(node, cordoned)),
        any::<usize>().prop_map(Happening::Silence),
        (1..200i64).prop_map(Happening::Time),
        Just(Happening::Settle),
        Just(Happening::OneTurn),
    ]
}

const NODES: [&str; 3] = ["n1", "n2", "n3"];

impl World {
    fn some_pod(&self, number: usize, fits: impl Fn(&Value) -> bool) -> Option<String> {
        let pods: Vec<_> = self.pods().into_iter().filter(|pod| fits(pod)).collect();
        let pod = pods.get(number.checked_rem(pods.len())?)?;
        Some(name_of(pod).to_owned())
    }

    fn happen(&mut self, happening: &Happening, silent: &mut Vec<&'static str>) {
        let placed = |pod: &Value| !text(pod, "/spec/nodeName").is_empty();
        match happening {
            Happening::Scale(replicas) => {
                self.change(Kind::StatefulSet, "db", &["spec", "replicas"], json!(replicas));
            }
            Happening::Template(number) => {
                self.change(
                    Kind::StatefulSet,
                    "db",
                    IMAGE,
                    containers(&format!("image-{number}")),
                );
            }
            Happening::DeletePod(number) => {
                if let Some(pod) = self.some_pod(*number, |_| true) {
                    self.delete(Kind::Pod, &pod);
                }
            }
            Happening::DeleteClaim(number) => {
                let claims: Vec<_> = View::list(&self.store, Kind::PersistentVolumeClaim)
                    .into_iter()
                    .map(|claim| name_of(claim).to_owned())
                    .collect();
                if let Some(claim) = number.checked_rem(claims.len()).and_then(|at| claims.get(at)) {
                    self.delete(Kind::PersistentVolumeClaim, claim);
                }
            }
            Happening::Ready(number) | Happening::NotReady(number) | Happening::Fails(number) => {
                if let Some(pod) = self.some_pod(*number, placed) {
                    let (phase, ready) = match happening {
                        Happening::Ready(_) => ("Running", true),
                        Happening::Fails(_) => ("Failed", false),
                        _ => ("Running", false),
                    };
                    self.report(&pod, phase, ready);
                }
            }
            Happening::Ends(number) => {
                if let Some(pod) = self.some_pod(*number, is_deleting) {
                    let target = Target::of(self.get(Kind::Pod, &pod));
                    self.write(&Write::Delete {
                        target,
                        grace: Some(0),
                    });
                }
            }
            Happening::Cordon(number, cordoned) => {
                let node = NODES[number % NODES.len()];
                self.change(Kind::Node, node, &["spec", "unschedulable"], json!(cordoned));
            }
            Happening::Silence(number) => silent.push(NODES[number % NODES.len()]),
            Happening::Time(seconds) => {
                self.pass(*seconds);
                for node in NODES.iter().filter(|node| !silent.contains(node)) {
                    self.heartbeat(node);
                }
            }
            Happening::Settle => {
                self.settle();
            }
            Happening::OneTurn => {
                for write in reconcile(self.now, &self.settings, &self.store).writes {
                    self.write(&write);
                }
            }
        }
    }

    fn recover(&mut self) {
        for node in NODES {
            self.heartbeat(node);
            let conditions = with_condition(self.get(Kind::Node, node), self.now, "Ready", "True", "", "");
            let status = with(self.get(Kind::Node, node), &["status", "conditions"], conditions);
            self.write(&Write::ReplaceStatus(status));
            self.change(Kind::Node, node, &["spec", "unschedulable"], json!(false));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happened_a_set_ends_as_it_was_asked(
        parallel in any::<bool>(),
        happenings in prop::collection::vec(happening(), 0..60),
    ) {
        let mut world = World::new(&NODES);
        let policy = if parallel { "Parallel" } else { "OrderedReady" };
        world.create(with(&stateful_set(3), &["spec", "podManagementPolicy"], json!(policy)));
        let mut silent = Vec::new();
        for happening in &happenings {
            world.happen(happening, &mut silent);
            for pod in world.pods() {
                prop_assert!(name_of(pod).starts_with("db-"));
            }
        }
        world.recover();
        world.finish();
        // An ordered set waits for a broken pod; somebody deletes it, as documented.
        let set = world.get(Kind::StatefulSet, "db").clone();
        let wanted = number(&set, "/spec/replicas").unwrap();
        let expected: Vec<_> = (0..wanted).map(|ordinal| format!("db-{ordinal}")).collect();
        prop_assert_eq!(world.names(), expected);
        for pod in world.pods() {
            prop_assert!(is_ready(pod) && !is_deleting(pod));
            prop_assert_eq!(image(pod), text(&set, "/spec/template/spec/containers/0/image"));
            let claim = text(pod, "/spec/volumes/0/persistentVolumeClaim/claimName");
            let claim = world.get(Kind::PersistentVolumeClaim, claim);
            prop_assert!(text(claim, "/status/phase") == "Bound" && world.find(Kind::PersistentVolume, text(claim, "/spec/volumeName")).is_some());
        }
        for volume in View::list(&world.store, Kind::PersistentVolume) {
            let claim = text(volume, "/spec/claimRef/name");
            prop_assert!(world.find(Kind::PersistentVolumeClaim, claim).is_some(), "{} belongs to nobody", name_of(volume));
        }
        prop_assert_eq!(items(&set, "/metadata/finalizers").len(), 0);
    }
}
