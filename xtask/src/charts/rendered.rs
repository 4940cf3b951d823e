//! What the charts render, against what is committed.

use std::fs;

use anyhow::{Context, Result};

use super::{Answer, Helm};

/// One way to install a chart.
struct Case {
    /// Of its snapshot.
    name: &'static str,
    chart: &'static str,
    args: &'static [&'static str],
}

/// The definition of the kind is left out where it is not the question: it has a test of its own, and 800 lines.
const CASES: &[Case] = &[
    Case {
        name: "mainstay",
        chart: "mainstay",
        args: &["--set", "crds.enabled=false"],
    },
    Case {
        name: "mainstay-one-namespace",
        chart: "mainstay",
        args: &[
            "--set",
            "crds.enabled=false,scope=Namespace,watchNamespace=databases,podDisruptionBudget.enabled=false",
        ],
    },
    Case {
        name: "mainstay-everything",
        chart: "mainstay",
        args: &["--values", "xtask/src/charts/everything.yaml"],
    },
    Case {
        name: "memgraph-ha",
        chart: "memgraph-ha",
        args: &[],
    },
    Case {
        name: "memgraph-ha-as-known",
        chart: "memgraph-ha",
        args: &["--values", "charts/memgraph-ha/values-memgraph-ha.yaml"],
    },
    Case {
        name: "memgraph-ha-own-gateways",
        chart: "memgraph-ha",
        args: &[
            "--set",
            "name=other,spec.gateway.enabled=false,networkPolicy.clients[0].podSelector.matchLabels.app=shop",
        ],
    },
];

/// Where rendered and committed differ. With `accept` what is rendered becomes what is committed.
pub(super) fn check(helm: &Helm<'_>, accept: bool) -> Result<Vec<String>> {
    let folder = helm.workspace.root().join("charts/snapshots");
    let mut wrong = Vec::new();
    for Case { name, chart, args } in CASES {
        let text = match helm.template(chart, args)? {
            Answer::Rendered(text) => text,
            Answer::Refused(why) => {
                wrong.push(format!("{name}: not rendered: {}", why.trim()));
                continue;
            }
        };
        let path = folder.join(format!("{name}.yaml"));
        if accept {
            fs::write(&path, &text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        wrong.extend(difference(name, &committed, &text));
    }
    wrong.extend(definition(helm)?);
    println!("{} ways to install rendered", CASES.len());
    Ok(wrong)
}

/// The first line that differs, with its number.
fn difference(name: &str, committed: &str, rendered: &str) -> Option<String> {
    if committed == rendered {
        return None;
    }
    let mut lines = (1..).zip(committed.lines().zip(rendered.lines()));
    let place = lines.find(|(_, (was, is))| was != is).map_or_else(
        || "one of them ends earlier".to_owned(),
        |(line, (was, is))| format!("line {line} was `{was}` and is `{is}`"),
    );
    Some(format!(
        "charts/snapshots/{name}.yaml: {place}; if that is right: cargo xtask charts --accept"
    ))
}

/// The kind is there unless it is not wanted, and stays unless it is not to.
fn definition(helm: &Helm<'_>) -> Result<Vec<String>> {
    const KIND: &str = "kind: CustomResourceDefinition";
    const KEPT: &str = "helm.sh/resource-policy: keep";
    let mut wrong = Vec::new();
    for (set, expected) in [
        ("crds.enabled=true", (true, true)),
        ("crds.keep=false", (true, false)),
        ("crds.enabled=false", (false, false)),
    ] {
        let found = match helm.template("mainstay", &["--set", set])? {
            Answer::Rendered(text) => (text.contains(KIND), text.contains(KEPT)),
            Answer::Refused(why) => {
                wrong.push(format!("{set}: not rendered: {}", why.trim()));
                continue;
            }
        };
        if found != expected {
            wrong.push(format!(
                "{set}: the kind is there and kept: {found:?}, not {expected:?}"
            ));
        }
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_is_named() {
        assert_eq!(difference("x", "a\nb\n", "a\nb\n"), None);
        let found = difference("x", "a\nb\n", "a\nc\n").unwrap();
        assert!(found.contains("line 2 was `b` and is `c`"), "{found}");
        let found = difference("x", "", "a\n").unwrap();
        assert!(found.contains("ends earlier"), "{found}");
    }
}
