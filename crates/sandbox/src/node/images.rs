//! Which program an image stands for.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// A program, and arguments that come before those of the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The file.
    pub path: PathBuf,
    /// Leading arguments, e.g. the subcommand of a binary with many.
    pub args: Vec<String>,
    /// Variables of its own; those of the pod win. An image brings its libraries, a program of this machine may need to
    /// be told where they are.
    pub env: BTreeMap<String, String>,
}

/// The programs that this machine calls images.
#[derive(Debug, Clone, Default)]
pub struct Images(BTreeMap<String, Program>);

impl Images {
    /// Nothing is known but paths.
    pub fn new() -> Self {
        Self::default()
    }

    /// Make an image known. A name ending in `*` stands for all that begin so.
    #[must_use]
    pub fn with(self, image: &str, path: impl Into<PathBuf>, args: &[&str]) -> Self {
        let program = Program {
            path: path.into(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: BTreeMap::new(),
        };
        self.with_program(image, program)
    }

    /// The same, of a program that needs more.
    #[must_use]
    pub fn with_program(mut self, image: &str, program: Program) -> Self {
        self.0.insert(image.to_owned(), program);
        self
    }

    /// The program of an image: an exact name, the longest pattern, or an
    /// absolute path of a file that is there.
    pub fn find(&self, image: &str) -> Result<Program, String> {
        if let Some(program) = self.0.get(image) {
            return Ok(program.clone());
        }
        let fits = |pattern: &str| {
            pattern
                .strip_suffix('*')
                .is_some_and(|begin| image.starts_with(begin))
        };
        if let Some((_, program)) = self
            .0
            .iter()
            .filter(|(pattern, _)| fits(pattern))
            .max_by_key(|(pattern, _)| pattern.len())
        {
            return Ok(program.clone());
        }
        let path = PathBuf::from(image);
        if path.is_absolute() && path.is_file() {
            return Ok(Program {
                path,
                args: Vec::new(),
                env: BTreeMap::new(),
            });
        }
        let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
        Err(format!(
            "image {image:?} is no built-in program and no file on this machine; built in are: {}",
            known.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_an_exact_name_before_a_pattern_before_a_path() {
        let images = Images::new()
            .with("memgraph/*", "/bin/any", &[])
            .with("memgraph/memgraph:*", "/bin/stand-in", &["memgraph"])
            .with("memgraph/memgraph:1", "/bin/one", &[]);
        let path = |image: &str| {
            images
                .find(image)
                .map(|program| program.path.display().to_string())
        };
        assert_eq!(path("memgraph/memgraph:1").as_deref(), Ok("/bin/one"));
        assert_eq!(path("memgraph/memgraph:3.6").as_deref(), Ok("/bin/stand-in"));
        assert_eq!(path("memgraph/lab").as_deref(), Ok("/bin/any"));
        assert_eq!(path("/bin/sh").as_deref(), Ok("/bin/sh"));
    }

    #[test]
    fn an_unknown_image_is_refused_with_the_names_that_are_known() {
        let error = Images::new()
            .with("a", "/bin/a", &[])
            .find("redis:7")
            .unwrap_err();
        assert!(
            error.contains("\"redis:7\"") && error.ends_with("built in are: a"),
            "{error}"
        );
        assert!(Images::new().find("/no/such/file").is_err());
    }
}
