//! What a command costs.

use crate::{Cost, MIB, ROUNDS, Setting, compare, percent, rate};
use halter_bench::cost::own_cpu;
use halter_bench::measure::run_child;
use halter_bench::one_core::OneCore;
use halter_bench::report::{Goal, remark};
use halter_bench::runtime::{Line, Runtime, request};
use halter_exec::{Environment, run};
use serde_json::{Value, json};
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Instant;
use terminal_runtime::daemon::{Daemon, ShutdownRequest};
use terminal_runtime::settings::{EnvFile, Settings, child_environment};
use tokio_util::sync::CancellationToken;

/// External programs in a round, and commands of a shell itself.
const PROGRAMS: u32 = 1000;
const BUILTINS: u32 = 5000;

/// Rounds of external programs: these scatter more than anything else.
const SPAWN_ROUNDS: usize = 9;

/// Shells that are kept warm beside what is measured.
const CROWD: u32 = 400;

/// Commands before anything is measured.
const WARM_UP: u32 = 50;

/// The same command again and again, in one session.
struct Repeated {
    line: Line,
    request: String,
}

impl Repeated {
    /// In a session with Bash.
    fn new(runtime: &Runtime, what: Value) -> anyhow::Result<Self> {
        Self::in_session(runtime, what, Line::session)
    }

    fn in_session(
        runtime: &Runtime,
        what: Value,
        open: fn(&mut Line) -> anyhow::Result<String>,
    ) -> anyhow::Result<Self> {
        let mut line = runtime.connect()?;
        let mut params = what;
        if let Some(fields) = params.as_object_mut() {
            fields.insert("session_id".to_owned(), open(&mut line)?.into());
        }
        let request = request("exec.run", params);
        let mut repeated = Self { line, request };
        repeated.run(WARM_UP)?;
        Ok(repeated)
    }

    fn run(&mut self, count: u32) -> anyhow::Result<()> {
        for _ in 0..count {
            let answer = self.line.ask(&self.request)?;
            anyhow::ensure!(answer.contains("\"exit_code\":0"), "{answer}");
        }
        Ok(())
    }

    fn cost(&mut self, runtime: &Runtime, count: u32) -> anyhow::Result<Cost> {
        let (before, started) = (runtime.cpu(), Instant::now());
        self.run(count)?;
        Ok(Cost {
            cpu: runtime.cpu() - before,
            wall: started.elapsed(),
        })
    }
}

/// `/bin/true` by `argv`, and by `command` in the shell that a session has by
/// default, against a bare spawn with pipes. The claims are about the work of
/// one core. What it costs on all of them is said beside them, and what Bash
/// costs, which copies itself for each program, with a runtime and without.
pub async fn spawn(setting: &Setting) -> anyhow::Result<()> {
    let one = OneCore::take()?;
    let on_one = Spawns::measure(setting).await?;
    drop(one);
    let on_all = Spawns::measure(setting).await?;
    let unit = "/CPU s";
    let what = "exec.run of /bin/true by argv, against a bare spawn with pipes";
    compare(what, unit, &on_one.argv, Goal::AtLeast(65.0));
    let what = "exec.run of /bin/true by command, against a bare spawn with pipes";
    compare(what, unit, &on_one.command, Goal::AtLeast(50.0));
    for (cores, spawns) in [("on one core", &on_one), ("on all cores", &on_all)] {
        remark(&format!(
            "  {cores}: by argv {:.1} %, by command {:.1} %, by command in Bash {:.1} %, \
             by Bash without a runtime {:.1} %",
            percent(&spawns.argv),
            percent(&spawns.command),
            percent(&spawns.bash),
            percent(&spawns.bare_bash),
        ));
    }
    Ok(())
}

/// Rates of spawns, round by round, each with the floor's.
#[derive(Default)]
struct Spawns {
    argv: Vec<(f64, f64)>,
    command: Vec<(f64, f64)>,
    bash: Vec<(f64, f64)>,
    bare_bash: Vec<(f64, f64)>,
}

impl Spawns {
    async fn measure(setting: &Setting) -> anyhow::Result<Self> {
        let runtime = Runtime::start(&mut Command::new(&setting.program), &[])?;
        let mut by_argv = Repeated::new(&runtime, json!({"argv": ["/bin/true"]}))?;
        let command = json!({"command": "/bin/true"});
        let mut by_command =
            Repeated::in_session(&runtime, command.clone(), Line::default_session)?;
        let mut by_bash = Repeated::new(&runtime, command)?;
        let count = PROGRAMS.to_string();
        let per_second = |cost: Cost| rate(PROGRAMS.into(), cost.cpu);
        let mut spawns = Self::default();
        for _ in 0..SPAWN_ROUNDS {
            let raw = run_child::<Cost>(&["raw-spawn", &count]).await?.report;
            let floor = per_second(raw);
            let argv = by_argv.cost(&runtime, PROGRAMS)?;
            spawns.argv.push((per_second(argv), floor));
            let command = by_command.cost(&runtime, PROGRAMS)?;
            spawns.command.push((per_second(command), floor));
            let bash = by_bash.cost(&runtime, PROGRAMS)?;
            spawns.bash.push((per_second(bash), floor));
            let bare = run_child::<Cost>(&["raw-shell", &count, "/bin/true"]).await?;
            spawns.bare_bash.push((per_second(bare.report), floor));
        }
        Ok(spawns)
    }
}

/// The floor: the standard library's spawn, which copies no memory either.
pub fn raw_spawn(count: u32) -> anyhow::Result<Cost> {
    let spawn = || -> anyhow::Result<()> {
        let mut child = Command::new("/bin/true")
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut output = Vec::new();
        if let Some(mut stdout) = child.stdout.take() {
            stdout.read_to_end(&mut output)?;
        }
        if let Some(mut stderr) = child.stderr.take() {
            stderr.read_to_end(&mut output)?;
        }
        anyhow::ensure!(child.wait()?.success() && output.is_empty());
        Ok(())
    };
    for _ in 0..WARM_UP {
        spawn()?;
    }
    let (before, started) = (own_cpu()?, Instant::now());
    for _ in 0..count {
        spawn()?;
    }
    Ok(Cost {
        cpu: own_cpu()? - before,
        wall: started.elapsed(),
    })
}

/// The same spawns by a small process and by a large one.
pub async fn resident(setting: &Setting) -> anyhow::Result<()> {
    let (small, large) = ("10", "1024");
    let count = PROGRAMS.to_string();
    let (mut library, mut daemon) = (Vec::new(), Vec::new());
    let per_second = |cost: Cost| rate(PROGRAMS.into(), cost.cpu);
    for _ in 0..ROUNDS {
        let at_large = run_child::<Cost>(&["library-spawn", large, &count]).await?;
        let at_small = run_child::<Cost>(&["library-spawn", small, &count]).await?;
        library.push((per_second(at_large.report), per_second(at_small.report)));
        let at_large = runtime_spawn(setting, large)?;
        daemon.push((
            per_second(at_large),
            per_second(runtime_spawn(setting, small)?),
        ));
    }
    let unit = "/CPU s";
    let what = "spawns of a program with 1 GiB resident, against 10 MiB";
    compare(what, unit, &library, Goal::AtLeast(90.0));
    let what = "exec.run by argv of a runtime with 1 GiB resident, against 10 MiB";
    compare(what, unit, &daemon, Goal::AtLeast(90.0));
    Ok(())
}

/// The same programs in a runtime that holds many shells and in one that
/// holds none: a spawn copies neither their memory nor their descriptors.
pub fn crowded(setting: &Setting) -> anyhow::Result<()> {
    let settings = [
        ("TRL_MAX_SESSIONS", "1000"),
        ("TRL_MEMORY_PRESSURE_MB", "0"),
    ];
    let start = || Runtime::start(&mut Command::new(&setting.program), &settings);
    let (full, empty) = (start()?, start()?);
    let mut line = full.connect()?;
    for _ in 0..CROWD {
        let session = line.session()?;
        let command = json!({"session_id": session, "command": ":"});
        line.ask(&request("exec.run", command))?;
    }
    let mut crowded = Repeated::new(&full, json!({"argv": ["/bin/true"]}))?;
    let mut alone = Repeated::new(&empty, json!({"argv": ["/bin/true"]}))?;
    let mut rates = Vec::new();
    for _ in 0..ROUNDS {
        let per_second = |cost: Cost| rate(PROGRAMS.into(), cost.cpu);
        let with_many = per_second(crowded.cost(&full, PROGRAMS)?);
        rates.push((with_many, per_second(alone.cost(&empty, PROGRAMS)?)));
    }
    let what = format!("exec.run by argv beside {CROWD} warm shells, against none");
    compare(&what, "/CPU s", &rates, Goal::AtLeast(80.0));
    Ok(())
}

fn runtime_spawn(setting: &Setting, ballast_mib: &str) -> anyhow::Result<Cost> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--child", "runtime", ballast_mib]);
    let program = setting.program.display().to_string();
    let settings = [
        ("HALTER_BENCH_HOLDER", program.as_str()),
        ("TRL_MEMORY_PRESSURE_MB", "0"),
    ];
    let runtime = Runtime::start(&mut command, &settings)?;
    let mut by_argv = Repeated::new(&runtime, json!({"argv": ["/bin/true"]}))?;
    by_argv.cost(&runtime, PROGRAMS)
}

/// Memory that is really there.
fn ballast(mib: u64) -> anyhow::Result<Vec<u8>> {
    Ok(vec![1; usize::try_from(mib * MIB)?])
}

/// A runtime in this process, beside so much memory; until it is told to end.
pub async fn runtime(ballast_mib: u64) -> anyhow::Result<()> {
    let held = ballast(ballast_mib)?;
    let settings = Settings::from_flags::<String>([])?.completed()?;
    let program = std::env::var_os("HALTER_BENCH_HOLDER").unwrap_or_default();
    let stop = ShutdownRequest::default();
    let mut asked = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let daemon = Daemon::start(
        settings,
        child_environment(&EnvFile::default()),
        program.into(),
    )
    .await?;
    let gently = stop.graceful.clone();
    tokio::spawn(async move {
        asked.recv().await;
        gently.cancel();
    });
    daemon.serve(stop).await;
    drop(std::hint::black_box(held));
    Ok(())
}

/// Spawns by the library, in a process with so much memory.
pub async fn library_spawn(ballast_mib: u64, count: u32) -> anyhow::Result<Cost> {
    let held = ballast(ballast_mib)?;
    let cancel = CancellationToken::new();
    let environment = Environment::new().with("PATH", "/usr/local/bin:/usr/bin:/bin");
    let spec = || halter_exec::Command::new("/bin/true", "/tmp").environment(environment.clone());
    for _ in 0..WARM_UP {
        run(spec(), &cancel, &()).await?;
    }
    let (before, started) = (own_cpu()?, Instant::now());
    for _ in 0..count {
        run(spec(), &cancel, &()).await?;
    }
    let cost = Cost {
        cpu: own_cpu()? - before,
        wall: started.elapsed(),
    };
    drop(std::hint::black_box(held));
    Ok(cost)
}

/// A command of the shell itself, against a shell that is driven the same way
/// without a runtime.
pub async fn builtin(setting: &Setting) -> anyhow::Result<()> {
    let runtime = Runtime::start(&mut Command::new(&setting.program), &[])?;
    let mut repeated = Repeated::new(&runtime, json!({"command": ":"}))?;
    let (mut cpu, mut wall) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let count = BUILTINS.to_string();
        let raw = run_child::<Cost>(&["raw-shell", &count, ":"]).await?.report;
        let ours = repeated.cost(&runtime, BUILTINS)?;
        let rates = |pick: fn(&Cost) -> std::time::Duration| {
            let rate_of = |cost: &Cost| rate(BUILTINS.into(), pick(cost));
            (rate_of(&ours), rate_of(&raw))
        };
        cpu.push(rates(|cost| cost.cpu));
        wall.push(rates(|cost| cost.wall));
    }
    let what = "builtins in a warm shell, against the same technique without a daemon";
    compare(what, "/CPU s", &cpu, Goal::AtLeast(40.0));
    compare(what, "/s", &wall, Goal::AtLeast(40.0));
    Ok(())
}
