//! Sessions whose commands run in a container of their own.
//!
//! Owns: making and removing the container through a `docker`-compatible
//! command line, and turning a process of the session into a call of it. The
//! container stays up with an idle process; commands and the shell enter it,
//! with the holder as the parent of the client. Never: talks to an engine by
//! other means, or puts a variable's value on a command line.

pub(in crate::exec) mod placeholders;
mod tree;
mod variables;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use halter_exec::host::{KeptMount, LaunchPlan, PidFd, TREE_MARKER, mount_missing};
use halter_exec::{Command, Environment, ProcessInfo, find_program};
use rustix::io::Errno;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

pub(in crate::exec) use tree::ContainerTree;
use variables::ClientVariables;

use crate::exec::error::{CoreError, StartFailure};
use crate::exec::types::{ContainerOptions, CoreSettings, ExecOrder, Limits, SessionSpec};
use crate::limits::{CONTAINER_DEADLINE, CONTAINER_PROBE_DEADLINE, CONTAINER_PULL_DEADLINE};
use crate::lock::lock;
use crate::sys;

/// Where the directory shared with a container is inside of it.
pub(in crate::exec) const SHARED_INSIDE: &str = "/.trl";

/// The pipe in the shared directory that the session's holder keeps open: a
/// container whose holder is gone ends.
pub(in crate::exec) const ALIVE: &str = "alive";

/// The first process of a container: collects what loses its parent, until its
/// holder is gone.
const IDLE_SLEEP: &str = "sleep 3600";
const IDLE: &str = "trap 'exit 0' TERM; \
                    (while read -r line; do :; done < /.trl/alive; kill -TERM 1) & \
                    while :; do sleep 3600 & wait $!; done";

/// The container of one session. It is made with the first command.
#[derive(Debug)]
pub(in crate::exec) struct Container {
    name: String,
    image: String,
    shared: PathBuf,
    limits: Limits,
    options: ContainerOptions,
    made: OnceCell<Made>,
    /// What is protected since it was made.
    protected: Mutex<BTreeSet<PathBuf>>,
}

/// A container that is up.
#[derive(Debug, Clone, Copy)]
struct Made {
    /// Its first process.
    first: i32,
    namespace: u64,
}

fn failed(message: String) -> CoreError {
    CoreError::StartFailed {
        reason: StartFailure::IsolationUnavailable,
        message,
    }
}

impl Container {
    pub(in crate::exec) fn new(
        name: String,
        image: String,
        shared: PathBuf,
        spec: &SessionSpec,
    ) -> Self {
        Self {
            name,
            image,
            shared,
            limits: spec.limits,
            options: spec.container.clone(),
            made: OnceCell::new(),
            protected: Mutex::default(),
        }
    }

    /// Mounts again what it has lost, and protects these paths. Returns where
    /// something was mounted.
    ///
    /// # Errors
    /// Why some of it stays open.
    pub(in crate::exec) async fn cover(
        &self,
        settings: &CoreSettings,
        protect: &[PathBuf],
    ) -> Result<Vec<PathBuf>, String> {
        let Some(made) = self.made.get().copied() else {
            return Ok(Vec::new());
        };
        let protected: Vec<PathBuf> = {
            let mut protected = lock(&self.protected);
            protected.extend(protect.iter().cloned());
            protected.iter().cloned().collect()
        };
        let (options, name) = (self.options.clone(), self.name.clone());
        let state_dir = settings.state_dir.clone();
        let covered = tokio::task::spawn_blocking(move || {
            let places = options.placeholders.iter().chain(&protected);
            placeholders::make_again(&state_dir, &name, &options, places)
                .map_err(|error| format!("taking the place of a protected path: {error}"))?;
            let process = match PidFd::open(made.first) {
                Ok(process) => process,
                // One that has ended is told by its engine.
                Err(error) if is_gone(&error) => return Ok(Vec::new()),
                Err(error) => return Err(format!("looking at the container: {error}")),
            };
            if !sys::namespace_of(made.first).is_ok_and(|found| found == made.namespace) {
                return Ok(Vec::new());
            }
            let mounts = kept_mounts(&options, &protected);
            mount_missing(&process, made.first, &mounts).map_err(|missing| missing.to_string())
        });
        covered.await.map_err(|error| error.to_string())?
    }

    /// Makes sure that the container is up: the one that an earlier daemon
    /// made, or a new one, once it was prepared for.
    pub(in crate::exec) async fn ready(
        &self,
        settings: &CoreSettings,
        prepare: impl FnOnce() -> Result<(), CoreError>,
    ) -> Result<(), CoreError> {
        sys::sees_containers().map_err(|reason| failed(reason.to_owned()))?;
        let make = || self.make(settings, prepare);
        self.made.get_or_try_init(make).await?;
        Ok(())
    }

    async fn make(
        &self,
        settings: &CoreSettings,
        prepare: impl FnOnce() -> Result<(), CoreError>,
    ) -> Result<Made, CoreError> {
        if let Ok(pid) = self.main_process(settings).await {
            return Ok(pid);
        }
        self.have_image(settings).await?;
        prepare()?;
        let taken = placeholders::make(&settings.state_dir, &self.name, &self.options.placeholders);
        if let Err(error) = taken {
            placeholders::remove(&settings.state_dir, &self.name);
            return Err(failed(format!(
                "the place of a protected path cannot be taken: {error}"
            )));
        }
        let made = self.run(settings).await;
        if made.is_err() {
            // It may have been made and not started: then its name is taken.
            let _ = self.call_remove(settings).await;
            placeholders::remove(&settings.state_dir, &self.name);
        }
        made
    }

    /// Fetches the image, if the engine has not got it: that may take longer
    /// than anything else it does.
    async fn have_image(&self, settings: &CoreSettings) -> Result<(), CoreError> {
        let known = ["image", "inspect", "--format", "{{.Id}}", &self.image];
        let known = call(settings, known.map(OsString::from).to_vec()).await;
        if known.is_ok() {
            return Ok(());
        }
        let program = program(settings)?;
        let words = ["pull", "-q", &self.image].map(OsString::from).to_vec();
        let pull = client(&program, settings.environment.clone(), words);
        let pulled = outcome(pull.deadline(CONTAINER_PULL_DEADLINE)).await;
        pulled.map(drop).map_err(|error| {
            failed(format!(
                "the image `{}` is not there and cannot be fetched: {error}",
                self.image
            ))
        })
    }

    async fn run(&self, settings: &CoreSettings) -> Result<Made, CoreError> {
        let mut words: Vec<OsString> = ["run", "-d", "--rm", "--name", &self.name, "-v"]
            .map(OsString::from)
            .to_vec();
        let mut volume = self.shared.clone().into_os_string();
        volume.push(format!(":{SHARED_INSIDE}"));
        words.push(volume);
        let user = rustix::process::geteuid();
        let engine = engine_of(settings).await?;
        words.extend(option_words(&self.options, engine, user)?);
        if let Some(bytes) = self.limits.memory_bytes {
            words.extend(["--memory".into(), bytes.to_string().into()]);
        }
        if let Some(count) = self.limits.processes {
            words.extend(["--pids-limit".into(), count.to_string().into()]);
        }
        words.extend([
            OsString::from("--entrypoint"),
            "/bin/sh".into(),
            self.image.clone().into(),
            "-c".into(),
            IDLE.into(),
        ]);
        call(settings, words).await?;
        self.main_process(settings).await
    }

    /// The namespace of the container's processes, by way of its first one.
    async fn main_process(&self, settings: &CoreSettings) -> Result<Made, CoreError> {
        let words = ["inspect", "--format", "{{.State.Pid}}", &self.name];
        let answer = call(settings, words.map(OsString::from).to_vec()).await?;
        let pid: i32 = answer.trim().parse().unwrap_or(0);
        match sys::namespace_of(pid) {
            Ok(namespace) if pid > 0 => Ok(Made {
                first: pid,
                namespace,
            }),
            _ => Err(failed(format!(
                "the processes of container `{}` cannot be seen from here; \
                 the engine must run on this machine, and this program as its user",
                self.name
            ))),
        }
    }

    /// Removes the container with everything in it.
    pub(in crate::exec) async fn remove(&self, settings: &CoreSettings) {
        // One that an earlier daemon made ends with its holder.
        if self.made.get().is_some()
            && let Err(error) = self.call_remove(settings).await
        {
            tracing::warn!(%error, container = self.name, "a container stays");
        }
        placeholders::remove(&settings.state_dir, &self.name);
    }

    async fn call_remove(&self, settings: &CoreSettings) -> Result<String, CoreError> {
        call_remove(settings, &self.name).await
    }

    /// The tree of a process in the container; empty if that is not up.
    pub(in crate::exec) fn tree(&self, marker: &str) -> ContainerTree {
        let namespace = self.made.get().map(|made| made.namespace);
        ContainerTree::new(namespace, marker.to_owned())
    }

    /// The namespace of its processes, if it is up.
    pub(in crate::exec) fn namespace(&self) -> Option<u64> {
        self.made.get().map(|made| made.namespace)
    }

    /// Whether this is its idle first process, or what that waits for.
    pub(in crate::exec) fn is_idle_process(&self, process: &ProcessInfo) -> bool {
        let is_child = sys::number_inside(process.ppid) == 1;
        let is_waiting = process.command == IDLE_SLEEP || process.command.contains("/.trl/alive;");
        sys::number_inside(process.pid) == 1 || (is_child && is_waiting)
    }

    /// Has the process of this plan run inside. Values of variables go
    /// through the environment of the client: what stands on a command line
    /// anybody on this machine can read.
    pub(in crate::exec) fn enter(
        &self,
        settings: &CoreSettings,
        plan: &mut LaunchPlan,
        marker: &str,
        terminal: bool,
    ) -> Result<(), CoreError> {
        let program = program(settings)?;
        let mut words: Vec<OsString> = vec![program.clone().into(), "exec".into()];
        words.push(if terminal { "-it" } else { "-i" }.into());
        words.extend(["-w".into(), plan.cwd.clone().into_os_string()]);
        let mut variables = ClientVariables::new(settings.environment.clone());
        variables.pass(TREE_MARKER.as_ref(), marker.as_ref());
        for (name, value) in plan.environment.iter() {
            variables.pass_renamed(name, value);
        }
        let (environment, names, mut script) = variables.finish();
        for name in names {
            words.extend(["-e".into(), name]);
        }
        words.push(self.name.clone().into());
        if let Some(seconds) = self.limits.cpu_seconds {
            // Not when the container is made: an engine that is given one such
            // limit may forget those it was configured with. If it cannot be
            // set, a lower one holds.
            script.push_str(&format!("ulimit -t {seconds} 2>/dev/null\n"));
        }
        if !script.is_empty() {
            script.push_str("exec \"$@\"");
            words.extend(["/bin/sh", "-c", &script, "sh"].map(OsString::from));
        }
        words.append(&mut plan.arguments);
        plan.program = program;
        plan.arguments = words;
        plan.environment = environment;
        plan.cwd = PathBuf::from("/");
        Ok(())
    }
}

/// What a container has mounted for as long as it is up: what it was made with,
/// and what is protected since. A mount cannot be moved away, so what leads to
/// it is one, too.
fn kept_mounts(options: &ContainerOptions, protected: &[PathBuf]) -> Vec<KeptMount> {
    let made = options.mounts.iter().map(|mount| KeptMount {
        source: mount.source.clone(),
        target: mount.target.clone(),
        read_only: mount.read_only,
    });
    let own = |path: &Path, read_only| KeptMount {
        source: Some(path.to_owned()),
        target: path.to_owned(),
        read_only,
    };
    let mut mounts: Vec<KeptMount> = made.collect();
    for path in protected.iter().filter(|path| path.exists()) {
        let Some(root) = options.writable_root(path) else {
            continue;
        };
        mounts.push(own(path, true));
        let parents = path.ancestors().skip(1).take_while(|it| *it != root);
        mounts.extend(parents.map(|parent| own(parent, false)));
    }
    mounts
}

async fn call_remove(settings: &CoreSettings, name: &str) -> Result<String, CoreError> {
    let words = ["rm", "-f", "-t", "0", name];
    call(settings, words.map(OsString::from).to_vec()).await
}

/// Removes a container that an earlier daemon has left.
pub(in crate::exec) async fn remove_left(settings: &CoreSettings, name: &str) {
    if let Err(error) = call_remove(settings, name).await {
        tracing::warn!(%error, container = name, "a container of an earlier runtime stays");
    }
}

/// Whose command line it is, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Engine {
    Docker,
    Podman,
}

/// Asks the program what it is: `docker` may be podman by another name.
async fn engine_of(settings: &CoreSettings) -> Result<Engine, CoreError> {
    let version = call(settings, vec!["--version".into()]).await?;
    Ok(engine_named(&version))
}

fn engine_named(version: &str) -> Engine {
    match version.to_ascii_lowercase().contains("podman") {
        true => Engine::Podman,
        false => Engine::Docker,
    }
}

/// The options of the command line for mounts, network and user.
fn option_words(
    options: &ContainerOptions,
    engine: Engine,
    user: rustix::process::Uid,
) -> Result<Vec<OsString>, CoreError> {
    check_mounts(options)?;
    let mut words = Vec::new();
    for mount in &options.mounts {
        let mut word = OsString::from(match &mount.source {
            Some(_) => "type=bind",
            None => "type=tmpfs",
        });
        if let Some(source) = &mount.source {
            word.push(",source=");
            word.push(source);
        }
        word.push(",target=");
        word.push(&mount.target);
        if mount.read_only {
            word.push(",readonly");
        }
        words.extend(["--mount".into(), word]);
    }
    if options.no_network {
        words.extend(["--network", "none"].map(OsString::from));
    }
    if options.own_user {
        // An engine without rights of its own numbers users anew.
        if engine == Engine::Podman && !user.is_root() {
            words.push("--userns=keep-id".into());
        }
        // Whatever user the image names.
        let group = rustix::process::getegid();
        words.push("--user".into());
        words.push(format!("{}:{}", user.as_raw(), group.as_raw()).into());
    }
    Ok(words)
}

/// Refuses what cannot be mounted, before anything is started.
pub(in crate::exec) fn check_mounts(options: &ContainerOptions) -> Result<(), CoreError> {
    for mount in &options.mounts {
        // Engines differ: some make a directory of what does not exist.
        let is_missing = |path: &&PathBuf| !options.placeholders.contains(path) && !path.exists();
        if let Some(source) = mount.source.as_ref().filter(is_missing) {
            return Err(invalid_mount(
                source,
                "it does not exist on the runtime's machine",
            ));
        }
        for path in mount.source.iter().chain([&mount.target]) {
            if path.as_os_str().as_encoded_bytes().contains(&b',') {
                return Err(invalid_mount(path, "its name has a comma"));
            }
        }
    }
    Ok(())
}

fn invalid_mount(path: &Path, reason: &str) -> CoreError {
    CoreError::StartFailed {
        reason: StartFailure::InvalidInput,
        message: format!("`{}` cannot be mounted: {reason}", path.display()),
    }
}

/// The variables of a command in a container: the image has its own instead
/// of the runtime's.
pub(in crate::exec) fn environment(spec: &SessionSpec, order: &ExecOrder) -> Environment {
    let mut environment = spec.environment.clone();
    environment.extend(order.environment.iter());
    environment
}

fn program(settings: &CoreSettings) -> Result<PathBuf, CoreError> {
    let program = settings.docker.program.as_os_str();
    Ok(find_program(
        program,
        &settings.environment,
        Path::new("/"),
    )?)
}

/// Asks the engine of containers for anything at all: the program alone makes
/// no container. Returns the program.
pub(in crate::exec) async fn probe(settings: &CoreSettings) -> Result<String, String> {
    sys::sees_containers().map_err(str::to_owned)?;
    let program = program(settings).map_err(|error| error.to_string())?;
    let words = ["ps", "-q"].map(OsString::from).to_vec();
    let asked = client(&program, settings.environment.clone(), words);
    let answer = outcome(asked.deadline(CONTAINER_PROBE_DEADLINE)).await;
    answer.map_err(|error| error.to_string())?;
    Ok(program.display().to_string())
}

/// Runs the command line and returns what it printed.
async fn call(settings: &CoreSettings, words: Vec<OsString>) -> Result<String, CoreError> {
    let program = program(settings)?;
    let spec = client(&program, settings.environment.clone(), words);
    outcome(spec).await
}

/// One call of the program.
fn client(program: &Path, environment: Environment, words: Vec<OsString>) -> Command {
    Command::new(program, "/")
        .args(words)
        .environment(environment)
        .deadline(CONTAINER_DEADLINE)
        .grace(Duration::from_secs(1))
}

async fn outcome(spec: Command) -> Result<String, CoreError> {
    let program = spec.program.clone();
    let program = Path::new(&program).display();
    let nobody = |_: halter_exec::OutputChunk| {};
    let done = halter_exec::run(spec, &CancellationToken::new(), &nobody).await?;
    let text = |captured: &halter_exec::CapturedOutput| captured.to_text();
    if done.timed_out {
        return Err(failed(format!(
            "`{program}` did not answer in time; check that its engine runs"
        )));
    }
    if done.status.success() {
        return Ok(text(&done.stdout));
    }
    Err(failed(format!(
        "`{program}` failed: {}",
        text(&done.stderr).trim()
    )))
}

/// Whether no process has the number that was asked for, or a thread has it.
fn is_gone(error: &io::Error) -> bool {
    let error = Errno::from_io_error(error);
    matches!(error, Some(Errno::SRCH | Errno::NOENT | Errno::INVAL))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::types::ContainerMount;

    fn words(source: &str, target: &str) -> Result<Vec<OsString>, String> {
        let options = ContainerOptions {
            mounts: vec![ContainerMount {
                source: (!source.is_empty()).then(|| source.into()),
                target: target.into(),
                read_only: source == "/usr",
            }],
            no_network: true,
            ..ContainerOptions::default()
        };
        let root = rustix::process::Uid::ROOT;
        option_words(&options, Engine::Docker, root).map_err(|error| error.to_string())
    }

    #[test]
    fn files_that_commands_make_are_the_users() {
        let options = ContainerOptions {
            own_user: true,
            ..ContainerOptions::default()
        };
        let words = |engine: Engine, user: u32| {
            let user = rustix::process::Uid::from_raw(user);
            option_words(&options, engine, user).unwrap()
        };
        let group = rustix::process::getegid().as_raw();
        let user = format!("1000:{group}");
        let anew = ["--userns=keep-id", "--user", &user];
        assert_eq!(words(Engine::Podman, 1000), anew);
        assert_eq!(words(Engine::Docker, 1000), ["--user", &user]);
        // Root inside is root outside, unless the engine was told otherwise.
        let root = format!("0:{group}");
        assert_eq!(words(Engine::Podman, 0), ["--user", &root]);
    }

    #[test]
    fn an_engine_is_known_by_what_it_says_and_not_by_its_name() {
        let podman = engine_named("podman version 5.4.2\n");
        assert_eq!(podman, Engine::Podman);
        let docker = engine_named("Docker version 28.1.1, build 4eba377\n");
        assert_eq!(docker, Engine::Docker);
    }

    #[test]
    fn mounts_are_there_and_named_without_commas() {
        let network = ["--network", "none"];
        let bind = ["--mount", "type=bind,source=/usr,target=/usr,readonly"];
        assert_eq!(words("/usr", "/usr").unwrap(), [bind, network].concat());
        let empty = ["--mount", "type=tmpfs,target=/x"];
        assert_eq!(words("", "/x").unwrap(), [empty, network].concat());
        let absent = words("/nowhere-at-all", "/x").unwrap_err();
        assert!(absent.contains("does not exist"), "{absent}");
        let comma = words("", "/x,y").unwrap_err();
        assert!(comma.contains("comma"), "{comma}");
    }

    #[tokio::test]
    async fn a_call_that_takes_too_long_is_given_up() {
        let words = ["-c", "sleep 300"].map(OsString::from).to_vec();
        let spec = client(Path::new("/bin/sh"), Environment::new(), words);
        assert_eq!(spec.deadline, Some(CONTAINER_DEADLINE));
        const { assert!(CONTAINER_PROBE_DEADLINE.as_secs() < CONTAINER_DEADLINE.as_secs()) };
        const { assert!(CONTAINER_DEADLINE.as_secs() < CONTAINER_PULL_DEADLINE.as_secs()) };
        let error = outcome(spec.deadline(Duration::from_millis(20))).await;
        let message = error.unwrap_err().to_string();
        assert!(message.contains("did not answer in time"), "{message}");
    }
}
