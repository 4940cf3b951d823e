//! Gateways: the real gate, one session each.

use super::Doing;
use super::observe::core_role;
use super::state::State;

impl State {
    /// Reads the record, cuts if the route changed, then confirms.
    pub(super) fn gateway_reads(&mut self, doing: &mut Doing<'_>, number: u8) {
        let Some(record) = self.record.clone() else { return };
        let Some(gateway) = self.gateways.get_mut(usize::from(number)) else {
            return;
        };
        let Some(verdict) = gateway.gate.on_record(&record) else {
            return;
        };
        doing.note(|| format!("confirms {} {}", verdict.confirm.0, verdict.confirm.1));
        if verdict.cut {
            gateway.session = None;
            for pod in &mut self.pods {
                if let Some(waiting) = pod.waiting.as_mut().filter(|w| w.gateway == Some(number)) {
                    waiting.gateway = None;
                }
            }
        }
    }

    /// Connects, and checks role and mark on that very connection (R10).
    pub(super) fn gateway_connects(&mut self, doing: &mut Doing<'_>, number: u8) {
        let rules = doing.config.rules();
        let Some(gateway) = self.gateways.get(usize::from(number)) else {
            return;
        };
        let Some(route) = gateway.gate.route() else { return };
        let Some(pod) = self.pod(route.pod.0).filter(|p| p.alive && !p.hung) else {
            return;
        };
        let admitted = gateway
            .gate
            .admits(rules, core_role(pod.db.role()), pod.db.store().mark);
        let session = admitted.then_some((route.pod.0, pod.run));
        doing.note(|| {
            if admitted {
                "admitted".to_owned()
            } else {
                "refused".to_owned()
            }
        });
        if let Some(gateway) = self.gateways.get_mut(usize::from(number)) {
            gateway.session = session;
        }
    }
}
