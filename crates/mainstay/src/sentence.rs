//! An error as a person is told of it.

/// The causes, outermost first, each said once.
///
/// Libraries repeat a cause in their own words, so that a whole chain says everything twice; and kube shows a refusal of the
/// API server with its `Status` as Rust prints it, in which the one sentence that matters cannot be found at night.
pub(crate) fn sentence(error: &anyhow::Error) -> String {
    let mut said = String::new();
    for cause in error.chain() {
        let refused = match cause.downcast_ref::<kube::Error>() {
            Some(kube::Error::Api(status)) => Some(status.message.clone()),
            _ => None,
        };
        let text = refused.clone().unwrap_or_else(|| cause.to_string());
        if !said.contains(&text) {
            let between = if said.is_empty() { "" } else { ": " };
            said = format!("{said}{between}{text}");
        }
        // What follows is the same refusal again.
        if refused.is_some() {
            break;
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context as _, anyhow};
    use kube::core::Status;

    #[test]
    fn a_refusal_of_the_api_server_is_what_it_said_and_nothing_else() {
        let status =
            Status::failure("memgraphclusters.mainstay.dev is forbidden", "Forbidden").with_code(403);
        let error = Err::<(), _>(kube::Error::Api(Box::new(status)));
        let error = error.context("clusters cannot be listed").unwrap_err();
        assert_eq!(
            sentence(&error),
            "clusters cannot be listed: memgraphclusters.mainstay.dev is forbidden"
        );
    }

    #[test]
    fn a_cause_that_is_in_the_words_before_it_is_not_repeated() {
        let error = anyhow!("no such file")
            .context("the file cannot be read (no such file)")
            .context("no Kubernetes");
        assert_eq!(
            sentence(&error),
            "no Kubernetes: the file cannot be read (no such file)"
        );
    }

    #[test]
    fn every_other_cause_is_said() {
        let error = anyhow!("refused").context("cannot connect").context("no answer");
        assert_eq!(sentence(&error), "no answer: cannot connect: refused");
    }
}
