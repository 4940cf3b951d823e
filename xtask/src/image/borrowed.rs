//! An image of programs of this machine, with what they are linked with. For tests alone: nobody lists what is in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::oci::{self, File, Recipe};
use super::tar::Entry;
use super::{file, has_loader, stripped, write};
use crate::workspace::{Workspace, capture};

/// Folders of Python's library that no program needs to start, and that are most of it.
const LEFT_OUT: &[&str] = &[
    "__pycache__",
    "dist-packages",
    "site-packages",
    "test",
    "tests",
    "idlelib",
    "tkinter",
];
/// Names are asked of the cluster's DNS.
const NAMES: File<'_> = ("etc/nsswitch.conf", Entry::File(b"hosts: files dns\n"));

/// A program, and where in the image it is put, without a `/` in front.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placed<'a> {
    pub(crate) at: &'a str,
    pub(crate) program: &'a Path,
}

/// What such an image is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Borrowed<'a> {
    pub(crate) name: &'a str,
    pub(crate) tag: &'a str,
    /// By number.
    pub(crate) user: &'a str,
    pub(crate) programs: &'a [Placed<'a>],
    /// Scripts: where, and what is in them.
    pub(crate) scripts: &'a [(&'a str, &'a str)],
    pub(crate) entrypoint: &'a [&'a str],
}

/// Packs it: `NAME-TAG.tar`.
pub(crate) fn borrow(workspace: &Workspace, out: &Path, image: &Borrowed<'_>) -> Result<PathBuf> {
    let Borrowed {
        name,
        tag,
        user,
        programs,
        scripts,
        entrypoint,
    } = *image;
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let (mut packed, mut linked) = (Vec::new(), Vec::new());
    for Placed { at, program } in programs {
        linked.extend(libraries(workspace, program)?);
        packed.push((*at, stripped(workspace, program, out)?));
    }
    let mut env: Vec<String> = search_path(&linked).into_iter().collect();
    // By the paths that they have here: that is where the loader is asked for.
    let mut beside = BTreeMap::new();
    for library in &linked {
        add(&mut beside, library)?;
    }
    if let Some(python) = linked.iter().find_map(|library| python(library)) {
        add_all(&mut beside, &python)?;
        // The folder that has `lib/python3.x` in it.
        let home = python.ancestors().nth(2).unwrap_or_else(|| Path::new("/"));
        env.push(format!("PYTHONHOME={}", home.display()));
    }
    let mut files: Vec<File<'_>> = vec![NAMES];
    files.extend(packed.iter().map(|(at, bytes)| (*at, Entry::Program(bytes))));
    files.extend(
        scripts
            .iter()
            .map(|(at, text)| (*at, Entry::Program(text.as_bytes()))),
    );
    files.extend(
        beside
            .iter()
            .map(|(path, bytes)| (path.as_str(), Entry::Program(bytes))),
    );
    let env: Vec<&str> = env.iter().map(String::as_str).collect();
    let made = oci::image(&Recipe {
        name,
        tag,
        user,
        files: &files,
        entrypoint,
        env: &env,
        labels: &[],
        // It stays on this machine, and a database with its libraries is large.
        small: false,
    })?;
    let archive = file(out, name, tag, "tar");
    write(&archive, &made.archive)?;
    Ok(archive)
}

/// The loader and the libraries that a program asks for; none if it is statically linked.
fn libraries(workspace: &Workspace, program: &Path) -> Result<Vec<PathBuf>> {
    let bytes = fs::read(program).with_context(|| format!("cannot read {}", program.display()))?;
    ensure!(
        bytes.starts_with(b"\x7fELF\x02\x01"),
        "{} is no 64-bit ELF program",
        program.display()
    );
    if !has_loader(&bytes).context("the program's headers cannot be read")? {
        return Ok(Vec::new());
    }
    let said = capture(workspace.command("ldd").arg(program)).context("`ldd` is needed")?;
    listed(&String::from_utf8(said)?).with_context(|| format!("of {}", program.display()))
}

/// What `ldd` prints: `NAME => PATH (0x…)`, or `PATH (0x…)` of the loader. What has no path is the kernel's.
fn listed(said: &str) -> Result<Vec<PathBuf>> {
    let missing: Vec<&str> = said.lines().filter(|line| line.ends_with("not found")).collect();
    ensure!(missing.is_empty(), "a library is missing: {}", missing.join(", "));
    Ok(said
        .lines()
        .filter_map(|line| line.rsplit("=>").next()?.split_whitespace().next())
        .filter(|path| path.starts_with('/'))
        .map(PathBuf::from)
        .collect())
}

/// Where the loader looks, if it finds them nowhere else: a path that counts from the program is another one here.
fn search_path(libraries: &[PathBuf]) -> Option<String> {
    let mut folders: Vec<String> = libraries
        .iter()
        .filter_map(|library| Some(library.parent()?.display().to_string()))
        .collect();
    folders.sort_unstable();
    folders.dedup();
    (!folders.is_empty()).then(|| format!("LD_LIBRARY_PATH={}", folders.join(":")))
}

/// Python's own library, if this is the one that interprets it: it does not start without. Memgraph embeds it.
fn python(library: &Path) -> Option<PathBuf> {
    let version = python_version(library.file_name()?.to_str()?)?;
    let beside = library.parent()?.join(format!("python{version}"));
    let usual =
        ["/usr/lib", "/usr/local/lib"].map(|folder| Path::new(folder).join(format!("python{version}")));
    let mut all = std::iter::once(beside).chain(usual);
    all.find(|folder| folder.join("os.py").is_file())
}

/// `libpython3.11.so.1.0`: `3.11`.
fn python_version(library: &str) -> Option<&str> {
    let version = library.strip_prefix("libpython")?.split(".so").next()?;
    version.starts_with("3.").then_some(version)
}

fn add(files: &mut BTreeMap<String, Vec<u8>>, path: &Path) -> Result<()> {
    let at = path.to_str().context("a path is no text")?;
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    files.insert(at.trim_start_matches('/').to_owned(), bytes);
    Ok(())
}

fn add_all(files: &mut BTreeMap<String, Vec<u8>>, folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type()?;
        if kind.is_dir() && !LEFT_OUT.contains(&name.as_str()) && !name.starts_with("config-") {
            add_all(files, &entry.path())?;
        } else if kind.is_file() {
            add(files, &entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ldd_says_is_read_and_a_missing_library_is_named() {
        let said = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f5e)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f5f)\n";
        let found = listed(said).unwrap();
        assert_eq!(
            found,
            ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from)
        );
        assert_eq!(
            search_path(&found).unwrap(),
            "LD_LIBRARY_PATH=/lib/x86_64-linux-gnu:/lib64"
        );
        assert_eq!(search_path(&[]), None);
        let error = listed("\tlibrocksdb.so.9 => not found\n")
            .unwrap_err()
            .to_string();
        assert!(error.contains("librocksdb.so.9"), "{error}");
    }

    #[test]
    fn a_program_is_packed_with_its_loader_at_the_path_it_has_here() {
        let out = std::env::temp_dir().join(format!("mainstay-borrowed-{}", std::process::id()));
        let workspace = Workspace::locate().unwrap();
        let image = Borrowed {
            name: "localhost/shell",
            tag: "1",
            user: "0:0",
            programs: &[Placed {
                at: "bin/other",
                program: Path::new("/bin/sh"),
            }],
            scripts: &[("bin/script", "#!/bin/other\n")],
            entrypoint: &["/bin/script"],
        };
        let archive = fs::read(borrow(&workspace, &out, &image).unwrap()).unwrap();
        fs::remove_dir_all(&out).unwrap();
        // Not compressed: the names of files can be read in it.
        let text = String::from_utf8_lossy(&archive);
        let loader = libraries(&workspace, Path::new("/bin/sh")).unwrap();
        assert!(!loader.is_empty());
        let named = loader.iter().map(|path| path.to_str().unwrap());
        for path in named.chain(["/bin/other", "/bin/script", "/etc/nsswitch.conf"]) {
            let path = path.trim_start_matches('/');
            assert!(text.contains(&format!("{path}\0")), "{path}");
        }
        assert!(text.contains("LD_LIBRARY_PATH="));
    }

    #[test]
    fn the_library_that_interprets_python_is_known_by_its_name() {
        assert_eq!(python_version("libpython3.11.so.1.0"), Some("3.11"));
        for other in ["libpython2.7.so.1.0", "libpthread.so.0", "libpython.so"] {
            assert_eq!(python_version(other), None, "{other}");
        }
    }
}
