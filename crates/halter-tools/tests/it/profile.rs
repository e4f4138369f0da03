//! `profile`.

use crate::support::{Workspace, eventually, write_program};
use halter_protocol::{Action, ToolCall, ToolErrorCode};
use halter_tools::PolicySettings;
use halter_tools::limits::{
    PROFILE_DEFAULT_HERTZ, PROFILE_DEFAULT_SECS, PROFILE_FUNCTIONS, PROFILE_HERTZ,
    PROFILE_OUTPUT_BYTES, PROFILE_SECS,
};
use serde_json::{Value, json};
use std::path::Path;

/// Takes so much time of a processor, however many share it, and says so.
const BUSY: &str = "python3 -c 'import time\nwhile time.process_time() < 0.7: pass\n\
                    print(\"worked\")'";

fn settings() -> PolicySettings {
    PolicySettings {
        allowed_shell_commands: vec!["*".to_owned()].into(),
        ..PolicySettings::default()
    }
}

fn workspace() -> Workspace {
    Workspace::with_settings(settings())
}

/// A session that finds this instead of perf.
fn with_perf(script: &str) -> (Workspace, tempfile::TempDir) {
    let programs = tempfile::tempdir().unwrap();
    let perf = programs.path().join("perf");
    write_program(&perf, &format!("#!/bin/sh\n{script}\n"));
    let workspace = Workspace::with_programs(settings(), programs.path());
    (workspace, programs)
}

fn has_perf() -> bool {
    let found = Path::new("/usr/bin/perf").exists();
    if !found {
        crate::support::skipped("perf");
    }
    found
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

#[tokio::test]
async fn a_command_is_sampled_from_its_start_to_its_end() {
    if !has_perf() {
        return;
    }
    let workspace = workspace();
    let command = format!("{BUSY}; exit 3");
    let found = workspace
        .ok("profile", json!({"command": command, "hertz": 500}))
        .await;
    assert_eq!(found["exit_code"], 3, "{found}");
    assert_eq!(found["output"], "worked\n", "{found}");
    if found["method"] == "proc" {
        return crate::support::skipped(&format!("a perf that works: {}", found["note"]));
    }
    assert!(found["sample_count"].as_u64().unwrap() > 50, "{found}");
    let hottest = &found["summary"][0];
    assert!(hottest["self_percent"].as_f64().unwrap() > 0.0, "{found}");
    let folded = std::fs::read_to_string(text(&found["folded"])).unwrap();
    let (stack, _) = folded.lines().next().unwrap().rsplit_once(' ').unwrap();
    assert!(stack.contains(';'), "{folded}");
    assert!(folded.contains("python3;"), "{folded}");
    // The file can be read by the tool that reads.
    let picture = workspace
        .ok("read", json!({"path": found["svg"], "limit": 3}))
        .await;
    assert!(picture.to_string().contains("<svg"), "{picture}");
    workspace.store.close().await;
}

/// A program that spends its time in one function.
const BURNS: &str = "#include <time.h>\n\
    __attribute__((noinline)) unsigned burn_the_time(unsigned seed) {\n\
        for (unsigned long i = 0; i < 20000000; i++) seed = seed * 1664525 + 1013904223 + (unsigned)i;\n\
        return seed;\n\
    }\n\
    int main(void) {\n\
        unsigned seed = 1;\n\
        while (clock() < CLOCKS_PER_SEC) seed = burn_the_time(seed);\n\
        return seed == 0;\n\
    }\n";

/// The signals that profilers of the same process catch.
fn caught_profiling_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = u64::from_str_radix(caught.unwrap().trim(), 16).unwrap();
    let signals = [
        rustix::process::Signal::PROF,
        rustix::process::Signal::VTALARM,
        rustix::process::Signal::ALARM,
        rustix::process::Signal::TRAP,
        rustix::process::Signal::IO,
    ];
    let mask = signals.map(|it| 1 << (it.as_raw() - 1));
    mask.into_iter().fold(0, |all, one: u64| all | one) & caught
}

#[tokio::test]
async fn the_function_that_takes_the_time_is_named_and_this_process_catches_nothing() {
    if !has_perf() {
        return;
    }
    let workspace = workspace();
    workspace.put("burns.c", BURNS);
    let built = std::process::Command::new("cc")
        .args(["-O1", "-fno-omit-frame-pointer", "-o", "burns", "burns.c"])
        .current_dir(workspace.dir())
        .status();
    if !built.is_ok_and(|status| status.success()) {
        return crate::support::skipped("a C compiler");
    }
    let input = json!({"command": "./burns", "hertz": 500, "output_path": "graph.svg"});
    let found = workspace.ok("profile", input).await;
    assert_eq!(found["exit_code"], 0, "{found}");
    if found["method"] == "proc" {
        return crate::support::skipped(&format!("a perf that works: {}", found["note"]));
    }
    let hottest = &found["summary"][0];
    assert_eq!(hottest["function"], "burn_the_time", "{found}");
    assert!(hottest["self_percent"].as_f64().unwrap() > 50.0, "{found}");
    assert_eq!(found["svg"], "graph.svg", "{found}");
    let graph = workspace.get("graph.svg");
    assert!(graph.contains("<svg") && graph.contains("burn_the_time"));
    let folded = std::fs::read_to_string(text(&found["folded"])).unwrap();
    assert!(folded.contains("main;burn_the_time "), "{folded}");
    assert_eq!(caught_profiling_signals(), 0);
    workspace.store.close().await;
}

#[tokio::test]
async fn without_perf_the_kernel_is_asked_and_the_result_says_so() {
    let (workspace, _programs) = with_perf("echo 'no permission' >&2; exit 1");
    let input = json!({"command": "sleep 0.5; echo done", "output_path": "graph.svg"});
    let found = workspace.ok("profile", input).await;
    assert_eq!(found["method"], "proc", "{found}");
    assert!(text(&found["note"]).contains("no permission"), "{found}");
    assert_eq!(found["output"], "done\n", "{found}");
    assert_eq!(found["svg"], "graph.svg", "{found}");
    assert!(workspace.get("graph.svg").contains("sleep"), "{found}");
    assert!(found["sample_count"].as_u64().unwrap() > 0, "{found}");
    workspace.store.close().await;
}

#[tokio::test]
async fn a_process_of_the_session_is_sampled_and_no_other() {
    let (workspace, _programs) = with_perf("exit 1");
    let command = "sleep 1000 & echo $!";
    let started = workspace.ok("shell", json!({"command": command})).await;
    let pid: i64 = text(&started["stdout"]).trim().parse().unwrap();
    let found = workspace
        .ok("profile", json!({"pid": pid, "last_seconds": 1}))
        .await;
    assert!(found.get("exit_code").is_none(), "{found}");
    assert!(found["total_ms"].as_u64().unwrap() >= 1000, "{found}");
    let folded = std::fs::read_to_string(text(&found["folded"])).unwrap();
    // A sample may come before the shell's child has become the program.
    assert!(
        folded.lines().any(|stack| stack.starts_with("sleep")),
        "{folded}"
    );
    let own = i64::from(std::process::id());
    let input = json!({"pid": own, "seconds": 1});
    let denied = ToolErrorCode::PolicyDenied;
    workspace.error("profile", input, denied).await;
    workspace.store.close().await;
}

#[tokio::test]
async fn a_command_that_does_not_end_is_ended_with_the_time() {
    let (workspace, _programs) = with_perf("exit 1");
    let command = "echo $$ > pid; while :; do :; done";
    let input = json!({"command": command, "seconds": 1});
    let found = workspace.ok("profile", input).await;
    assert_eq!(found["ended_after_secs"], 1, "{found}");
    let pid = workspace.get("pid");
    let path = format!("/proc/{}/stat", pid.trim());
    assert!(!Path::new(&path).exists());
    workspace.store.close().await;
}

#[tokio::test]
async fn a_cancel_ends_the_command_and_whoever_samples_it() {
    let (workspace, programs) = with_perf("echo $$ > $0.pid; exec sleep 1000");
    let command = "echo $$ > pid; sleep 1000";
    let input = json!({"command": command});
    let pid_file = programs.path().join("perf.pid");
    let cancel = workspace.cancel.clone();
    let stopping = async {
        let written = || std::fs::read_to_string(&pid_file).is_ok_and(|it| it.ends_with('\n'));
        eventually("perf runs", written).await;
        cancel.cancel();
    };
    let cancelled = workspace.call("profile", input);
    let (cancelled, ()) = tokio::join!(cancelled, stopping);
    assert_eq!(cancelled.unwrap_err().code, ToolErrorCode::Cancelled);
    let pid = std::fs::read_to_string(&pid_file).unwrap();
    let path = format!("/proc/{}/stat", pid.trim());
    eventually("perf has ended", || !Path::new(&path).exists()).await;
    workspace.store.close().await;
}

#[tokio::test]
async fn output_is_kept_up_to_a_bound() {
    let (workspace, _programs) = with_perf("exit 1");
    for (bytes, omitted) in [(0, Value::Null), (1, json!(1))] {
        let bytes = PROFILE_OUTPUT_BYTES + bytes;
        let command = format!("head -c {bytes} /dev/zero | tr '\\0' x");
        let found = workspace.ok("profile", json!({"command": command})).await;
        assert_eq!(text(&found["output"]).len(), PROFILE_OUTPUT_BYTES);
        assert_eq!(found["output_omitted_bytes"], omitted);
    }
    workspace.store.close().await;
}

#[tokio::test]
async fn so_many_functions_are_listed() {
    let functions: String = (0..=PROFILE_FUNCTIONS)
        .map(|number| format!("p 1 \\n\\t 1a f{number} (x)\\n\\n"))
        .collect();
    let script = format!(
        "case $1 in script) printf '{functions}'; exit ;; esac; trap 'exit 0' INT; \
         for it; do case $it in fifo:*) echo ack >\"${{it##*,}}\" ;; esac; done; \
         while :; do sleep 0.01; done"
    );
    let (workspace, _programs) = with_perf(&script);
    let found = workspace
        .ok("profile", json!({"command": "true", "seconds": 1}))
        .await;
    assert_eq!(found["method"], "perf", "{found}");
    assert_eq!(found["sample_count"], PROFILE_FUNCTIONS as u64 + 1);
    assert_eq!(
        found["summary"].as_array().unwrap().len(),
        PROFILE_FUNCTIONS
    );
    assert_eq!(found["summary"][0]["function"], "f0");
    workspace.store.close().await;
}

#[tokio::test]
async fn what_cannot_be_sampled_is_refused_before_anything_runs() {
    let workspace = workspace();
    let both = json!({"command": "touch ran", "pid": 1});
    for input in [json!({}), both] {
        let message = workspace.failure("profile", input).await;
        assert!(message.contains("either a `command`"), "{message}");
    }
    for (field, bad) in [
        ("last_seconds", json!(0)),
        ("seconds", json!(0)),
        ("seconds", json!(PROFILE_SECS + 1)),
        ("hertz", json!(0)),
        ("hertz", json!(PROFILE_HERTZ + 1)),
        ("pid", json!(0)),
    ] {
        let mut input = json!({"command": "touch ran"});
        input[field] = bad;
        workspace
            .error("profile", input, ToolErrorCode::InvalidArguments)
            .await;
    }
    assert!(!workspace.dir().join("ran").exists());
    let specs = workspace.tools.specs();
    let spec = specs
        .iter()
        .find(|spec| spec.name.as_str() == "profile")
        .unwrap();
    let fields = &spec.input_schema["properties"];
    assert_eq!(fields["last_seconds"]["default"], PROFILE_DEFAULT_SECS);
    assert_eq!(fields["hertz"]["default"], PROFILE_DEFAULT_HERTZ);
    workspace.store.close().await;
}

#[tokio::test]
async fn its_command_is_judged_like_one_of_the_shell() {
    let workspace = Workspace::with_settings(PolicySettings {
        allowed_shell_commands: vec!["ls".to_owned()].into(),
        ..PolicySettings::default()
    });
    let input = json!({"command": "touch ran", "output_path": "graph.svg"});
    let call = ToolCall {
        id: "c".into(),
        name: "profile".into(),
        arguments: input.clone(),
    };
    let run = Action::Run {
        command: "touch ran".to_owned(),
        directory: None,
    };
    let write = Action::Write {
        path: "graph.svg".into(),
    };
    assert_eq!(workspace.tools.actions(&call).unwrap(), [run, write]);
    let denied = ToolErrorCode::PolicyDenied;
    workspace.error("profile", input, denied).await;
    assert!(!workspace.dir().join("ran").exists());
    workspace.store.close().await;
}
