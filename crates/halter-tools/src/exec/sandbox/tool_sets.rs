//! Named sets of files that a toolchain needs besides the program itself, so
//! that listing `cargo` lets it run its compiler and linker, and what it built.

use halter_exec::{Environment, find_program};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// One toolchain.
#[derive(Debug)]
pub(super) struct ToolSet {
    /// Its name, for people.
    pub(super) name: &'static str,
    /// Listing one of these brings the set.
    programs: &'static [&'static str],
    /// Further programs it runs.
    helpers: &'static [&'static str],
    /// Directories of programs it runs; below the home directory if relative.
    directories: &'static [&'static str],
    /// What it keeps between runs, below the home directory.
    caches: &'static [&'static str],
    /// Where it puts programs that it built, below the workspace, and the file
    /// that says that the workspace is one of its projects.
    output: Option<(&'static str, &'static str)>,
}

const C_COMPILER: &[&str] = &[
    "cc",
    "c++",
    "gcc",
    "g++",
    "clang",
    "ld",
    "ld.bfd",
    "ld.gold",
    "ld.lld",
    "as",
    "ar",
    "ranlib",
    "pkg-config",
    "sh",
];
const C_DIRECTORIES: &[&str] = &[
    "/usr/lib/gcc",
    "/usr/libexec/gcc",
    "/usr/local/libexec/gcc",
    ".cargo/bin",
    ".rustup",
    "/usr/local/cargo/bin",
    "/usr/local/rustup",
    "/usr/lib/rustlib",
];

pub(super) const TOOL_SETS: &[ToolSet] = &[
    ToolSet {
        name: "rust",
        programs: &["cargo", "rustc", "rustup", "rustfmt", "rustdoc"],
        helpers: C_COMPILER,
        directories: C_DIRECTORIES,
        caches: &[
            ".cargo/registry",
            ".cargo/git",
            ".cargo/.package-cache",
            ".cargo/.package-cache-mutate",
            ".cargo/.global-cache",
        ],
        output: Some(("target", "Cargo.toml")),
    },
    ToolSet {
        name: "node",
        programs: &["node", "npm", "npx", "yarn", "pnpm"],
        helpers: &["node", "npm", "npx", "env", "sh"],
        directories: &[
            "/usr/lib/node_modules",
            "/usr/local/lib/node_modules",
            "/usr/share/nodejs",
            ".nvm/versions",
        ],
        caches: &[
            ".npm",
            ".cache/yarn",
            ".cache/node-gyp",
            ".local/share/pnpm",
        ],
        output: Some(("node_modules", "package.json")),
    },
    ToolSet {
        name: "python",
        programs: &["python", "python3", "pip", "pip3", "pytest", "uv"],
        helpers: &["python", "python3", "env"],
        directories: &[".pyenv", ".local/share/uv/python"],
        caches: &[".cache/pip", ".cache/uv"],
        output: Some((".venv", "pyproject.toml")),
    },
    ToolSet {
        name: "go",
        programs: &["go", "gofmt"],
        helpers: C_COMPILER,
        directories: &[
            "/usr/local/go",
            "/usr/lib/go",
            "/usr/lib/gcc",
            "/usr/libexec/gcc",
        ],
        caches: &[".cache/go-build", "go/pkg"],
        output: None,
    },
    ToolSet {
        name: "git",
        programs: &["git"],
        helpers: &["sh"],
        directories: &[
            "/usr/lib/git-core",
            "/usr/libexec/git-core",
            "/usr/local/libexec/git-core",
        ],
        caches: &[],
        output: None,
    },
];

/// The loaders of dynamic programs, which the kernel executes with them.
const LOADERS: &[&str] = &[
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-linux.so.2",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-musl-aarch64.so.1",
];

/// What a sandbox gets for the programs that may run.
#[derive(Debug, Default)]
pub(super) struct Tools {
    /// The only files that execute, if there is a list.
    pub(super) executables: Option<Vec<PathBuf>>,
    /// Files and directories besides the workspace that may be written.
    pub(super) caches: Vec<PathBuf>,
    /// The sets that are in use.
    pub(super) sets: Vec<&'static str>,
}

/// What these programs need; `None` for any program. Makes the directories
/// that toolchains put their output and caches in.
pub(super) fn tools(
    programs: Option<&[String]>,
    environment: &Environment,
    roots: &[PathBuf],
) -> Tools {
    let home = environment.get("HOME").map(PathBuf::from);
    let find = |name: &str| find_program(OsStr::new(name), environment, Path::new("/")).ok();
    let mut tools = Tools::default();
    let mut files: Vec<PathBuf> = LOADERS.iter().map(PathBuf::from).collect();
    let shells = ["bash", "sh"].map(str::to_owned);
    let named = programs.unwrap_or_default().iter().chain(&shells);
    files.extend(named.filter_map(|name| find(name)));
    for set in TOOL_SETS {
        let listed = |names: &[String]| {
            let is_listed = |name: &&str| names.iter().any(|one| base_name(one) == *name);
            set.programs.iter().any(is_listed)
        };
        let present = || set.programs.iter().any(|name| find(name).is_some());
        if !programs.map_or_else(present, listed) {
            continue;
        }
        tools.sets.push(set.name);
        files.extend(set.helpers.iter().filter_map(|name| find(name)));
        let below_home = |path: &&str| match &home {
            Some(home) => Some(home.join(path)),
            None => Path::new(path).is_absolute().then(|| PathBuf::from(path)),
        };
        files.extend(set.directories.iter().filter_map(below_home));
        if home.is_some() {
            let caches = set.caches.iter().filter_map(below_home);
            tools.caches.extend(caches.filter(|path| make(path)));
        }
        if let (Some((output, project)), Some(_)) = (set.output, programs) {
            let projects = roots.iter().filter(|root| root.join(project).is_file());
            let outputs = projects.map(|root| root.join(output));
            files.extend(outputs.filter(|path| make(path)));
        }
    }
    let interpreters: Vec<PathBuf> = files.iter().filter_map(|file| interpreter(file)).collect();
    files.extend(interpreters);
    tools.executables = programs.map(|_| files.into_iter().filter(|path| path.exists()).collect());
    tools
}

/// The program that runs a script, which need not be the first of its name on
/// the search path.
fn interpreter(script: &Path) -> Option<PathBuf> {
    let mut start = [0; 256];
    let read = File::open(script).ok()?.read(&mut start).ok()?;
    let line = start.get(..read)?.strip_prefix(b"#!")?;
    let line = line.split(|byte| *byte == b'\n').next()?.trim_ascii();
    let path = line.split(u8::is_ascii_whitespace).next()?;
    Some(PathBuf::from(OsStr::from_bytes(path)))
}

fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Whether the path is there, made if it looks like a directory's.
fn make(path: &Path) -> bool {
    let is_file = path
        .parent()
        .is_some_and(|parent| parent.ends_with(".cargo"))
        && path.extension().is_none()
        && path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('.'));
    path.exists() || (!is_file && std::fs::create_dir_all(path).is_ok())
}
