//! `cargo xtask image`: an image of the program without a daemon, and what is in it.

mod borrowed;
mod oci;
mod sbom;
mod tar;

pub(crate) use borrowed::{Borrowed, Placed, borrow};

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::Verdict;
use crate::workspace::{Workspace, capture, display, stream};

/// Statically linked, so that the image needs no base and has nothing to patch.
const TARGET: &str = "x86_64-unknown-linux-musl";
/// What a node may have to download.
const LARGEST: usize = 20 * 1024 * 1024;

/// What to make.
#[derive(Debug, Args)]
pub(crate) struct ImageArgs {
    /// What the image is called, without a tag
    #[arg(long, default_value = "mainstay")]
    name: String,
    /// Its tag; the version, if not given
    #[arg(long, default_value = env!("CARGO_PKG_VERSION"))]
    tag: String,
    /// A program that was built before; it must be statically linked
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// The stand-in for Memgraph instead: the same program, called as that
    #[arg(long)]
    stand_in: bool,
    /// Where to put it
    #[arg(long, value_name = "FOLDER", default_value = "target/image")]
    out: PathBuf,
}

/// Builds the program if none is given, and writes `NAME-TAG.tar` and `NAME-TAG.cdx.json`.
pub(crate) fn image(workspace: &Workspace, args: &ImageArgs) -> Result<Verdict> {
    let ImageArgs {
        name,
        tag,
        program,
        stand_in,
        out,
    } = args;
    let program = match program {
        Some(path) => path.clone(),
        None => build(workspace)?,
    };
    let out = workspace.root().join(out);
    let entrypoint = if *stand_in { STAND_IN } else { &[] };
    let Packed {
        archive,
        digest,
        compressed,
        unpacked,
    } = pack(workspace, &out, name, tag, &program, entrypoint)?;
    println!("{}", archive.display());
    println!("{name}:{tag} {digest}");
    println!(
        "{} compressed, {} unpacked",
        mebibytes(compressed),
        mebibytes(unpacked)
    );
    ensure!(
        compressed < LARGEST,
        "the image is larger than {}",
        mebibytes(LARGEST)
    );
    Ok(Verdict::Good)
}

/// An image on disk.
pub(crate) struct Packed {
    pub(crate) archive: PathBuf,
    pub(crate) digest: String,
    pub(crate) compressed: usize,
    pub(crate) unpacked: usize,
}

/// Packs a program: `NAME-TAG.tar` and `NAME-TAG.cdx.json`.
pub(crate) fn pack(
    workspace: &Workspace,
    out: &Path,
    name: &str,
    tag: &str,
    program: &Path,
    entrypoint: &[&str],
) -> Result<Packed> {
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let program = stripped(workspace, program, out)?;
    ensure_static(&program)?;
    let sbom = sbom::document(workspace, TARGET)?;
    let entrypoint: Vec<&str> = std::iter::once(oci::PROGRAM)
        .chain(entrypoint.iter().copied())
        .collect();
    let made = oci::image(&oci::Recipe {
        name,
        tag,
        user: oci::USER,
        files: &oci::own(&program, sbom.as_bytes()),
        entrypoint: &entrypoint,
        env: &[],
        labels: &[
            ("org.opencontainers.image.title", "mainstay"),
            ("org.opencontainers.image.version", env!("CARGO_PKG_VERSION")),
            ("org.opencontainers.image.licenses", env!("CARGO_PKG_LICENSE")),
        ],
        small: true,
    })?;
    let archive = file(out, name, tag, "tar");
    write(&archive, &made.archive)?;
    write(&file(out, name, tag, "cdx.json"), sbom.as_bytes())?;
    Ok(Packed {
        archive,
        digest: made.digest,
        compressed: made.compressed,
        unpacked: program.len(),
    })
}

/// What an image of this name is called on disk.
fn file(out: &Path, name: &str, tag: &str, extension: &str) -> PathBuf {
    let name = name.rsplit('/').next().unwrap_or(name);
    out.join(format!("{name}-{tag}.{extension}"))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// As the sandbox starts it.
pub(crate) const STAND_IN: &[&str] = &["standin", "memgraph", "--replication-address=0.0.0.0"];

/// The release, with no path of this machine in it: two checkouts in two folders give the same program.
pub(crate) fn build(workspace: &Workspace) -> Result<PathBuf> {
    let mut command = workspace.cargo();
    command
        .args(["build", "--locked", "--profile", "dist", "--package", "mainstay"])
        .args(["--target", TARGET, "--message-format", "json-render-diagnostics"])
        .env(
            "CARGO_ENCODED_RUSTFLAGS",
            remapped(workspace.root(), &cargo_home()?),
        );
    println!("$ {}", display(&command));
    let said = capture(&mut command).with_context(|| {
        format!("the program was not built; this needs `rustup target add {TARGET}` and musl-gcc (package musl-tools)")
    })?;
    crate::drills::built(&String::from_utf8(said)?)
}

/// The standard library for [`TARGET`]. Without rustup it is looked for by the compiler, which says what is missing.
pub(crate) fn ensure_target(workspace: &Workspace) {
    let mut command = workspace.command("rustup");
    command.args(["target", "add", TARGET]);
    if !command.output().is_ok_and(|output| output.status.success()) {
        println!("rustup did not add {TARGET}; the build says if it is missing");
    }
}

fn cargo_home() -> Result<PathBuf> {
    std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".cargo")))
        .context("neither CARGO_HOME nor a home folder is known")
}

/// The flags, separated as cargo wants them.
fn remapped(root: &Path, cargo: &Path) -> String {
    let sources = cargo.join("registry").join("src");
    [(root, "mainstay"), (sources.as_path(), "crates")]
        .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()))
        .join("\u{1f}")
}

/// Without symbols: nobody debugs in the image, and they are most of the file.
fn stripped(workspace: &Workspace, program: &Path, out: &Path) -> Result<Vec<u8>> {
    let path = out.join("mainstay.stripped");
    let mut strip = workspace.command("strip");
    strip.args(["--strip-all", "-o"]).arg(&path).arg(program);
    stream(&mut strip).context("`strip` of binutils is needed")?;
    let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    Ok(bytes)
}

/// A program that asks for a loader finds none in the image, and the message of the kernel helps nobody.
fn ensure_static(program: &[u8]) -> Result<()> {
    ensure!(
        program.starts_with(b"\x7fELF\x02\x01"),
        "this is no 64-bit ELF program"
    );
    ensure!(
        !has_loader(program).context("the program's headers cannot be read")?,
        "the program is not statically linked: the image has no library for it"
    );
    Ok(())
}

/// Whether it has a program header of the type that names a loader (3).
fn has_loader(program: &[u8]) -> Option<bool> {
    let number = |at: usize, bytes: usize| {
        let field = program.get(at..at.checked_add(bytes)?)?;
        field.iter().rev().try_fold(0usize, |sum, byte| {
            sum.checked_mul(256)?.checked_add(usize::from(*byte))
        })
    };
    let (start, size, count) = (number(0x20, 8)?, number(0x36, 2)?, number(0x38, 2)?);
    let mut found = false;
    for header in 0..count {
        let at = header.checked_mul(size)?.checked_add(start)?;
        found |= number(at, 4)? == 3;
    }
    Some(found)
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people, with one digit")]
fn mebibytes(bytes: usize) -> String {
    format!("{:.1} MiB", bytes as f64 / 1_048_576.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_folder_of_a_machine_is_left_in_the_program() {
        let flags = remapped(Path::new("/a/b"), Path::new("/c/.cargo"));
        assert_eq!(
            flags,
            "--remap-path-prefix=/a/b=mainstay\u{1f}--remap-path-prefix=/c/.cargo/registry/src=crates"
        );
    }

    #[test]
    fn a_program_that_needs_a_loader_is_refused() {
        // Whatever this test is linked with, it has one.
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        let error = ensure_static(&own).unwrap_err().to_string();
        assert!(error.contains("not statically linked"), "{error}");
        assert!(ensure_static(b"#!/bin/sh").is_err());
        assert!(ensure_static(b"\x7fELF\x02\x01").is_err());
    }
}
