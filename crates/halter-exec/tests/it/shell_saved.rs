//! The state of one shell, given to another.

use std::ffi::OsStr;
use std::time::Duration;

use halter_exec::{PersistentShell, ShellCommand, ShellConfig};
use tokio_util::sync::CancellationToken;

use crate::support::{alive, environment};

fn shell() -> PersistentShell {
    PersistentShell::new(ShellConfig::new(environment(), "/"))
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
async fn state_goes_to_another_shell_and_comes_back() {
    let (mut first, mut second) = (shell(), shell());
    assert!(first.save().await.unwrap().is_none());
    let setup = "cd /usr; x=1; export y=2; f() { echo \"f $1\"; }; alias ll='echo LL'; set -f; \
                 umask 027; (exit 3)";
    assert_eq!(output(&mut first, setup).await, "");
    second
        .restore(first.save().await.unwrap().unwrap())
        .await
        .unwrap();
    assert_eq!(second.cwd(), std::path::Path::new("/usr"));
    let look = "echo $?; pwd; echo $x; printenv y; f 3; ll; echo *; umask";
    let seen = "3\n/usr\n1\n2\nf 3\nLL\n*\n0027\n";
    assert_eq!(output(&mut second, look).await, seen);
    let change = "cd /; unset x; export y=3 z=4; set +f; unset -f f; unalias ll";
    assert_eq!(output(&mut second, change).await, "");
    first
        .restore(second.save().await.unwrap().unwrap())
        .await
        .unwrap();
    let look = "pwd; echo ${x-gone}; printenv y z; declare -F f; alias; echo /us[r]";
    assert_eq!(output(&mut first, look).await, "/\ngone\n3\n4\n/usr\n");
    first.close().await;
    second.close().await;
}

#[tokio::test]
async fn a_shell_that_is_given_a_state_keeps_what_runs_in_its_background() {
    let (mut first, mut second) = (shell(), shell());
    let pid = output(&mut first, "trap 'echo no' EXIT; sleep 1000 & echo $!").await;
    let pid = pid.lines().next().unwrap().parse().unwrap();
    output(&mut second, "y=2").await;
    first
        .restore(second.save().await.unwrap().unwrap())
        .await
        .unwrap();
    assert_eq!(output(&mut first, "echo $y").await, "2\n");
    assert!(alive(pid));
    first.close().await;
    assert!(!alive(pid));
    second.close().await;
}

#[tokio::test]
async fn variables_can_be_set_and_taken_on_the_way() {
    let (mut first, mut second) = (shell(), shell());
    output(
        &mut first,
        "export a=1 b=2; set -u; unset() { :; }; export() { :; }",
    )
    .await;
    let mut saved = first.save().await.unwrap().unwrap();
    saved.unset(OsStr::new("a")).unwrap();
    saved.export(OsStr::new("b"), OsStr::new("it's")).unwrap();
    assert!(saved.export(OsStr::new("b;c"), OsStr::new("")).is_err());
    assert!(!format!("{saved:?}").contains("it's"));
    second.restore(saved).await.unwrap();
    assert_eq!(
        output(&mut second, "echo ${a-gone}; printenv b").await,
        "gone\nit's\n"
    );
    first.close().await;
    second.close().await;
}
