//! Rules about single files.
//!
//! Patterns are written in halves here and in the tests, so that this file
//! passes its own check.

use super::Violation;
use super::files::TextFile;
use super::words::Words;

/// A hard end for what the house rule calls about 500 lines.
const MAX_LINES: usize = 700;

/// Code that says it is not there yet. Clippy knows them too, except behind a
/// `cfg` that it does not build.
const UNFINISHED: &[&str] = &[concat!("todo", "!("), concat!("unimplemented", "!(")];

/// A test that is not run; it must say why.
const IGNORED: &str = concat!("#[", "ignore");

/// Folders of somebody's machine.
const MACHINE_PATHS: &[&str] = &[
    concat!("/", "home/"),
    concat!("/", "root/"),
    concat!("/", "work/"),
    concat!("/", "Users/"),
];

/// Texts that are not ours: names in them prove nothing.
const FOREIGN: &[&str] = &["Cargo.lock", "LICENSE"];

/// What a newcomer types, in this order. The README must show both.
const COMMANDS: [&str; 2] = ["cargo run --release -- sandbox", "cargo xtask test"];

/// All rules of this file.
pub(crate) fn check(files: &[TextFile], words: &Words) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in files.iter().filter(|file| !FOREIGN.contains(&file.path.as_str())) {
        violations.extend(lines(file, words));
        if is_rust(file) {
            violations.extend(length(file));
        }
    }
    violations.extend(readme(text_of(files, "README.md")));
    violations.extend(ci(text_of(files, ".ci/run")));
    violations
}

fn is_rust(file: &TextFile) -> bool {
    file.path
        .rsplit_once('.')
        .is_some_and(|(_, extension)| extension == "rs")
}

fn text_of<'a>(files: &'a [TextFile], path: &str) -> Option<&'a str> {
    files
        .iter()
        .find(|file| file.path == path)
        .map(|file| file.text.as_str())
}

fn length(file: &TextFile) -> Option<Violation> {
    let lines = file.text.lines().count();
    (lines > MAX_LINES).then(|| {
        Violation(format!(
            "{}: {lines} lines, at most {MAX_LINES}: split it by concept",
            file.path
        ))
    })
}

fn lines(file: &TextFile, words: &Words) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (number, line) in (1..).zip(file.text.lines()) {
        let mut report = |what: String| violations.push(Violation(format!("{}:{number}: {what}", file.path)));
        if is_rust(file) {
            if let Some(macro_call) = UNFINISHED.iter().find(|pattern| line.contains(**pattern)) {
                report(format!("`{macro_call}` is not a finished program"));
            }
            if is_ignored_without_reason(line) {
                report("an ignored test needs its reason: `= \"why\"`".to_owned());
            }
        }
        if let Some(path) = machine_path(line) {
            report(format!("`{path}` exists on one machine only"));
        }
        if let Some((word, advice)) = words.find(line) {
            report(format!("`{word}`: {advice}"));
        }
    }
    violations
}

fn is_ignored_without_reason(line: &str) -> bool {
    let Some((_, rest)) = line.split_once(IGNORED) else {
        return false;
    };
    // `#[ignored_by(..)]` of somebody else's macro.
    if rest.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
        return false;
    }
    let reason = rest
        .trim_start()
        .strip_prefix('=')
        .and_then(|rest| rest.trim_start().strip_prefix('"'))
        .and_then(|rest| rest.split_once('"'))
        .map(|(reason, _)| reason.trim());
    reason.is_none_or(str::is_empty)
}

/// A machine path at the start of a path: in `https://host/x/` and `docs/x/`
/// the same letters are harmless.
fn machine_path(line: &str) -> Option<&'static str> {
    let is_path = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '~' | '}' | ')' | '*');
    MACHINE_PATHS.iter().copied().find(|path| {
        line.match_indices(path).any(|(at, _)| {
            let before = line.get(..at).and_then(|s| s.chars().next_back());
            !before.is_some_and(is_path)
        })
    })
}

fn readme(text: Option<&str>) -> Option<Violation> {
    let [first, second] = COMMANDS;
    let in_order = text.is_some_and(|text| {
        text.split_once(first)
            .is_some_and(|(_, after)| after.contains(second))
    });
    (!in_order).then(|| Violation(format!("README.md: must show `{first}`, then `{second}`")))
}

fn ci(text: Option<&str>) -> Option<Violation> {
    let [_, command] = COMMANDS;
    let called = text.is_some_and(|text| {
        text.lines().any(|line| {
            let line = line.trim();
            line.strip_prefix("exec ").unwrap_or(line) == command
        })
    });
    (!called).then(|| Violation(format!(".ci/run: must call exactly `{command}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    fn line_violations(path: &str, text: &str) -> Vec<String> {
        lines(&file(path, text), &Words::with_further(""))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_file_may_have_the_last_allowed_line_but_not_one_more() {
        assert_eq!(length(&file("a.rs", &"x\n".repeat(MAX_LINES))), None);
        let long = length(&file("a.rs", &"x\n".repeat(MAX_LINES + 1)));
        assert!(long.is_some_and(|v| v.to_string().starts_with("a.rs: 701 lines")));
    }

    #[test]
    fn unfinished_code_is_found_with_its_line() {
        let text = format!("fn f() {{\n    {}\"later\")\n}}", UNFINISHED[0]);
        let found = line_violations("a.rs", &text);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("a.rs:2: "), "{found:?}");
    }

    #[test]
    fn a_document_may_speak_of_unfinished_code() {
        assert!(line_violations("a.md", UNFINISHED[0]).is_empty());
    }

    #[test]
    fn an_ignored_test_must_say_why() {
        for bad in ["]", " = \"\"]", " = \" \"]", "="] {
            assert!(is_ignored_without_reason(&format!("    {IGNORED}{bad}")), "{bad}");
        }
        for good in [" = \"needs a cluster\"]", "=\"slow\"]", "_me]"] {
            assert!(
                !is_ignored_without_reason(&format!("    {IGNORED}{good}")),
                "{good}"
            );
        }
        assert!(!is_ignored_without_reason("#[test]"));
    }

    #[test]
    fn a_path_of_one_machine_is_found_at_the_start_of_a_path_only() {
        let path = MACHINE_PATHS[0];
        for bad in [
            format!("{path}me"),
            format!("see `{path}me`"),
            format!("file://{path}me"),
        ] {
            assert_eq!(machine_path(&bad), Some(path), "{bad}");
        }
        for good in [
            format!("https://example.org{path}"),
            format!("docs{path}x.md"),
            format!("~{path}"),
        ] {
            assert_eq!(machine_path(&good), None, "{good}");
        }
    }

    #[test]
    fn the_readme_shows_both_commands_in_order() {
        let [first, second] = COMMANDS;
        assert_eq!(readme(Some(&format!("{first}\n{second}\n"))), None);
        assert!(readme(Some(&format!("{second}\n{first}\n"))).is_some());
        assert!(readme(Some(first)).is_some());
        assert!(readme(None).is_some());
    }

    #[test]
    fn ci_runs_what_a_person_runs() {
        assert_eq!(ci(Some("#!/bin/sh\ncargo xtask test\n")), None);
        assert_eq!(ci(Some("exec cargo xtask test\n")), None);
        assert!(ci(Some("# cargo xtask test\n")).is_some());
        assert!(ci(Some("cargo xtask test --skip deny\n")).is_some());
        assert!(ci(None).is_some());
    }

    #[test]
    fn foreign_texts_are_not_judged() {
        let text = format!("{}me", MACHINE_PATHS[0]);
        let [first, second] = COMMANDS;
        let files = [
            file("Cargo.lock", &text),
            file("README.md", &format!("{first}\n{second}")),
            file(".ci/run", second),
        ];
        assert!(check(&files, &Words::with_further("")).is_empty());
    }

    #[test]
    fn the_rules_are_applied_to_every_file() {
        let [first, second] = COMMANDS;
        let files = [
            file("README.md", &format!("{first}\n{second}")),
            file(".ci/run", &format!("# {}x\n{second}", MACHINE_PATHS[1])),
            file(
                "src/deep/a.rs",
                &format!("{IGNORED}]\n{}", "x\n".repeat(MAX_LINES)),
            ),
        ];
        let found: Vec<_> = check(&files, &Words::with_further(""))
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with(".ci/run:1: "), "{found:?}");
        assert!(found[1].starts_with("src/deep/a.rs:1: "), "{found:?}");
        assert!(found[2].starts_with("src/deep/a.rs: 701 lines"), "{found:?}");
    }
}
