//! What the content of a file or folder is called, for a user to trust it.
//!
//! A project can hold things that run programs: hooks and servers of plugins,
//! agents and skills. They are withheld until the user has trusted exactly the
//! content that is there now.

use crate::files::whole_text;
use crate::header::Document;
use crate::limits::{MAX_SKILL_BYTES, MAX_TRUSTED_BYTES, MAX_TRUSTED_FILES};
use crate::plugin::PluginLoader;
use crate::skill::SKILL_FILE;
use halter_protocol::ContentHash;
use serde::Deserialize;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The directory whose content changes without the plugin's: it is not part of
/// what is trusted.
const REPOSITORY: &str = ".git";

/// Knows which content the user trusts.
pub trait ContentTrust: Send + Sync {
    /// Whether this content is trusted at this canonical path.
    fn is_trusted(&self, path: &Path, digest: &str) -> bool;

    /// Whether the files of the project that hooks name are trusted as they
    /// are now, besides the `content` that holds the hooks: a folder, or a file
    /// with frontmatter.
    fn trusts_files_of(&self, hooks: &Value, content: &Path) -> bool;
}

/// Trusts nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NothingTrusted;

impl ContentTrust for NothingTrusted {
    fn is_trusted(&self, _: &Path, _: &str) -> bool {
        false
    }

    fn trusts_files_of(&self, _: &Value, _: &Path) -> bool {
        false
    }
}

/// The hooks in a folder or file that a user may trust: a skill, a plugin or an
/// agent file. What cannot be read has none. Blocks on the file system.
pub fn hooks_in(content: &Path) -> Vec<Value> {
    if content.is_file() {
        return hooks_in_file(content).into_iter().collect();
    }
    let mut hooks: Vec<Value> = hooks_in_file(&content.join(SKILL_FILE))
        .into_iter()
        .collect();
    for plugin in PluginLoader::new(content).load().plugins {
        // A folder that is one skill is read as a plugin of it, too.
        let more: Vec<Value> = plugin
            .all_hooks()
            .filter(|it| !hooks.contains(it))
            .collect();
        hooks.extend(more);
    }
    hooks
}

fn hooks_in_file(path: &Path) -> Option<Value> {
    #[derive(Default, Deserialize)]
    struct Header {
        hooks: Option<Value>,
    }
    let text = whole_text(File::open(path).ok()?, MAX_SKILL_BYTES).ok()?;
    let document = Document::<Header>::parse(&text).ok()?;
    document.header?.hooks
}

/// A file or folder as it was when it was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrustedContent {
    /// Its canonical path.
    pub path: PathBuf,
    /// A hash of the names, kinds and bytes of all that is in it, 64
    /// hexadecimal digits.
    pub digest: String,
    /// How many files that are.
    pub files: usize,
}

impl TrustedContent {
    /// Looks at a file, or at a folder and all that is below it but `.git`.
    /// Blocks on the file system.
    ///
    /// # Errors
    /// If something cannot be read, is no file, leads out of the folder, or if
    /// there is too much of it.
    pub fn of(path: &Path) -> io::Result<Self> {
        let path = fs::canonicalize(path)?;
        let mut content = Collector {
            root: &path,
            hash: ContentHash::default(),
            files: 0,
            bytes: 0,
        };
        match path.is_dir() {
            true => content.directory(&path)?,
            false => content.file(&path)?,
        }
        let (files, digest) = (content.files, content.hash.hex());
        Ok(Self {
            path,
            digest,
            files,
        })
    }
}

struct Collector<'a> {
    root: &'a Path,
    hash: ContentHash,
    files: usize,
    bytes: u64,
}

impl Collector<'_> {
    fn directory(&mut self, directory: &Path) -> io::Result<()> {
        let mut names = Vec::new();
        for entry in fs::read_dir(directory)? {
            names.push(entry?.file_name());
            if names.len() > MAX_TRUSTED_FILES {
                return Err(too_much("files", MAX_TRUSTED_FILES as u64));
            }
        }
        names.sort();
        for name in names {
            if name == REPOSITORY {
                continue;
            }
            let path = directory.join(&name);
            let kind = fs::symlink_metadata(&path)?.file_type();
            if kind.is_dir() {
                self.directory(&path)?;
            } else if kind.is_symlink() {
                self.link(&path)?;
            } else {
                self.file(&path)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> io::Result<()> {
        let metadata = fs::metadata(path)?;
        if !metadata.is_file() {
            let problem = format!("{} is not a regular file", path.display());
            return Err(io::Error::other(problem));
        }
        let executable = metadata.permissions().mode() & 0o111 != 0;
        self.entry(path, if executable { b"x" } else { b"f" })?;
        let mut content = ContentHash::default();
        let mut file = File::open(path)?;
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let read = file.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            self.bytes = self.bytes.saturating_add(read as u64);
            if self.bytes > MAX_TRUSTED_BYTES {
                return Err(too_much("bytes", MAX_TRUSTED_BYTES));
            }
            content.update(buffer.get(..read).unwrap_or_default());
        }
        self.hash.update(&content.raw());
        Ok(())
    }

    /// What a link leads to is part of the content if it is in the folder.
    fn link(&mut self, path: &Path) -> io::Result<()> {
        let target = fs::read_link(path)?;
        if !fs::canonicalize(path).is_ok_and(|target| target.starts_with(self.root)) {
            let problem = format!(
                "the link {} leads out of the folder or nowhere",
                path.display()
            );
            return Err(io::Error::other(problem));
        }
        self.entry(path, b"l")?;
        self.field(target.as_os_str().as_bytes());
        Ok(())
    }

    fn entry(&mut self, path: &Path, kind: &[u8]) -> io::Result<()> {
        self.files += 1;
        if self.files > MAX_TRUSTED_FILES {
            return Err(too_much("files", MAX_TRUSTED_FILES as u64));
        }
        let relative = path.strip_prefix(self.root).unwrap_or(path);
        self.field(relative.as_os_str().as_bytes());
        self.field(kind);
        Ok(())
    }

    fn field(&mut self, bytes: &[u8]) {
        self.hash.update(&(bytes.len() as u64).to_le_bytes());
        self.hash.update(bytes);
    }
}

fn too_much(what: &str, max: u64) -> io::Error {
    io::Error::other(format!("it has more than {max} {what}, too many to trust"))
}
