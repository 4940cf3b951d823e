//! An image in the OCI layout, as one archive. Pure: the same input is the same image, byte for byte.

use std::collections::BTreeSet;
use std::io::Write as _;

use anyhow::Result;
use flate2::{Compression, GzBuilder};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::tar::{Archive, Entry};

/// A file of the image by its path, which has no `/` in front.
pub(crate) type File<'a> = (&'a str, Entry<'a>);

/// What the image is made of.
#[derive(Debug, Clone)]
pub(crate) struct Recipe<'a> {
    /// Without a tag, as Kubernetes will be told.
    pub(crate) name: &'a str,
    pub(crate) tag: &'a str,
    /// By number: Kubernetes cannot tell whether a name is root.
    pub(crate) user: &'a str,
    /// In this order. A folder comes with the first file that is in it.
    pub(crate) files: &'a [File<'a>],
    /// What is run: the program and its first arguments.
    pub(crate) entrypoint: &'a [&'a str],
    /// Each as `NAME=VALUE`.
    pub(crate) env: &'a [&'a str],
    pub(crate) labels: &'a [(&'a str, &'a str)],
    /// Somebody downloads it: as small as it can be made.
    pub(crate) small: bool,
}

/// The image.
#[derive(Debug)]
pub(crate) struct Image {
    /// An archive of the layout.
    pub(crate) archive: Vec<u8>,
    /// Of its manifest: what `name@digest` means.
    pub(crate) digest: String,
    /// What a node downloads.
    pub(crate) compressed: usize,
}

/// Who runs our own program.
pub(crate) const USER: &str = "65532:65532";
/// Where it is.
pub(crate) const PROGRAM: &str = "/mainstay";

/// The files of our own image. The program is statically linked: there is nothing else that it could link with.
pub(crate) const fn own<'a>(program: &'a [u8], sbom: &'a [u8]) -> [File<'a>; 4] {
    [
        ("mainstay", Entry::Program(program)),
        // Only for people who look: nothing asks for a name.
        (
            "etc/passwd",
            Entry::File(b"mainstay:x:65532:65532::/:/sbin/nologin\n"),
        ),
        ("etc/group", Entry::File(b"mainstay:x:65532:\n")),
        ("usr/share/sbom/mainstay.cdx.json", Entry::File(sbom)),
    ]
}

/// Makes it.
pub(crate) fn image(recipe: &Recipe<'_>) -> Result<Image> {
    let layer = layer(recipe.files)?;
    let packed = gzip(&layer, recipe.small)?;
    let config = config(recipe, &digest(&layer)).to_string().into_bytes();
    let layer = described("application/vnd.oci.image.layer.v1.tar+gzip", &packed);
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": described("application/vnd.oci.image.config.v1+json", &config),
        "layers": [layer],
    });
    let manifest = manifest.to_string().into_bytes();
    let mut listed = described("application/vnd.oci.image.manifest.v1+json", &manifest);
    if let Value::Object(listed) = &mut listed {
        let annotations = json!({
            "io.containerd.image.name": format!("{}:{}", recipe.name, recipe.tag),
            "org.opencontainers.image.ref.name": recipe.tag,
        });
        listed.insert("annotations".to_owned(), annotations);
    }
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [listed],
    });
    let mut archive = Archive::default();
    archive.add("oci-layout", Entry::File(br#"{"imageLayoutVersion":"1.0.0"}"#))?;
    archive.add("index.json", Entry::File(index.to_string().as_bytes()))?;
    for folder in ["blobs/", "blobs/sha256/"] {
        archive.add(folder, Entry::Folder)?;
    }
    for blob in [&config, &packed, &manifest] {
        archive.add(&format!("blobs/sha256/{}", hash(blob)), Entry::File(blob))?;
    }
    Ok(Image {
        archive: archive.finish(),
        digest: digest(&manifest),
        compressed: config.len() + packed.len() + manifest.len(),
    })
}

/// The files, each after the folders that it is in.
fn layer(files: &[File<'_>]) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    let mut folders = BTreeSet::new();
    for (path, entry) in files {
        for (end, _) in path.match_indices('/') {
            let folder = path.get(..=end).unwrap_or_default();
            if folders.insert(folder) {
                archive.add(folder, Entry::Folder)?;
            }
        }
        archive.add(path, *entry)?;
    }
    Ok(archive.finish())
}

fn config(recipe: &Recipe<'_>, layer: &str) -> Value {
    let labels: Map<String, Value> = recipe
        .labels
        .iter()
        .map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect();
    let mut run = json!({
        "User": recipe.user,
        "Entrypoint": recipe.entrypoint,
        "WorkingDir": "/",
        "Labels": labels,
    });
    if let (Value::Object(run), false) = (&mut run, recipe.env.is_empty()) {
        run.insert("Env".to_owned(), json!(recipe.env));
    }
    json!({
        // One target so far: the pinned toolchain brings its library for this one.
        "architecture": "amd64",
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",
        "config": run,
        "rootfs": { "type": "layers", "diff_ids": [layer] },
    })
}

fn described(media_type: &str, blob: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": digest(blob), "size": blob.len() })
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hash(bytes))
}

fn hash(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        text.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or_default());
        text.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or_default());
    }
    text
}

/// Without a time and without the name of a machine's kind.
fn gzip(bytes: &[u8], small: bool) -> Result<Vec<u8>> {
    let level = if small {
        Compression::best()
    } else {
        Compression::none()
    };
    let mut writer = GzBuilder::new()
        .mtime(0)
        .operating_system(255)
        .write(Vec::new(), level);
    writer.write_all(bytes)?;
    Ok(writer.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [File<'_>; 4] = own(b"\x7fELF", b"{}");
    const RECIPE: Recipe<'_> = Recipe {
        name: "localhost/mainstay",
        tag: "1",
        user: USER,
        files: &FILES,
        entrypoint: &[PROGRAM],
        env: &[],
        labels: &[
            ("org.opencontainers.image.title", "mainstay"),
            ("org.opencontainers.image.version", "1.2.3"),
            ("org.opencontainers.image.licenses", env!("CARGO_PKG_LICENSE")),
        ],
        small: true,
    };

    fn json_in(image: &Image, after: &str) -> Value {
        let text = String::from_utf8_lossy(&image.archive);
        let at = text.find(after).unwrap();
        let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter();
        values.next().unwrap().unwrap()
    }

    #[test]
    fn the_same_input_is_the_same_image_and_another_is_another() {
        let first = image(&RECIPE).unwrap();
        let again = image(&RECIPE).unwrap();
        assert!(first.archive == again.archive && first.digest == again.digest);
        let others = [
            Recipe {
                files: &own(b"\x7fELF2", b"{}"),
                ..RECIPE
            },
            Recipe {
                files: &own(b"\x7fELF", b"[]"),
                ..RECIPE
            },
            Recipe {
                entrypoint: &[PROGRAM, "standin"],
                ..RECIPE
            },
            Recipe {
                env: &["A=b"],
                ..RECIPE
            },
            Recipe {
                user: "0:0",
                ..RECIPE
            },
        ];
        for other in others {
            assert_ne!(image(&other).unwrap().digest, first.digest);
        }
        // A name is not part of what runs.
        let named = image(&Recipe { tag: "2", ..RECIPE }).unwrap();
        assert_eq!(named.digest, first.digest);
    }

    /// If this fails, every image ever published has another digest for the same content: look why.
    #[test]
    fn the_digest_does_not_change_from_one_machine_to_the_next() {
        let expected = "sha256:4d0bc2222add568d4fb438a8dac263556b36f91cb9d2c747cee09bb3bb409c92";
        assert_eq!(image(&RECIPE).unwrap().digest, expected);
    }

    #[test]
    fn it_does_not_run_as_root() {
        let image = image(&RECIPE).unwrap();
        let config = json_in(&image, "{\"architecture\"");
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(config["config"]["Entrypoint"], json!(["/mainstay"]));
    }

    #[test]
    fn the_sums_of_others_are_ours() {
        assert_eq!(
            hash(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
