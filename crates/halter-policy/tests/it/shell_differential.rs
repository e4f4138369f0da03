//! What the judge allows is run by a real bash under strace: it must execute
//! listed programs only, whatever a shell that lives across command lines may
//! hold in its variables.
//!
//! `HALTER_FUZZ_COMMANDS` says how many commands are run, `HALTER_FUZZ_SEED`
//! which.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use halter_policy::shell::ShellDecision;

use crate::bash_grammar::{Dice, LISTED, command_line};
use crate::support::judge;

/// What an earlier command line may have left behind.
const BEFORE: &str = r#"v='a[$(zz)]' w='-exec zz {} +' o='--pre=zz' x=zz y='-v a[$(zz)] -o 1' n='3' q=v
set -- 'a[$(zz)]' zz -exec zz; arr=('a[$(zz)]' zz); k='a[$(zz)]' i='a[$(zz)]'
"#;

/// Commands that are run under one strace.
const BATCH: usize = 100;

fn number(variable: &str, default: u64) -> u64 {
    let text = std::env::var(variable).unwrap_or_default();
    text.parse().unwrap_or(default)
}

#[test]
fn what_is_allowed_executes_listed_programs_only() {
    let strace = Command::new("strace").arg("-V").output();
    if strace.is_err() || Command::new("bash").arg("--version").output().is_err() {
        println!("skipped: needs strace and bash");
        return;
    }
    let seed = number("HALTER_FUZZ_SEED", 20_261_116);
    let wanted = usize::try_from(number("HALTER_FUZZ_COMMANDS", 300)).unwrap();
    println!("seed {seed}, {wanted} commands");
    let judge = judge(LISTED);
    let mut dice = Dice::new(seed);
    let (mut generated, mut run) = (0_usize, 0);
    while run < wanted {
        let mut batch = Vec::new();
        while batch.len() < BATCH.min(wanted - run) {
            generated += 1;
            let line = command_line(&mut dice);
            if !matches!(judge.decide(&line), ShellDecision::Deny(_)) {
                batch.push(line);
            }
        }
        run += batch.len();
        let unlisted = executed(&batch);
        if !unlisted.is_empty() {
            let guilty: Vec<_> = batch
                .iter()
                .filter(|line| !executed(std::slice::from_ref(line)).is_empty())
                .collect();
            panic!("seed {seed}: {unlisted:?} executed by {guilty:#?}");
        }
    }
    println!("ran {run} of {generated} generated commands: no program that is not listed");
}

/// The programs that are not listed and that a shell executed for these
/// commands.
fn executed(commands: &[String]) -> BTreeSet<String> {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path();
    prepare(base);
    let mut driver = String::new();
    for (index, command) in commands.iter().enumerate() {
        let work = base.join(format!("work{index}"));
        fs::create_dir(&work).unwrap();
        fs::write(work.join("a"), "one\ntwo\n").unwrap();
        fs::write(
            base.join(format!("c{index}")),
            format!("{BEFORE}{command}\n"),
        )
        .unwrap();
        let base = base.display();
        let shell = format!("bash --norc --noprofile {base}/c{index}");
        driver += &format!(
            "cd {base}/work{index} && (ulimit -t 2; timeout 10 {shell}) <a >/dev/null 2>&1 &\n"
        );
        if index % 8 == 7 {
            driver += "wait\n";
        }
    }
    driver += "wait\n";
    fs::write(base.join("driver"), driver).unwrap();
    let log = base.join("log");
    let status = walled(base)
        .args([
            "timeout",
            "-s",
            "KILL",
            "300",
            "strace",
            "-f",
            "--seccomp-bpf",
            "-qq",
            "-s",
            "4096",
            "-e",
        ])
        .args(["trace=execve", "-e", "signal=none", "-o"])
        .arg(&log)
        .args(["bash", "--norc", "--noprofile"])
        .arg(base.join("driver"))
        .env_clear()
        .env("PATH", format!("{}/bin:/usr/bin:/bin", base.display()))
        .env("HOME", base)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success() || status.code().is_some(), "{status:?}");
    let mut allowed: BTreeSet<&str> = LISTED.split_whitespace().collect();
    // The shell under test; git's own `git`.
    allowed.extend(["bash", "git"]);
    let log = fs::read_to_string(&log).unwrap();
    programs(&log)
        .into_iter()
        .filter(|name| !allowed.contains(name.as_str()))
        .collect()
}

/// Starts a program for which, where that may be done, nothing but `base` can be
/// written: programs are judged here, and not where they write.
fn walled(base: &Path) -> Command {
    let wall = "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro /";
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", script, "sh"])
            .arg(base);
        command
    };
    let possible = unshare(wall).output().is_ok_and(|it| it.status.success());
    match possible {
        true => unshare(&format!("{wall} && shift && exec \"$@\"")),
        false => {
            let mut command = Command::new("env");
            command.arg("--");
            command
        }
    }
}

/// The names of the programs that a log shows to have been executed. What could
/// not be executed counts as well: it might exist the next time.
fn programs(log: &str) -> BTreeSet<String> {
    log.lines()
        .filter_map(|line| line.split_once("execve(\"")?.1.split_once('"'))
        .map(|(path, _)| path.rsplit('/').next().unwrap_or(path).to_owned())
        .collect()
}

/// Programs that do nothing, and one that is not listed.
fn prepare(base: &Path) {
    fs::create_dir(base.join("bin")).unwrap();
    for name in ["aa", "bb", "zz"] {
        symlink("/bin/true", base.join("bin").join(name)).unwrap();
    }
}

#[test]
fn strace_sees_a_program_that_is_not_listed() {
    if Command::new("strace").arg("-V").output().is_err() {
        println!("skipped: needs strace and bash");
        return;
    }
    let lines = ["aa; echo $((v))".to_owned()];
    assert_eq!(executed(&lines), BTreeSet::from(["zz".to_owned()]));
}
