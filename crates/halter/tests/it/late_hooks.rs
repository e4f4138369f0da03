//! Hook files that come or change while a harness runs.

use crate::support::{directory, outcomes, run_turn, session_in, warnings};
use halter::prelude::*;
use halter::providers::{FakeProvider, Reply};
use halter::{CompiledResources, HookFiles, UserResources, trust_hooks};
use halter_config::{
    DeferralWord, DeferredTools, Environment, LayeredConfigPaths, LoadedConfig, ProjectFile,
    TrustStore, load_layered,
};
use halter_protocol::ToolErrorCode;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// A project, a user, and a harness in the project.
struct Place {
    directory: TempDir,
    environment: Environment,
    loaded: LoadedConfig,
    model: Arc<FakeProvider>,
    harness: Halter,
}

/// A hook file that tells the model something with each prompt.
fn saying(command: &str) -> String {
    json!({"hooks": {"UserPromptSubmit": [
        {"hooks": [{"type": "command", "command": command}]}]}})
    .to_string()
}

impl Place {
    async fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::with(replies, true).await
    }

    /// With a harness that knows of the hook files from the start, or not.
    async fn with(replies: impl IntoIterator<Item = Reply>, known: bool) -> Self {
        let directory = directory(&[
            ("home/.config/halter/hooks.json", &saying("echo user one")),
            ("project/README.md", "A project."),
        ]);
        let root = directory.path().canonicalize().unwrap();
        let home = root.join("home");
        let environment =
            Environment::from_iter([("HOME", home.to_str().unwrap()), ("PATH", "/usr/bin:/bin")]);
        let paths = LayeredConfigPaths {
            user_config: environment.user_config_path(),
            ..LayeredConfigPaths::default()
        };
        let trust = TrustStore::of(&environment);
        let mut loaded = load_layered(paths, &environment, &trust).await.unwrap();
        loaded.config.tools.deferred = DeferredTools::Word(DeferralWord::Off);
        let mut config = loaded.config.clone();
        // It is not there yet.
        loaded.config.hooks.files = vec![root.join("project/mine.json")];
        let model = Arc::new(FakeProvider::scripted(replies));
        let project = root.join("project");
        let mut files = HookFiles::default();
        if known {
            config = loaded.config.clone();
            files = HookFiles::find(&loaded, &environment, &project, &trust).await;
        }
        let harness = Halter::builder()
            .with_config(config)
            .with_environment(environment.clone())
            .with_resource_snapshot(ResourceSnapshot::empty())
            .with_provider(model.clone())
            .with_hook_files(files)
            .build()
            .await
            .unwrap();
        Self {
            directory,
            environment,
            loaded,
            model,
            harness,
        }
    }

    fn root(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap()
    }

    fn project(&self) -> PathBuf {
        self.root().join("project")
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// What a watch does with the next look.
    async fn take_up(&self) {
        let trust = TrustStore::of(&self.environment);
        let (loaded, environment) = (&self.loaded, &self.environment);
        let files = HookFiles::find(loaded, environment, &self.project(), &trust).await;
        let harness = &self.harness;
        let nothing = CompiledResources::default();
        harness.replace_hook_files(files, nothing).unwrap();
    }

    async fn trust(&self, path: &Path) {
        let file = ProjectFile::read(path).await.unwrap();
        trust_hooks(&file, &TrustStore::of(&self.environment)).unwrap();
    }

    /// What the model was told with its last request.
    fn told(&self) -> String {
        format!("{:?}", self.model.requests().last().unwrap().messages)
    }
}

fn codes(events: &[SessionEvent]) -> Vec<Option<ToolErrorCode>> {
    let outcomes = outcomes(events);
    let codes = outcomes.iter().map(|it| it.result.as_ref().err());
    codes.map(|error| error.map(|it| it.code.clone())).collect()
}

#[tokio::test]
async fn a_hook_file_that_a_project_gets_counts_once_trusted_and_holds_up_nothing() {
    let write = |path: &str| {
        let call = json!({"path": path, "content": "echo mine now"});
        Reply::new().tool_call("write", call)
    };
    let hello = || Reply::new().text("hello");
    let place = Place::new([
        hello(),
        hello(),
        write(".claude/settings.json"),
        write("check.sh"),
        write(".claude/hooks/help.sh"),
        hello(),
    ])
    .await;
    let session = session_in(&place.harness, &place.project()).await;
    run_turn(&session, "hello").await;
    assert!(place.told().contains("user one"));

    let hooks = place.write(
        "project/.claude/settings.json",
        &saying("sh \"$CLAUDE_PROJECT_DIR\"/check.sh"),
    );
    place.write("project/check.sh", "echo from the project");
    place.write("project/.claude/hooks/help.sh", "");
    place.write("home/.config/halter/hooks.json", &saying("echo user two"));
    place.take_up().await;
    let events = run_turn(&session, "hello").await;
    assert!(place.told().contains("user two"), "the rest is taken up");
    let said = warnings(&events).join("\n");
    assert!(said.contains("halter trust"), "{said}");

    place.trust(&hooks).await;
    place.take_up().await;
    let events = run_turn(&session, "hello").await;
    let told = place.told();
    assert!(told.contains("user two"));
    assert!(told.contains("from the project"), "{told}");
    // What runs as the user is not the model's to change from now on.
    let denied = Some(ToolErrorCode::PolicyDenied);
    assert_eq!(codes(&events), [denied.clone(), denied.clone(), denied]);
    session.shutdown("done").await.unwrap();
}

#[tokio::test]
async fn a_late_file_that_a_tool_could_have_written_is_left_out_alone() {
    let write = json!({"path": "mine.json", "content": saying("echo mine")});
    let hello = || Reply::new().text("hello");
    let replies = [Reply::new().tool_call("write", write), hello(), hello()];
    let place = Place::with(replies, false).await;
    let session = session_in(&place.harness, &place.project()).await;
    let events = run_turn(&session, "write it").await;
    assert_eq!(codes(&events), [None], "nothing holds it up");
    let trusted = saying("echo from the project");
    let trusted = place.write("project/.claude/settings.json", &trusted);
    place.trust(&trusted).await;
    place.take_up().await;
    let events = run_turn(&session, "hello").await;
    let last = place.model.requests().pop().unwrap();
    let told = format!("{:?}", last.messages.last().unwrap());
    assert!(
        told.contains("from the project") && !told.contains("echo mine"),
        "{told}"
    );
    let said = warnings(&events).join("\n");
    assert!(
        said.contains("mine.json") && said.contains("start again"),
        "{said}"
    );
    session.shutdown("done").await.unwrap();
}

#[tokio::test]
async fn no_tool_writes_a_file_of_the_user_that_is_not_there_yet() {
    let write = json!({"path": "mine.json", "content": saying("echo by a tool")});
    let hello = || Reply::new().text("hello");
    let replies = [Reply::new().tool_call("write", write), hello(), hello()];
    let place = Place::new(replies).await;
    let session = session_in(&place.harness, &place.project()).await;
    let events = run_turn(&session, "write it").await;
    assert_eq!(codes(&events), [Some(ToolErrorCode::PolicyDenied)]);
    place.write("project/mine.json", &saying("echo from the user"));
    place.take_up().await;
    run_turn(&session, "hello").await;
    assert!(place.told().contains("from the user"), "{}", place.told());
    session.shutdown("done").await.unwrap();
}

#[tokio::test]
async fn a_watch_takes_up_hook_files_as_they_come() {
    let place = Place::new([]).await;
    let user = UserResources::new(&place.loaded, &place.environment, place.project());
    let every = Duration::from_millis(5);
    let watch = place.harness.watch_resources_every(every, user);
    let hooks = place.write(
        "project/.claude/settings.json",
        &saying("echo from the project"),
    );
    place.trust(&hooks).await;
    let services = place.harness.runtime().services();
    let taken_up = async {
        while !services.protected().contains(&hooks) {
            tokio::time::sleep(every).await;
        }
    };
    let limit = Duration::from_secs(30);
    tokio::time::timeout(limit, taken_up).await.unwrap();
    drop(watch);
    assert!(!services.protected_paths.contains(&hooks));
}
