//! Commands beside a session's shell, in a directory of their own, and the
//! processes of a session.

use std::collections::BTreeMap;

use terminal_runtime::client::{Client, ClientError};
use terminal_runtime::limits::MAX_BESIDE;
use terminal_runtime::protocol::{
    CancelParams, CreateParams, ErrorCode, ExecParams, HelloParams, ProcessListParams,
    ProcessSignalParams, SignalOutcome, SignalSpec, Variables,
};

use crate::runtime::Runtime;

async fn session(client: &Client) -> String {
    let params = CreateParams {
        shell: Some("/bin/sh".to_owned()),
        ..CreateParams::default()
    };
    client.create_session(&params).await.unwrap().session_id
}

fn program(session: &str, words: &[&str]) -> ExecParams {
    ExecParams {
        session_id: session.to_owned(),
        argv: Some(words.iter().map(|&word| word.to_owned()).collect()),
        ..ExecParams::default()
    }
}

fn line(session: &str, command: &str) -> ExecParams {
    ExecParams {
        session_id: session.to_owned(),
        command: Some(command.to_owned()),
        ..ExecParams::default()
    }
}

fn refusal(error: ClientError) -> (ErrorCode, Option<String>) {
    match error {
        ClientError::Refused(error) => (error.code, error.reason),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn so_many_commands_run_beside_a_shell_and_no_more() {
    let runtime = Runtime::start();
    let client = Client::socket(runtime.socket());
    let session_id = session(&client).await;
    let mut started = Vec::new();
    for number in 0..=MAX_BESIDE {
        let mut params = program(&session_id, &["sleep", "1000"]);
        params.beside = true;
        params.exec_id = Some(format!("beside-{number}"));
        match client.stream(&params).await {
            Ok(stream) => started.push(stream),
            Err(error) => {
                assert_eq!(number, MAX_BESIDE);
                assert_eq!(refusal(error).0, ErrorCode::SessionBusy);
            }
        }
    }
    assert_eq!(started.len(), MAX_BESIDE);
    // The shell is free meanwhile, and the next may start when one has ended.
    let answer = client.run(&line(&session_id, "echo free")).await.unwrap();
    assert_eq!(answer.stdout, "free\n");
    let end = CancelParams {
        exec_id: Some("beside-0".to_owned()),
        ..CancelParams::default()
    };
    client.cancel(&end).await.unwrap();
    let mut params = program(&session_id, &["true"]);
    params.beside = true;
    assert_eq!(client.run(&params).await.unwrap().exit_code, 0);
}

#[tokio::test]
async fn a_line_for_the_shell_does_not_run_beside_it() {
    let runtime = Runtime::start();
    let client = Client::socket(runtime.socket());
    let session_id = session(&client).await;
    let mut params = line(&session_id, "true");
    params.beside = true;
    let error = client.run(&params).await.unwrap_err();
    assert_eq!(refusal(error).0, ErrorCode::InvalidParams);
}

#[tokio::test]
async fn a_directory_is_for_one_command() {
    let runtime = Runtime::start();
    let client = Client::socket(runtime.socket());
    let session_id = session(&client).await;
    let mut inside = line(&session_id, "pwd");
    inside.cwd = Some("/usr".to_owned());
    assert_eq!(client.run(&inside).await.unwrap().stdout, "/usr\n");
    let after = client.run(&line(&session_id, "pwd")).await.unwrap();
    assert_eq!(after.stdout, "/tmp\n");
    let mut direct = program(&session_id, &["pwd"]);
    direct.cwd = Some("/usr".to_owned());
    assert_eq!(client.run(&direct).await.unwrap().stdout, "/usr\n");
    direct.cwd = Some("usr".to_owned());
    let error = client.run(&direct).await.unwrap_err();
    assert_eq!(refusal(error).0, ErrorCode::InvalidParams);
    direct.cwd = Some("/nowhere-at-all".to_owned());
    let error = client.run(&direct).await.unwrap_err();
    let reason = refusal(error).1;
    assert_eq!(reason.as_deref(), Some("working_directory_gone"));
}

#[tokio::test]
async fn a_clean_environment_has_what_was_given_and_nothing_else() {
    let runtime = Runtime::start();
    let client = Client::socket(runtime.socket());
    let given = [("A", "b"), ("PATH", "/usr/bin:/bin")];
    let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let params = CreateParams {
        env: Variables(BTreeMap::from(given)),
        clean_env: true,
        ..CreateParams::default()
    };
    let session_id = client.create_session(&params).await.unwrap().session_id;
    let answer = client.run(&program(&session_id, &["env"])).await.unwrap();
    let mut seen: Vec<&str> = answer.stdout.lines().collect();
    seen.retain(|line| !line.starts_with("HALTER_") && !line.starts_with("TRL_"));
    seen.sort_unstable();
    assert_eq!(seen, ["A=b", "PATH=/usr/bin:/bin"]);
}

#[tokio::test]
async fn a_session_has_its_own_processes_only() {
    let runtime = Runtime::start();
    let client = Client::socket(runtime.socket());
    let [session_id, other] = [session(&client).await, session(&client).await];
    let left = "sleep 1000 >/dev/null 2>&1 & echo $!";
    let child = client.run(&line(&session_id, left)).await.unwrap().stdout;
    let child: i32 = child.trim().parse().unwrap();
    let listed = |session: &str, root| ProcessListParams {
        session_id: session.to_owned(),
        root,
    };
    let shell = "/bin/sh -i -s";
    let executed = async {
        loop {
            let all = client.processes(&listed(&session_id, None)).await.unwrap();
            let found = all.processes.into_iter().find(|it| it.pid == child);
            let found = found.unwrap();
            // Until it executes its program, it is one more shell.
            if found.command != shell {
                break (found, all.root);
            }
        }
    };
    let executed = tokio::time::timeout(crate::support::TEST_TIMEOUT, executed);
    let (found, root) = executed.await.unwrap();
    assert_eq!(
        (found.command.as_str(), Some(found.ppid)),
        ("sleep 1000", root)
    );
    client.run(&line(&other, "true")).await.unwrap();
    let theirs = client.processes(&listed(&other, None)).await.unwrap();
    assert_eq!(theirs.processes, []);
    let foreign = client.processes(&listed(&other, Some(1_000_000))).await;
    let reason = refusal(foreign.unwrap_err()).1;
    assert_eq!(reason.as_deref(), Some("process_unknown"));
    let signal = |session: &str| ProcessSignalParams {
        session_id: session.to_owned(),
        pid: child,
        signal: SignalSpec::Name("KILL".to_owned()),
    };
    let sent = client.signal_process(&signal(&session_id)).await.unwrap();
    assert_eq!(sent.outcomes.len(), 1);
    assert_eq!(sent.outcomes[0].result, SignalOutcome::Signalled);
}

#[tokio::test]
async fn a_runtime_says_what_it_can_do() {
    let runtime = Runtime::start();
    let client = Client::socket(runtime.socket());
    let greeting = client.hello(&HelloParams::default()).await.unwrap();
    assert_eq!(greeting.features, terminal_runtime::protocol::FEATURES);
}
