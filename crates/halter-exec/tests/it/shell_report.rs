//! What a shell says of itself, and what it is told of another.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use halter_exec::limits::MAX_REPORT_BYTES;
use halter_exec::{PersistentShell, ShellChange, ShellCommand, ShellConfig, ShellOption};
use tokio_util::sync::CancellationToken;

use crate::support::{alive, environment};

fn config() -> ShellConfig {
    ShellConfig::new(environment(), "/")
}

fn shell() -> PersistentShell {
    PersistentShell::new(config())
}

async fn output(shell: &mut PersistentShell, text: &str) -> String {
    let mut command = ShellCommand::new(text);
    command.deadline = Some(Duration::from_secs(60));
    let outcome = shell
        .run(command, &CancellationToken::new(), &())
        .await
        .unwrap();
    assert!(!outcome.timed_out && !outcome.shell_restarted, "{text}");
    format!("{}{}", outcome.stdout.to_text(), outcome.stderr.to_text())
}

#[tokio::test]
async fn a_shell_reports_what_it_exports_its_options_and_how_much_code_it_has() {
    for program in ["bash", "sh"] {
        let mut config = config();
        config.program = Some(PathBuf::from(program));
        let mut shell = PersistentShell::new(config);
        assert!(shell.report().await.unwrap().is_none());
        output(
            &mut shell,
            "export A='it'\\''s
$(id)' B=; C=1; set -uf; set -e; f() { :; }; alias x=y",
        )
        .await;
        if program == "bash" {
            output(&mut shell, "set -o pipefail; IFS=,; export D=$'\\xff'").await;
        }
        let report = shell.report().await.unwrap().unwrap();
        let value = |name: &str| report.exported.get(std::ffi::OsStr::new(name)).cloned();
        assert_eq!(value("A"), Some("it's\n$(id)".into()), "{program}");
        assert_eq!(value("B"), Some(OsString::new()));
        assert_eq!(value("C"), None);
        for option in [
            ShellOption::ErrExit,
            ShellOption::NoUnset,
            ShellOption::NoGlob,
        ] {
            assert!(report.options.contains(&option), "{program}: {option:?}");
        }
        assert!(!report.options.contains(&ShellOption::NoClobber));
        if program == "bash" {
            assert!(report.options.contains(&ShellOption::PipeFail));
            assert_eq!(value("D"), Some(OsString::from_vec(vec![0xff])));
            assert_eq!((report.functions, report.aliases), (1, 1));
        }
        assert_eq!(output(&mut shell, "echo $C").await, "1\n", "it goes on");
        shell.close().await;
    }
}

#[tokio::test]
async fn a_report_may_be_so_long_and_a_longer_one_says_nothing() {
    let mut shell = shell();
    let half = MAX_REPORT_BYTES / 2;
    let fill = format!("export A=$(head -c {half} /dev/zero | tr '\\0' x)");
    output(&mut shell, &fill).await;
    assert!(shell.report().await.unwrap().is_some());
    output(&mut shell, "export B=$A").await;
    assert!(shell.report().await.unwrap().is_none());
    output(&mut shell, "unset A B").await;
    assert!(shell.report().await.unwrap().is_some());
    shell.close().await;
}

#[tokio::test]
async fn a_shell_that_begins_anew_has_nothing_of_the_one_before_but_its_background() {
    let mut shell = shell();
    let setup = "trap 'echo no' EXIT; cd /usr; export A=1; f() { :; }; set -f; \
                 sleep 1000 & echo $!";
    let pid = output(&mut shell, setup).await;
    let pid = pid.lines().next().unwrap().parse().unwrap();
    let mut anew = config();
    anew.environment = environment().with("B", "2");
    anew.cwd = "/etc".into();
    anew.options = [ShellOption::NoUnset, ShellOption::PipeFail].into();
    shell.begin_anew(anew).await.unwrap();
    assert_eq!(shell.cwd(), Path::new("/etc"));
    let found = shell.make_ready().await.unwrap().unwrap();
    let etc = std::fs::metadata("/etc").unwrap();
    assert_eq!((found.device, found.inode), (etc.dev(), etc.ino()));
    let look = "pwd; echo ${A-gone} $B; declare -F f; echo /us[r]; shopt -qo pipefail nounset \
                && echo options";
    assert_eq!(
        output(&mut shell, look)
            .await
            .lines()
            .filter(|line| !line.contains("__halter"))
            .collect::<Vec<_>>(),
        ["/etc", "gone 2", "/usr", "options"]
    );
    assert!(alive(pid));
    shell.close().await;
    assert!(!alive(pid));
}

#[tokio::test]
async fn a_shell_takes_over_what_it_is_told_as_data() {
    let mut shell = shell();
    let setup = "A=1; export B=2; f() { echo f; }; export() { echo no; }; set -eu";
    output(&mut shell, setup).await;
    let change = ShellChange {
        cwd: Some("/usr".into()),
        export: [
            ("A".into(), "it's $(id)\n`id`".into()),
            ("X".into(), OsString::from_vec(vec![0xff])),
        ]
        .into(),
        unset: ["B".into(), "NEVER".into()].into(),
    };
    shell.take_over(&change).await.unwrap();
    let look = "pwd; printenv A; echo ${B-gone} ${X-none}; f";
    assert_eq!(
        output(&mut shell, look).await,
        "/usr\nit's $(id)\n`id`\ngone none\nf\n"
    );
    let gone = ShellChange {
        cwd: Some("/does/not/exist".into()),
        ..ShellChange::default()
    };
    shell.take_over(&gone).await.unwrap();
    assert_eq!(output(&mut shell, "pwd").await, "/usr\n");
    let bad = ShellChange {
        unset: ["A;id".into()].into(),
        ..ShellChange::default()
    };
    assert!(shell.take_over(&bad).await.is_err());
    shell.close().await;
}
