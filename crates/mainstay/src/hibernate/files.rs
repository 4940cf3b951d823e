//! Plans and exceptions from files.

use anyhow::{Context, Result, bail};
use api::{HibernatePlan, ScheduleException};
use kube::ResourceExt;
use serde_json::Value;
use std::path::PathBuf;

/// One plan and what is different about it.
#[derive(Debug)]
pub(super) struct Declared {
    pub(super) plan: HibernatePlan,
    pub(super) exceptions: Vec<ScheduleException>,
}

/// Reads every document of every file. There must be one plan; other kinds are passed over.
pub(super) fn read(files: &[PathBuf]) -> Result<Declared> {
    let mut documents = Vec::new();
    for file in files {
        let shown = file.display();
        let text = std::fs::read_to_string(file).with_context(|| format!("{shown} cannot be read"))?;
        let found: Vec<Value> =
            serde_saphyr::from_multiple(&text).with_context(|| format!("{shown} is no YAML"))?;
        documents.extend(found);
    }
    declared(documents)
}

fn declared(documents: Vec<Value>) -> Result<Declared> {
    let (mut plans, mut exceptions): (Vec<HibernatePlan>, Vec<ScheduleException>) = (vec![], vec![]);
    for document in documents {
        match document.get("kind").and_then(Value::as_str) {
            Some("HibernatePlan") => {
                plans.push(serde_json::from_value(document).context("a HibernatePlan cannot be read")?);
            }
            Some("ScheduleException") => {
                exceptions
                    .push(serde_json::from_value(document).context("a ScheduleException cannot be read")?);
            }
            _ => {}
        }
    }
    let Some(plan) = plans.pop() else {
        bail!("there is no HibernatePlan in these files");
    };
    if let Some(other) = plans.pop() {
        bail!(
            "there are two plans, `{}` and `{}`: one at a time",
            other.name_any(),
            plan.name_any()
        );
    }
    exceptions.retain(|e| e.spec.plan_ref.name == plan.name_any());
    Ok(Declared { plan, exceptions })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_and_its_exceptions_are_read_from_documents() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/hibernation");
        let file = |name: &str| folder.join(name);
        let read = read(&[file("staging.yaml"), file("release-night.yaml")]).unwrap();
        assert_eq!(
            (read.plan.name_any().as_str(), read.exceptions.len()),
            ("staging", 1)
        );
        let two = super::read(&[file("staging.yaml"), file("try-it.yaml")]).unwrap_err();
        assert!(two.to_string().contains("two plans"), "{two}");
        let none = super::read(&[file("release-night.yaml")]).unwrap_err();
        assert!(none.to_string().contains("no HibernatePlan"), "{none}");
    }
}
