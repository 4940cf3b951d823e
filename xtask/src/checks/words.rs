//! Words that have no place in a finished file.

/// Each with what to do instead. Written in halves, so that this file passes
/// its own check.
const FORBIDDEN: &[(&str, &str)] = &[
    (
        concat!("TO", "DO"),
        "do it, or name the limit in the documentation",
    ),
    (
        concat!("FIX", "ME"),
        "fix it, or name the limit in the documentation",
    ),
    (concat!("XX", "X"), "say what is wrong"),
    (concat!("DO NOT ", "MERGE"), "then it is not ready"),
];

/// Further words, separated by commas and compared without case: names a team
/// must keep out of a public file, and therefore out of this one too.
const VARIABLE: &str = "MAINSTAY_FORBIDDEN_WORDS";

/// The words to look for.
#[derive(Debug)]
pub(crate) struct Words {
    further: Vec<String>,
}

impl Words {
    pub(crate) fn from_environment() -> Self {
        Self::with_further(&std::env::var(VARIABLE).unwrap_or_default())
    }

    pub(crate) fn with_further(list: &str) -> Self {
        let further = list
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect();
        Self { further }
    }

    /// The first forbidden word of a line, with what to do about it.
    pub(crate) fn find(&self, line: &str) -> Option<(&str, &'static str)> {
        if let Some((word, advice)) = FORBIDDEN.iter().find(|(word, _)| has_word(line, word)) {
            return Some((word, advice));
        }
        let lower = line.to_lowercase();
        let word = self.further.iter().find(|word| has_word(&lower, word))?;
        Some((word, "named by the environment of this run"))
    }
}

/// Whether the word stands alone: `XXXXXX` of a mktemp template is another word.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line.get(..at).and_then(|s| s.chars().next_back());
        let after = line.get(at + word.len()..).and_then(|s| s.chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_only_where_it_stands_alone() {
        assert!(has_word("// ABC: later", "ABC"));
        assert!(has_word("ABC", "ABC"));
        assert!(!has_word("mktemp ABCABC", "ABC"));
        assert!(!has_word("MY_ABC", "ABC"));
        assert!(has_word("ABCD, ABC.", "ABC"));
    }

    #[test]
    fn the_built_in_words_are_found_with_advice() {
        let words = Words::with_further("");
        let line = format!("// {}{}: later", "TO", "DO");
        assert!(
            words
                .find(&line)
                .is_some_and(|(_, advice)| advice.starts_with("do it"))
        );
        assert_eq!(words.find("// todos are listed"), None);
    }

    #[test]
    fn further_words_are_compared_without_case() {
        let words = Words::with_further(" Acme , ,widget inc");
        assert_eq!(words.find("made by ACME.").map(|(word, _)| word), Some("acme"));
        assert_eq!(
            words.find("see Widget Inc, page 2").map(|(word, _)| word),
            Some("widget inc")
        );
        assert_eq!(words.find("nothing"), None);
    }
}
