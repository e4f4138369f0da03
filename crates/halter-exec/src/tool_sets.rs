//! Named sets of files that a toolchain needs besides the program itself, so
//! that listing `cargo` lets it run its compiler and linker, and what it built.

use crate::{Environment, find_program};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// One toolchain.
#[derive(Debug)]
struct ToolSet {
    /// Listing one of these brings the set.
    programs: &'static [&'static str],
    /// Further programs it runs.
    helpers: &'static [&'static str],
    /// Directories of programs it runs; below the home directory if relative.
    directories: &'static [&'static str],
    /// What it keeps between runs, below the home directory; nothing that is
    /// on the search path, and nothing that it would run from there.
    caches: &'static [&'static str],
    /// Variables that say where it has what is otherwise below this directory;
    /// the first that is set counts.
    moved_by: &'static [(&'static str, &'static str)],
    output: Option<Output>,
    /// Whether it runs programs that it builds in the temporary directory.
    runs_temporary: bool,
}

/// Where it puts programs that it built.
#[derive(Debug)]
struct Output {
    /// Below a project.
    directory: &'static str,
    /// The file that says that a directory is one of its projects.
    project: &'static str,
    /// The variable that names another directory.
    variable: Option<&'static str>,
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

const TOOL_SETS: &[ToolSet] = &[
    ToolSet {
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
        moved_by: &[("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")],
        output: Some(Output {
            directory: "target",
            project: "Cargo.toml",
            variable: Some("CARGO_TARGET_DIR"),
        }),
        runs_temporary: true,
    },
    ToolSet {
        programs: &["node", "npm", "npx", "yarn", "pnpm"],
        helpers: &["node", "npm", "npx", "env", "sh"],
        directories: &[
            "/usr/lib/node_modules",
            "/usr/local/lib/node_modules",
            "/usr/share/nodejs",
            ".nvm/versions",
        ],
        // Not `.npm/_npx`, whose programs `npx` runs, and not the directory of
        // programs that pnpm has beside its store.
        caches: &[
            ".npm/_cacache",
            ".npm/_logs",
            ".cache/yarn",
            ".cache/node-gyp",
            ".local/share/pnpm/store",
        ],
        moved_by: &[
            ("npm_config_cache", ".npm"),
            ("NPM_CONFIG_CACHE", ".npm"),
            ("NVM_DIR", ".nvm"),
            ("YARN_CACHE_FOLDER", ".cache/yarn"),
            ("npm_config_store_dir", ".local/share/pnpm/store"),
            ("XDG_CACHE_HOME", ".cache"),
            ("XDG_DATA_HOME", ".local/share"),
        ],
        output: Some(Output {
            directory: "node_modules",
            project: "package.json",
            variable: None,
        }),
        runs_temporary: false,
    },
    ToolSet {
        programs: &["python", "python3", "pip", "pip3", "pytest", "uv"],
        helpers: &["python", "python3", "env"],
        directories: &[".pyenv", ".local/share/uv/python"],
        caches: &[".cache/pip", ".cache/uv"],
        moved_by: &[
            ("PYENV_ROOT", ".pyenv"),
            ("UV_PYTHON_INSTALL_DIR", ".local/share/uv/python"),
            ("PIP_CACHE_DIR", ".cache/pip"),
            ("UV_CACHE_DIR", ".cache/uv"),
            ("XDG_CACHE_HOME", ".cache"),
            ("XDG_DATA_HOME", ".local/share"),
        ],
        output: Some(Output {
            directory: ".venv",
            project: "pyproject.toml",
            variable: Some("VIRTUAL_ENV"),
        }),
        runs_temporary: false,
    },
    ToolSet {
        programs: &["go", "gofmt"],
        helpers: C_COMPILER,
        directories: &[
            "/usr/local/go",
            "/usr/lib/go",
            "/usr/lib/gcc",
            "/usr/libexec/gcc",
        ],
        caches: &[".cache/go-build", "go/pkg/mod", "go/pkg/sumdb"],
        moved_by: &[
            ("GOROOT", "/usr/local/go"),
            ("GOCACHE", ".cache/go-build"),
            ("GOMODCACHE", "go/pkg/mod"),
            ("GOPATH", "go"),
            ("XDG_CACHE_HOME", ".cache"),
        ],
        output: None,
        runs_temporary: true,
    },
    ToolSet {
        programs: &["git"],
        helpers: &["sh"],
        directories: &[
            "/usr/lib/git-core",
            "/usr/libexec/git-core",
            "/usr/local/libexec/git-core",
        ],
        caches: &[],
        moved_by: &[],
        output: None,
        runs_temporary: false,
    },
];

/// What lies beside the `bin` of a toolchain that was installed in a directory
/// of its own.
const INSTALLATION_MARKS: &[&str] = &[
    "pkg/tool",
    "lib/rustlib",
    "lib/node_modules",
    "pyvenv.cfg",
    "conda-meta",
];

/// Directories in which programs of all kinds are installed.
const COMMON_PREFIXES: &[&str] = &["/", "/usr", "/usr/local"];

/// The loaders of dynamic programs, which the kernel executes with them.
const LOADERS: &[&str] = &[
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-linux.so.2",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-musl-aarch64.so.1",
];

/// How far projects within a workspace are looked for.
const PROJECT_DEPTH: usize = 3;
const PROJECT_ENTRIES: usize = 2_000;

/// Which toolchains are asked for, and where their projects are.
#[derive(Debug, Clone, Copy)]
pub struct ToolScope<'list> {
    /// The only programs that may run, by name or path; absent: any.
    pub programs: Option<&'list [String]>,
    /// Directories that commands may change.
    pub writable: &'list [PathBuf],
    /// Whether a directory of this name is searched for projects.
    pub is_searched: fn(&OsStr) -> bool,
}

/// What a sandbox gets for the programs that may run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolFiles {
    /// The only files that execute, if there is a list.
    pub executables: Option<Vec<PathBuf>>,
    /// Files and directories besides the workspace that may be written.
    pub caches: Vec<PathBuf>,
}

/// What the programs need, of what is there.
#[must_use]
pub fn tool_files(scope: ToolScope<'_>, environment: &Environment) -> ToolFiles {
    let mut wanted = wanted(scope, environment);
    wanted.caches.retain(|path| path.exists());
    if let Some(files) = &mut wanted.executables {
        files.retain(|path| path.exists());
    }
    wanted
}

/// Makes the directories that toolchains put their caches and, where programs
/// are listed, their output in: only what is there can be opened to them.
pub fn make_tool_places(scope: ToolScope<'_>, environment: &Environment) {
    let caches = wanted(scope, environment).caches;
    // Cargo makes the files of its own.
    let caches = caches.iter().filter(|path| {
        let name = path.file_name().unwrap_or_default();
        !name.to_string_lossy().starts_with(".package-cache") && name != ".global-cache"
    });
    let outputs = match scope.programs {
        Some(_) => new_outputs(scope, environment),
        None => Vec::new(),
    };
    for path in caches.chain(&outputs) {
        if let Err(error) = std::fs::create_dir_all(path) {
            tracing::debug!(path = %path.display(), %error, "a toolchain goes without");
        }
    }
}

/// What the programs need, there or not.
fn wanted(scope: ToolScope<'_>, environment: &Environment) -> ToolFiles {
    let programs = scope.programs;
    let home = environment.get("HOME").map(PathBuf::from);
    let find = |name: &str| find_program(OsStr::new(name), environment, Path::new("/")).ok();
    let mut tools = ToolFiles::default();
    let mut files: Vec<PathBuf> = LOADERS.iter().map(PathBuf::from).collect();
    let shells = ["bash", "sh"].map(str::to_owned);
    let named = programs.unwrap_or_default().iter().chain(&shells);
    files.extend(named.filter_map(|name| find(name)));
    for set in sets(programs, environment) {
        let own: Vec<PathBuf> = set.programs.iter().filter_map(|name| find(name)).collect();
        let installed = own.iter().flat_map(|it| installations(it));
        files.extend(installed.filter(|it| !is_too_wide(it, scope, home.as_deref())));
        files.extend(own);
        files.extend(set.helpers.iter().filter_map(|name| find(name)));
        let place = |path: &&str| set.place(path, home.as_deref(), environment);
        files.extend(set.directories.iter().filter_map(place));
        let caches = set.caches.iter().filter_map(place);
        let caches = caches.filter(|it| !is_too_wide(it, scope, home.as_deref()));
        tools.caches.extend(caches);
        if let (Some(output), Some(_)) = (&set.output, programs) {
            files.extend(output.places(scope, environment));
        }
        if set.runs_temporary {
            files.extend(within(scope.writable, environment, "TMPDIR"));
        }
    }
    let interpreters: Vec<PathBuf> = files.iter().filter_map(|file| interpreter(file)).collect();
    files.extend(interpreters);
    tools.executables = programs.map(|_| files);
    tools
}

/// Whether the listed programs run others that they build in the temporary
/// directory.
#[must_use]
pub fn builds_in_temporary(programs: &[String]) -> bool {
    let is_listed = |name: &&str| programs.iter().any(|one| base_name(one) == *name);
    let mut sets = TOOL_SETS.iter().filter(|set| set.runs_temporary);
    sets.any(|set| set.programs.iter().any(is_listed))
}

/// The directories of toolchains that a program belongs to, by its name and by
/// where that leads.
fn installations(program: &Path) -> Vec<PathBuf> {
    let real = program.canonicalize().ok();
    let named = std::iter::once(program.to_owned()).chain(real);
    let around = named.filter_map(|it| Some(it.parent()?.parent()?.to_owned()));
    around.filter(|it| is_installation(it)).collect()
}

fn is_installation(directory: &Path) -> bool {
    let mut common = COMMON_PREFIXES.iter().map(Path::new);
    let mut marks = INSTALLATION_MARKS.iter();
    common.all(|it| it != directory) && marks.any(|mark| directory.join(mark).exists())
}

/// Whether a directory holds more than a toolchain: the home directory, or what
/// commands may change as a whole.
fn is_too_wide(directory: &Path, scope: ToolScope<'_>, home: Option<&Path>) -> bool {
    let mut others = scope.writable.iter().map(PathBuf::as_path).chain(home);
    directory.parent().is_none() || others.any(|other| other.starts_with(directory))
}

/// The directory that a variable names, if it is one of those that commands may
/// change, and not all of it.
fn within(writable: &[PathBuf], environment: &Environment, variable: &str) -> Option<PathBuf> {
    let named = PathBuf::from(environment.get(variable)?);
    let is_part = |root: &PathBuf| named.starts_with(root) && *root != named;
    writable.iter().any(is_part).then_some(named)
}

/// The toolchains of these programs, or those that are there.
fn sets<'a>(
    programs: Option<&'a [String]>,
    environment: &'a Environment,
) -> impl Iterator<Item = &'static ToolSet> + 'a {
    TOOL_SETS.iter().filter(move |set| {
        set.programs.iter().any(|name| match programs {
            Some(listed) => listed.iter().any(|one| base_name(one) == *name),
            None => find_program(OsStr::new(name), environment, Path::new("/")).is_ok(),
        })
    })
}

impl ToolSet {
    /// Where a path, of the home directory if it is relative, is in truth.
    fn place(&self, path: &str, home: Option<&Path>, environment: &Environment) -> Option<PathBuf> {
        let moved = self.moved_by.iter().find_map(|(variable, directory)| {
            let below = Path::new(path).strip_prefix(directory).ok()?;
            // Go takes a list, and puts what it keeps into the first.
            let named = std::env::split_paths(environment.get(variable)?).next()?;
            named
                .is_absolute()
                .then(|| match below.as_os_str().is_empty() {
                    true => named,
                    false => named.join(below),
                })
        });
        match moved {
            None if Path::new(path).is_absolute() => Some(path.into()),
            None => Some(home?.join(path)),
            moved => moved,
        }
    }
}

impl Output {
    /// The output of every project below these directories.
    fn places(&self, scope: ToolScope<'_>, environment: &Environment) -> Vec<PathBuf> {
        let projects = projects_below(scope, self.project);
        let mut places: Vec<PathBuf> = projects
            .into_iter()
            .map(|(project, _)| project.join(self.directory))
            .collect();
        places.extend(self.named(scope.writable, environment));
        // One outside that is a toolchain, such as an environment of Python.
        let outside = self.variable.and_then(|name| environment.get(name));
        places.extend(outside.map(PathBuf::from).filter(|it| is_installation(it)));
        places
    }

    /// The directory that a variable names, if commands may change it.
    fn named(&self, roots: &[PathBuf], environment: &Environment) -> Option<PathBuf> {
        within(roots, environment, self.variable?)
    }
}

/// Output directories that are made before a toolchain asks for them: those of
/// projects that are no part of another one.
fn new_outputs(scope: ToolScope<'_>, environment: &Environment) -> Vec<PathBuf> {
    let sets = sets(scope.programs, environment);
    let outputs = sets.filter_map(|set| set.output.as_ref());
    outputs
        .flat_map(|output| {
            let projects = projects_below(scope, output.project).into_iter();
            let whole = projects.filter(|(_, is_part)| !is_part);
            let places = whole.map(|(project, _)| project.join(output.directory));
            places
                .chain(output.named(scope.writable, environment))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Directories with such a file, near ones first, and whether each lies within
/// another one.
fn projects_below(scope: ToolScope<'_>, file: &str) -> Vec<(PathBuf, bool)> {
    let mut found: Vec<(PathBuf, bool)> = Vec::new();
    for root in scope.writable {
        let mut waiting = VecDeque::from([(root.clone(), 0)]);
        let mut left = PROJECT_ENTRIES;
        while let Some((directory, depth)) = waiting.pop_front() {
            if directory.join(file).is_file() {
                let is_part = found.iter().any(|(one, _)| directory.starts_with(one));
                found.push((directory.clone(), is_part));
            }
            if depth == PROJECT_DEPTH {
                continue;
            }
            for entry in std::fs::read_dir(&directory)
                .into_iter()
                .flatten()
                .flatten()
            {
                let Some(rest) = left.checked_sub(1) else {
                    break;
                };
                left = rest;
                let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_directory && (scope.is_searched)(&entry.file_name()) {
                    waiting.push_back((entry.path(), depth + 1));
                }
            }
        }
    }
    found
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn scope<'list>(roots: &'list [PathBuf], programs: &'list [String]) -> ToolScope<'list> {
        ToolScope {
            programs: Some(programs),
            writable: roots,
            is_searched: |_| true,
        }
    }

    #[test]
    fn no_cache_holds_programs_that_are_run_from_it() {
        let caches = TOOL_SETS.iter().flat_map(|set| set.caches);
        for cache in caches {
            for programs in [
                ".cargo/bin",
                "go/bin",
                ".npm/_npx",
                ".local/bin",
                ".local/share/pnpm/pnpm",
                ".yarn/bin",
                ".nvm/versions",
            ] {
                assert!(!Path::new(programs).starts_with(cache), "{cache}");
            }
        }
    }

    #[test]
    fn nothing_is_made_by_looking_and_caches_are_where_variables_say() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let environment = Environment::new()
            .with("HOME", root.join("home"))
            .with("CARGO_HOME", root.join("moved"))
            .with("GOPATH", root.join("gopath"));
        let (roots, programs) = ([root.join("work")], ["cargo", "go"].map(str::to_owned));
        let scope = scope(&roots, &programs);
        assert!(tool_files(scope, &environment).caches.is_empty());
        assert!(fs::read_dir(root).unwrap().next().is_none());
        make_tool_places(scope, &environment);
        let caches = tool_files(scope, &environment).caches;
        for name in ["moved/registry", "gopath/pkg/mod", "home/.cache/go-build"] {
            assert!(caches.contains(&root.join(name)), "{name}: {caches:?}");
        }
        assert!(!root.join("home/.cargo").exists() && !root.join("home/go").exists());
    }

    #[test]
    fn a_toolchain_is_found_where_variables_and_its_programs_say() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let program = |path: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "#!/bin/sh\n").unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs::set_permissions(&path, mode).unwrap();
        };
        for path in [
            "go1/bin/go",
            "env/bin/pytest",
            "rust/bin/cargo",
            "rust/bin/rustc",
        ] {
            program(path);
        }
        for name in [
            "go1/pkg/tool",
            "rustup",
            "work/tmp",
            "work/venv",
            "home",
            "store",
        ] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        fs::write(root.join("env/pyvenv.cfg"), "").unwrap();
        let path = ["go1/bin", "env/bin", "rust/bin"].map(|it| root.join(it));
        let environment = Environment::new()
            .with("HOME", root.join("home"))
            .with("PATH", std::env::join_paths(path).unwrap())
            .with("RUSTUP_HOME", root.join("rustup"))
            .with("GOCACHE", root.join("store/go"))
            .with("GOMODCACHE", root.join("store/modules"))
            .with("npm_config_cache", root.join("store/npm"))
            // A cache that would open all of it.
            .with("PIP_CACHE_DIR", &root)
            .with("VIRTUAL_ENV", root.join("work/venv"))
            .with("TMPDIR", root.join("work/tmp"));
        let roots = [root.join("work")];
        let programs = ["cargo", "go", "npm", "pytest"].map(str::to_owned);
        let scope = scope(&roots, &programs);
        make_tool_places(scope, &environment);
        let files = tool_files(scope, &environment);
        let executables = files.executables.unwrap();
        for name in [
            "go1",
            "env",
            "rustup",
            "rust/bin/rustc",
            "work/venv",
            "work/tmp",
        ] {
            assert!(
                executables.contains(&root.join(name)),
                "{name}: {executables:?}"
            );
        }
        for name in ["rust", "work", "home"] {
            assert!(!executables.contains(&root.join(name)), "{name}");
        }
        for name in ["store/go", "store/modules", "store/npm/_cacache"] {
            assert!(files.caches.contains(&root.join(name)), "{name}");
        }
        assert!(!files.caches.contains(&root));
        assert!(builds_in_temporary(&programs) && !builds_in_temporary(&["npm".to_owned()]));
    }

    #[test]
    fn what_a_project_within_builds_executes() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for name in ["sub/member", "other"] {
            fs::create_dir_all(root.join(name)).unwrap();
            fs::write(root.join(name).join("Cargo.toml"), "").unwrap();
        }
        fs::write(root.join("sub/Cargo.toml"), "").unwrap();
        let environment = Environment::new().with("CARGO_TARGET_DIR", root.join("out"));
        let (roots, programs) = ([root.to_owned()], ["cargo".to_owned()]);
        let scope = scope(&roots, &programs);
        make_tool_places(scope, &environment);
        let executables = || tool_files(scope, &environment).executables.unwrap();
        for name in ["sub/target", "other/target", "out"] {
            assert!(executables().contains(&root.join(name)), "{name}");
        }
        // A part of another project builds there, unless it did otherwise.
        let member = root.join("sub/member/target");
        assert!(!executables().contains(&member));
        fs::create_dir(&member).unwrap();
        assert!(executables().contains(&member));
        assert!(!executables().contains(&root.to_owned()));
    }
}
