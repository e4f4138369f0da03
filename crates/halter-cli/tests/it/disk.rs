//! Disks that are full or cannot be written. They are small ones in memory, in
//! a mount namespace of each test's own.

use crate::place::{Place, Ran};
use serde_json::Value;
use std::fmt::Write as _;
use std::process::Command;

/// A script whose steps each leave their exit code and output behind.
struct Script {
    place: Place,
    text: String,
    steps: usize,
}

impl Script {
    fn new() -> Self {
        Self {
            place: Place::new(),
            text: "set -eu\n".to_owned(),
            steps: 0,
        }
    }

    /// Lines of shell that must succeed.
    fn shell(mut self, lines: &str) -> Self {
        writeln!(self.text, "{lines}").unwrap();
        self
    }

    /// A disk of so many bytes in memory, at a place below the home.
    fn disk(self, at: &str, bytes: usize) -> Self {
        let at = self.place.home().join(at).display().to_string();
        self.shell(&format!(
            "mkdir -p '{at}'; mount -t tmpfs -o size={bytes} none '{at}'"
        ))
    }

    /// A run of the binary, which may fail.
    fn halter(mut self, arguments: &str) -> Self {
        let (binary, step) = (env!("CARGO_BIN_EXE_halter"), self.steps);
        self.steps += 1;
        self.shell(&format!(
            "code=0; '{binary}' {arguments} </dev/null >\"$OUT/{step}.out\" 2>\"$OUT/{step}.err\" \
             || code=$?; echo $code >\"$OUT/{step}.code\""
        ))
    }

    /// The outcome of every run, or nothing where no disk can be mounted.
    fn run(self) -> Option<(Place, Vec<Ran>)> {
        if !can_mount() {
            crate::place::skipped("a system that lets a test mount a disk of its own");
            return None;
        }
        let out = self.place.root().join("out");
        std::fs::create_dir(&out).unwrap();
        let output = Command::new("unshare")
            .args([
                "--user",
                "--map-root-user",
                "--mount",
                "sh",
                "-c",
                &self.text,
            ])
            .current_dir(self.place.work())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.place.home())
            .env("OUT", &out)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = |step: usize, kind: &str| {
            std::fs::read_to_string(out.join(format!("{step}.{kind}"))).unwrap()
        };
        let ran = (0..self.steps).map(|step| Ran {
            code: Some(text(step, "code").trim().parse().unwrap()),
            stdout: text(step, "out"),
            stderr: text(step, "err"),
        });
        let ran = ran.collect();
        Some((self.place, ran))
    }
}

fn can_mount() -> bool {
    let tried = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount"])
        .args(["sh", "-c", "mount -t tmpfs none /tmp"])
        .output();
    tried.is_ok_and(|output| output.status.success())
}

const STORE: &str = ".local/share/halter";

/// Leaves a file that takes all the room there is but so much.
fn fill(directory: &str, leave_bytes: usize) -> String {
    format!(
        "head -c 100000000 /dev/zero >\"{directory}/fill\" 2>/dev/null || true\n\
         truncate -s -{leave_bytes} \"{directory}/fill\""
    )
}

#[track_caller]
fn assert_told(ran: &Ran, code: &str, words: &[&str]) {
    ran.expect(1);
    assert!(ran.stderr.contains(code), "{}", ran.stderr);
    for word in words {
        assert!(ran.stderr.contains(word), "{word}: {}", ran.stderr);
    }
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
}

fn session_of(ran: &Ran) -> String {
    let first: Value = serde_json::from_str(ran.stdout.lines().next().unwrap()).unwrap();
    first["session_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_full_disk_is_named_and_costs_no_session() {
    let script = Script::new()
        .disk(STORE, 512 * 1024)
        .halter("run --streaming-json hello")
        .shell("id=$(sed -n '1s/.*\"session_id\":\"\\([^\"]*\\)\".*/\\1/p' \"$OUT/0.out\")")
        .shell(&fill(&format!("$HOME/{STORE}"), 0))
        .halter("run --session $id hello")
        .halter("run --text hello")
        .halter("sessions list")
        .shell(&format!("rm \"$HOME/{STORE}/fill\""))
        .halter("run --text --session $id 'hello again'")
        .halter("sessions list --json")
        .halter("sessions show --json $id");
    let Some((_, ran)) = script.run() else { return };
    let [first, more, new, list, again, listed, shown] = &ran[..] else {
        panic!("{}", ran.len());
    };
    first.expect(0);
    for refused in [more, new, list] {
        assert_told(refused, "store_disk_full", &["sessions.db", "free some"]);
    }
    assert_eq!(more.json()["error"]["code"], "store_disk_full");
    again.expect(0);
    let sessions = listed.expect(0).json()["sessions"].clone();
    assert_eq!(sessions.as_array().unwrap().len(), 1);
    assert_eq!(sessions[0]["session_id"], session_of(first));
    let ends = shown.expect(0).lines();
    let ends = ends
        .iter()
        .filter(|event| event["payload"]["kind"] == "turn_completed");
    assert_eq!(ends.count(), 2);
}

#[test]
fn a_disk_that_fills_up_in_a_turn_ends_it_and_the_session_goes_on_later() {
    let script = Script::new()
        .disk(STORE, 2 * 1024 * 1024)
        .shell("seq 100000 >numbers.txt")
        .halter("run --streaming-json hello")
        .shell("id=$(sed -n '1s/.*\"session_id\":\"\\([^\"]*\\)\".*/\\1/p' \"$OUT/0.out\")")
        .shell(&fill(&format!("$HOME/{STORE}"), 96 * 1024))
        .shell("for step in 1 2 3 4 5 6 7 8 9; do")
        .halter("run --session $id 'read numbers.txt'")
        .shell("test \"$(cat \"$OUT/1.code\")\" = 0 || break; done")
        .shell(&format!("rm \"$HOME/{STORE}/fill\""))
        .halter("run --text --session $id 'hello again'")
        .halter("sessions show --json $id");
    let Some((_, ran)) = script.run() else { return };
    let [first, cut, again, shown] = &ran[..] else {
        panic!("{}", ran.len());
    };
    first.expect(0);
    assert_told(cut, "store_disk_full", &["sessions.db", "free some"]);
    again.expect(0);
    let events = shown.expect(0).lines();
    let sequences: Vec<u64> = events
        .iter()
        .map(|event| event["sequence"].as_u64().unwrap())
        .collect();
    let expected: Vec<u64> = (1..=sequences.len() as u64).collect();
    assert_eq!(sequences, expected, "nothing committed is lost");
}

#[test]
fn a_disk_that_cannot_be_written_is_named() {
    let script = Script::new()
        .disk(STORE, 512 * 1024)
        .halter("run --streaming-json hello")
        .shell(&format!("mount -o remount,ro \"$HOME/{STORE}\""))
        .halter("run --text hello")
        .halter("sessions list")
        .shell(&format!("mount -o remount,rw \"$HOME/{STORE}\""))
        .halter("sessions list");
    let Some((_, ran)) = script.run() else { return };
    let [first, run, list, again] = &ran[..] else {
        panic!("{}", ran.len());
    };
    first.expect(0);
    for refused in [run, list] {
        let words = ["sessions.db", "make it writable", "sessions.sqlite_path"];
        assert_told(refused, "store_read_only", &words);
    }
    assert_eq!(again.expect(0).stdout.lines().count(), 1);
}

#[test]
fn files_on_a_full_disk_stay_as_they_are() {
    let script = Script::new()
        .disk("full", 64 * 1024)
        .shell("cd \"$HOME/full\"; echo old >a.txt")
        .shell(&fill(".", 0))
        .halter("tools call write '{\"path\":\"a.txt\",\"content\":\"new\"}'")
        .halter("tools call write '{\"path\":\"sub/b.txt\",\"content\":\"new\"}'")
        .halter("init")
        .halter("--output-file out.json run hello")
        .shell("cat a.txt >\"$OUT/a.txt\"; ls -A >\"$OUT/left\"");
    let Some((place, ran)) = script.run() else {
        return;
    };
    let [replaced, made, init, output] = &ran[..] else {
        panic!("{}", ran.len());
    };
    assert_told(replaced, "tool_failed", &["a.txt", "free some space"]);
    assert_told(made, "tool_failed", &["b.txt", "free some space"]);
    assert_told(init, "disk_full", &["halter.toml", "free some space"]);
    assert_told(output, "output_failed", &["out.json", "free some space"]);
    let out = |name: &str| std::fs::read_to_string(place.root().join("out").join(name)).unwrap();
    assert_eq!(out("a.txt"), "old\n");
    assert_eq!(out("left"), "a.txt\nfill\nout.json\n");
}

#[test]
fn what_is_kept_beside_sessions_says_so_when_there_is_no_room() {
    let script = Script::new()
        .disk(".local/state/halter", 16 * 1024)
        .disk("traces", 16 * 1024)
        .shell(&fill("$HOME/.local/state/halter", 0))
        .shell(&fill("$HOME/traces", 0))
        .shell("printf 'version = 1\\n[policy.shell]\\nallow = [\"make\"]\\n' >halter.toml")
        .shell(
            "printf 'version = 1\\n[models.default]\\nprovider = \"offline\"\\nmodel = \"offline\"\\n\
             [runtime]\\ntraces_dir = \"%s\"\\n' \"$HOME/traces\" >traced.toml",
        )
        .halter("trust --yes")
        .halter("--config traced.toml run --text hello");
    let Some((_, ran)) = script.run() else { return };
    let [trust, traced] = &ran[..] else {
        panic!("{}", ran.len());
    };
    trust.expect(2);
    for word in ["trusted-configs", "free some space"] {
        assert!(trust.stderr.contains(word), "{}", trust.stderr);
    }
    traced.expect(0);
    for word in ["trace", "make room"] {
        assert!(traced.stderr.contains(word), "{}", traced.stderr);
    }
}
