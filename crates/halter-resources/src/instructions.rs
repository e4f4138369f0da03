//! Instruction files: what the user and a project tell every model, in
//! `AGENTS.md` and `CLAUDE.md`.
//!
//! They are text for a model and nothing else: no key of theirs configures
//! anything. Those of a project are opened through an [`InstructionDoor`], which
//! stands for the rights of a session, and so is all that they import: a
//! repository is somebody else's text, and must not have a file read that the
//! session's tools could not read.

use crate::files::{Unread, exists, is_showable, open_under, read_start, utf8};
use crate::imports::InstructionText;
use crate::limits::{MAX_IMPORT_HOPS, MAX_INSTRUCTION_BYTES, MAX_INSTRUCTIONS_BYTES};
use crate::warning::{ResourceWarning, WarningList};
use halter_protocol::limits::INSTRUCTION_FILES;
use halter_protocol::{ContentHash, InstructionFile, encoding::escape_path};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The instruction files of a directory, in the order they are loaded.
pub const INSTRUCTION_NAMES: [&str; 5] = [
    "AGENTS.md",
    "AGENTS.local.md",
    "CLAUDE.md",
    ".claude/CLAUDE.md",
    "CLAUDE.local.md",
];

/// What a user-wide file may import: a text beside it, and not, say, the
/// credentials that another program keeps there.
const USER_IMPORT_EXTENSION: &str = "md";

/// Opens files for instructions with the rights of a session.
pub trait InstructionDoor {
    /// Opens one of [`INSTRUCTION_NAMES`] in a directory of the project.
    ///
    /// # Errors
    /// If there is none, or it may not be read.
    fn open_named(&self, path: &Path) -> Result<OpenInstructions, ClosedInstructions>;

    /// Opens a file that another one imports.
    ///
    /// # Errors
    /// If there is none, or the session's tools may not read it.
    fn open_import(&self, path: &Path) -> Result<OpenInstructions, ClosedInstructions>;
}

/// A regular file, open for reading.
pub struct OpenInstructions {
    /// The file.
    pub file: Box<dyn Read>,
    /// Where it is, free of links.
    pub resolved: PathBuf,
}

impl fmt::Debug for OpenInstructions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file: _, resolved } = self;
        formatter
            .debug_tuple("OpenInstructions")
            .field(resolved)
            .finish()
    }
}

/// Why a file is not opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClosedInstructions {
    /// There is none.
    Missing,
    /// It may not be read, or cannot be; what happened and what to do.
    Refused(String),
}

/// Where instruction files are looked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstructionPlaces {
    /// Files of the user, which hold in every project.
    pub user_files: Vec<PathBuf>,
    /// Directories of the project, the outermost first.
    pub directories: Vec<PathBuf>,
    /// The directory that a leading `~/` of an import means.
    pub home: Option<PathBuf>,
}

/// An instruction file and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadedInstructions {
    /// Where it is.
    pub path: PathBuf,
    /// Why it is loaded.
    pub origin: InstructionOrigin,
    /// What it says, without comments.
    pub text: String,
    /// The hash of the text.
    pub sha256: String,
}

/// Why an instruction file is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InstructionOrigin {
    /// It is the user's, for every project.
    User,
    /// It lies in a directory of the project.
    Project,
    /// Another one imports it.
    Import {
        /// The importing file.
        by: PathBuf,
    },
}

impl InstructionOrigin {
    /// One word for it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Import { .. } => "import",
        }
    }
}

impl LoadedInstructions {
    /// The file as a session remembers it.
    pub fn as_told(&self) -> InstructionFile {
        InstructionFile {
            path: escape_path(&self.path),
            sha256: Some(self.sha256.clone()),
        }
    }
}

/// Instruction files in the order a model reads them, the most general first,
/// each followed by what it imports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundInstructions {
    /// The files.
    pub files: Vec<LoadedInstructions>,
    /// What a user should know.
    pub warnings: Vec<ResourceWarning>,
}

/// True for a path that ends like one of [`INSTRUCTION_NAMES`].
pub fn is_instruction_file(path: &Path) -> bool {
    INSTRUCTION_NAMES.iter().any(|name| path.ends_with(name))
}

/// The directory that the instruction file at a path is for.
pub fn directory_of(path: &Path) -> Option<&Path> {
    let directory = path.parent()?;
    let inner = directory.file_name() == Some(OsStr::new(".claude"));
    if inner && path.file_name() == Some(OsStr::new("CLAUDE.md")) {
        return directory.parent();
    }
    Some(directory)
}

/// Loads the instruction files of some places. Blocking.
pub fn load_instructions(
    places: &InstructionPlaces,
    door: &dyn InstructionDoor,
) -> FoundInstructions {
    let mut loader = InstructionLoader {
        door,
        home: places.home.as_deref(),
        seen: HashSet::new(),
        bytes: 0,
        full: false,
        files: Vec::new(),
        warnings: WarningList::default(),
    };
    for path in &places.user_files {
        loader.user_file(path);
    }
    for directory in &places.directories {
        loader.directory(directory);
    }
    FoundInstructions {
        files: loader.files,
        warnings: loader.warnings.into_vec(),
    }
}

struct InstructionLoader<'a> {
    door: &'a dyn InstructionDoor,
    home: Option<&'a Path>,
    /// Files that were looked at, free of links: each is loaded once, so that
    /// those that import each other come to an end.
    seen: HashSet<PathBuf>,
    bytes: usize,
    /// The limit of files was reached and said.
    full: bool,
    files: Vec<LoadedInstructions>,
    warnings: WarningList,
}

/// Where a file comes from.
struct InstructionSource {
    path: PathBuf,
    origin: InstructionOrigin,
    /// The directory that a user-wide file may import from; none for those of a
    /// project.
    user_root: Option<PathBuf>,
    hops: usize,
}

impl InstructionLoader<'_> {
    /// A file that the user or the embedding program named: its links count.
    fn user_file(&mut self, path: &Path) {
        if !exists(path) {
            return;
        }
        let resolved = fs::canonicalize(path).map_err(Unread::Io);
        let opened = resolved.and_then(|resolved| {
            let file = Box::new(open_under(Path::new("/"), &resolved)?);
            Ok(OpenInstructions { file, resolved })
        });
        let source = InstructionSource {
            path: path.to_owned(),
            origin: InstructionOrigin::User,
            user_root: path.parent().and_then(|it| fs::canonicalize(it).ok()),
            hops: 0,
        };
        match opened {
            Ok(opened) => self.load(opened, source),
            Err(unread) => self.skip(path, &unread),
        }
    }

    fn directory(&mut self, directory: &Path) {
        let first = self.files.len();
        for name in INSTRUCTION_NAMES {
            let path = directory.join(name);
            if !exists(&path) {
                continue;
            }
            match self.door.open_named(&path) {
                Ok(opened) => {
                    let source = InstructionSource {
                        path,
                        origin: InstructionOrigin::Project,
                        user_root: None,
                        hops: 0,
                    };
                    self.load_unless_same(opened, source, first);
                }
                Err(ClosedInstructions::Missing) => {}
                Err(ClosedInstructions::Refused(reason)) => {
                    let line = None;
                    self.warnings
                        .push(ResourceWarning::InstructionsSkipped { path, line, reason });
                }
            }
        }
    }

    fn load(&mut self, opened: OpenInstructions, source: InstructionSource) {
        self.load_unless_same(opened, source, self.files.len());
    }

    /// Loads a file unless it was read already, says nothing, or says what a
    /// file of its directory says, the first of which has the number `first`.
    fn load_unless_same(
        &mut self,
        opened: OpenInstructions,
        source: InstructionSource,
        first: usize,
    ) {
        if !self.seen.insert(opened.resolved) {
            return;
        }
        let Some(read) = self.read(opened.file, &source.path) else {
            return;
        };
        let sha256 = ContentHash::hex_of(read.text.as_bytes());
        let same = |it: &LoadedInstructions| {
            it.origin == InstructionOrigin::Project && it.sha256 == sha256
        };
        if !read.text.is_empty() && !self.files.iter().skip(first).any(same) {
            self.keep(source, read, sha256);
        }
    }

    fn read(&mut self, file: Box<dyn Read>, path: &Path) -> Option<InstructionText> {
        if !is_showable(path) {
            let path = path.to_owned();
            self.warnings.push(ResourceWarning::PathNotText { path });
            return None;
        }
        let text = read_start(file, MAX_INSTRUCTION_BYTES)
            .and_then(|(bytes, more)| Ok((utf8(whole_lines(bytes, more))?, more)));
        let (text, cut) = match text {
            Ok(text) => text,
            Err(unread) => {
                self.skip(path, &unread);
                return None;
            }
        };
        let mut read = InstructionText::parse(&text);
        if cut {
            self.warnings.push(ResourceWarning::InstructionsCut {
                path: path.to_owned(),
                bytes: text.len(),
            });
            read.text
                .push_str("\n\n[the rest of this file is left out]");
        }
        Some(read)
    }

    fn keep(&mut self, source: InstructionSource, read: InstructionText, sha256: String) {
        let InstructionText { text, imports } = read;
        if self.files.len() >= INSTRUCTION_FILES {
            if !std::mem::replace(&mut self.full, true) {
                let reason = format!(
                    "more than {INSTRUCTION_FILES} instruction files; the rest is left out"
                );
                self.leave_out(source.path, reason);
            }
            return;
        }
        if self.bytes + text.len() > MAX_INSTRUCTIONS_BYTES {
            let reason = format!(
                "the instruction files have more than {MAX_INSTRUCTIONS_BYTES} bytes together; \
                 this one is left out"
            );
            return self.leave_out(source.path, reason);
        }
        self.bytes += text.len();
        self.files.push(LoadedInstructions {
            path: source.path.clone(),
            origin: source.origin.clone(),
            text,
            sha256,
        });
        for import in imports {
            self.import(&source, import);
        }
    }

    fn import(&mut self, by: &InstructionSource, import: String) {
        let path = match (import.strip_prefix("~/"), self.home, by.path.parent()) {
            (Some(rest), Some(home), _) => home.join(rest),
            (_, _, Some(directory)) => directory.join(&import),
            _ => PathBuf::from(&import),
        };
        let opened = match &by.user_root {
            Some(root) => open_beside(root, &path),
            None if is_instruction_file(&path) => self.door.open_named(&path),
            None => self.door.open_import(&path),
        };
        let reason = match opened {
            Ok(opened) if self.seen.contains(&opened.resolved) => return,
            Ok(opened) if by.hops < MAX_IMPORT_HOPS => {
                let source = InstructionSource {
                    path: opened.resolved.clone(),
                    origin: InstructionOrigin::Import {
                        by: by.path.clone(),
                    },
                    user_root: by.user_root.clone(),
                    hops: by.hops + 1,
                };
                return self.load(opened, source);
            }
            Ok(_) => {
                format!("more than {MAX_IMPORT_HOPS} imports lead to it; import it more directly")
            }
            // Most likely the name of a package and no file.
            Err(_) if path.extension().is_none() && !exists(&path) => return,
            Err(ClosedInstructions::Missing) => {
                "there is no such file; correct the path, or put it in `backticks`".to_owned()
            }
            Err(ClosedInstructions::Refused(reason)) => reason,
        };
        self.warnings.push(ResourceWarning::ImportSkipped {
            path: by.path.clone(),
            import,
            reason,
        });
    }

    fn leave_out(&mut self, path: PathBuf, reason: String) {
        self.warnings
            .push(ResourceWarning::LimitReached { path, reason });
    }

    fn skip(&mut self, path: &Path, unread: &Unread) {
        self.warnings.push(ResourceWarning::InstructionsSkipped {
            path: path.to_owned(),
            line: unread.line(),
            reason: unread.reason(MAX_INSTRUCTION_BYTES),
        });
    }
}

/// Opens what a user-wide file imports: a text in its directory or below.
fn open_beside(root: &Path, path: &Path) -> Result<OpenInstructions, ClosedInstructions> {
    if !exists(path) {
        return Err(ClosedInstructions::Missing);
    }
    let resolved =
        fs::canonicalize(path).map_err(|error| ClosedInstructions::Refused(error.to_string()))?;
    let is_text = resolved.extension() == Some(OsStr::new(USER_IMPORT_EXTENSION));
    if !is_text || !resolved.starts_with(root) {
        let reason = "user-wide instructions may import only .md files of their own directory; \
                      move it there";
        return Err(ClosedInstructions::Refused(reason.to_owned()));
    }
    match open_under(root, &resolved) {
        Ok(file) => Ok(OpenInstructions {
            file: Box::new(file),
            resolved,
        }),
        Err(unread) => Err(ClosedInstructions::Refused(
            unread.reason(MAX_INSTRUCTION_BYTES),
        )),
    }
}

/// The bytes without a last line, or character, that is not whole.
fn whole_lines(mut bytes: Vec<u8>, more: bool) -> Vec<u8> {
    if more {
        let newline = bytes.iter().rposition(|byte| *byte == b'\n');
        let character = bytes.iter().rposition(|byte| byte & 0xC0 != 0x80);
        bytes.truncate(newline.or(character).unwrap_or_default());
    }
    bytes
}
