//! `fs.*`: files of the machine that the runtime is on.
//!
//! A call carries the rules that it is held to. The runtime holds them by
//! handles of directories: no link and no directory that is swapped meanwhile
//! leads out of the roots. Paths are text in which a byte that is not UTF-8 is
//! `\xNN` and a backslash is `\\`.

use serde::{Deserialize, Serialize};

use super::is_false;

/// What a call may do with files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FileRulesParams {
    /// What the client calls these rules. Roots are remembered by identity for
    /// each name: a directory that is put in the place of one is not taken for
    /// it.
    pub name: String,
    /// The directory that patterns with a leading `./` start in.
    pub directory: String,
    /// Directories that may be read and written.
    #[serde(default)]
    pub write: Vec<String>,
    /// Directories that may be read.
    #[serde(default)]
    pub read: Vec<String>,
    /// Patterns of files that stay closed; absent: a built-in list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sensitive: Option<Vec<String>>,
    /// Files and directories that stay closed.
    #[serde(default)]
    pub closed: Vec<String>,
    /// A home directory, in which closed files usually lie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
}

/// What a path is wanted for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileAccess {
    /// To read it or list it.
    #[default]
    Read,
    /// To write a file there.
    Write,
    /// To delete or rename what has the name; a link stands for itself.
    Name,
}

/// `fs.stat`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FileStatParams {
    /// The rules.
    pub rules: FileRulesParams,
    /// The path.
    pub path: String,
    /// What it is wanted for.
    #[serde(default)]
    pub access: FileAccess,
}

/// `fs.stat`: what a path leads to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FileEntry {
    /// Where it is, free of links.
    pub path: String,
    /// `file`, `directory`, `link`, `fifo`, `socket`, `device` or `other`;
    /// absent: nothing is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// How many of the last directories of the path do not exist.
    #[serde(default)]
    pub missing: u64,
    /// Its size in bytes.
    #[serde(default)]
    pub size: u64,
    /// The number of its owner.
    #[serde(default)]
    pub owner: u32,
    /// What tells it from everything else that could have its name.
    #[serde(default)]
    pub identity: String,
    /// Changes with its content.
    #[serde(default)]
    pub version: String,
    /// Of a directory: the same only for the same directory of the same
    /// machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
}

/// `fs.read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FileReadParams {
    /// The rules.
    pub rules: FileRulesParams,
    /// The file.
    pub path: String,
    /// The first byte.
    #[serde(default)]
    pub offset: u64,
    /// The most bytes, within the runtime's own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
    /// Only if the file has this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// `fs.read`: a part of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FileData {
    /// The file.
    pub file: FileEntry,
    /// The bytes, in base64.
    pub data: String,
}

/// `fs.write`: the whole content, or one part of it with `upload`. The file is
/// put in place as a whole with the last part, or not at all.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FileWriteParams {
    /// The rules.
    pub rules: FileRulesParams,
    /// The file, as `fs.stat` gave it: no link is followed.
    pub path: String,
    /// The bytes, in base64.
    pub data: String,
    /// What the client calls this write, if it comes in parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<String>,
    /// Where this part starts.
    #[serde(default)]
    pub offset: u64,
    /// More parts follow.
    #[serde(default, skip_serializing_if = "is_false")]
    pub more: bool,
    /// Only if the file has this SHA-256, in lower-case hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unchanged: Option<String>,
    /// Only if there is no such file.
    #[serde(default, skip_serializing_if = "is_false")]
    pub new: bool,
}

/// Contents of files may be secret.
impl std::fmt::Debug for FileWriteParams {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("FileWriteParams")
            .field("path", &self.path)
            .field("upload", &self.upload)
            .field("offset", &self.offset)
            .field("more", &self.more)
            .finish_non_exhaustive()
    }
}

/// `fs.write`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FileWritten {
    /// Bytes that are there by now.
    pub offset: u64,
    /// There was no such file before.
    pub created: bool,
}

/// `fs.list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FileListParams {
    /// The rules.
    pub rules: FileRulesParams,
    /// The directory.
    pub path: String,
    /// Only names behind this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The most names, within the runtime's own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
}

/// `fs.list`: names in a directory, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FileListing {
    /// The names.
    pub entries: Vec<ListedFile>,
    /// There are more behind the last.
    #[serde(default)]
    pub more: bool,
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ListedFile {
    /// The name.
    pub name: String,
    /// `file`, `directory`, `link` or `other`.
    pub kind: String,
}

/// `fs.walk`: what lies below a directory, as a search walks it: ignore files
/// honoured, links not followed, what the rules close left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FileWalkParams {
    /// The rules.
    pub rules: FileRulesParams,
    /// The directory.
    pub path: String,
    /// A glob pattern; hidden names are left out unless it mentions them.
    #[serde(default)]
    pub hidden: String,
    /// How deep below the directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u64>,
    /// The most names, within the runtime's own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
}

/// `fs.walk`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FileWalkData {
    /// Where the directory is, free of links.
    pub path: String,
    /// The names below it, each directory before what it holds.
    pub entries: Vec<WalkedFile>,
    /// Names that were left out because of the rules.
    pub closed: u64,
    /// Names that could not be looked at.
    pub unreadable: u64,
    /// There are more.
    pub more: bool,
}

/// One name that a walk found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WalkedFile {
    /// Its path below the directory.
    pub path: String,
    /// `file`, `directory`, `link` or `other`.
    pub kind: String,
    /// When its content last changed, in nanoseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_ns: Option<u64>,
}

/// `fs.remove`: a file, a link or a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FileRemoveParams {
    /// The rules.
    pub rules: FileRulesParams,
    /// What to remove, as `fs.stat` gave it for `name`.
    pub path: String,
    /// Its identity: nothing else is removed.
    pub identity: String,
    /// The most names that a directory may hold, which go with it; absent: it
    /// must be empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<u64>,
    /// Only counts those names.
    #[serde(default, skip_serializing_if = "is_false")]
    pub only_count: bool,
}

/// `fs.remove`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FileRemoved {
    /// The names in the directory, if they were counted.
    pub names: u64,
}

/// `fs.rename`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FileRenameParams {
    /// The rules.
    pub rules: FileRulesParams,
    /// The file, as `fs.stat` gave it for `name`.
    pub path: String,
    /// Its identity: nothing else is renamed.
    pub identity: String,
    /// Its new path, as `fs.stat` gave it for `write`.
    pub to: String,
    /// A file of that name is replaced.
    #[serde(default, skip_serializing_if = "is_false")]
    pub over: bool,
}

/// `fs.bounds`: what a sandbox here is to hold for commands under these rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FileBoundsParams {
    /// The rules. Their roots for writing are what commands may change.
    pub rules: FileRulesParams,
    /// The only programs that may be executed, by name or path; all without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs: Option<Vec<String>>,
    /// Whether all of it has to hold, or as much as can.
    #[serde(default, skip_serializing_if = "is_false")]
    pub required: bool,
}

/// `fs.bounds`: paths for the `sandbox` of `session.create`, escaped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FileBounds {
    /// What may be changed.
    pub writable: Vec<String>,
    /// What programs keep between runs, outside of that.
    #[serde(default)]
    pub caches: Vec<String>,
    /// What cannot be read.
    pub hidden: Vec<String>,
    /// What cannot be changed or made.
    pub protected: Vec<String>,
    /// Repositories that are too many to be protected.
    #[serde(default)]
    pub more_repositories: u64,
    /// Directories that are too large to be searched as a whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partly_searched: Vec<String>,
    /// The only files that can be executed, if programs were listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executables: Option<Vec<String>>,
}

/// `fs.mkdir`: a directory and its missing parents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FileMkdirParams {
    /// The rules.
    pub rules: FileRulesParams,
    /// The directory.
    pub path: String,
}

/// `fs.mkdir`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FileMkdirData {
    /// There was no such directory before.
    pub created: bool,
}
