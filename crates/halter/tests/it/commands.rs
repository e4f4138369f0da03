//! What a harness gives the commands of its sessions.

use crate::support::{directory, one_turn, outcomes};
use halter::prelude::*;
use halter::providers::{FakeProvider, Reply};
use halter_config::Environment;
use serde_json::json;
use std::sync::Arc;

#[tokio::test]
async fn commands_see_the_users_environment_without_credentials() {
    let project = directory(&[]);
    let model = FakeProvider::scripted([
        Reply::new().tool_call("shell", json!({"command": "printenv"})),
        Reply::new().text("Done."),
    ]);
    let mut config = HarnessConfig::default();
    config.policy.shell.allow = vec!["printenv".to_owned()];
    config.policy.shell.env.add = vec!["CI_JOB_TOKEN".to_owned()];
    config.policy.shell.env.remove = vec!["AWS_*".to_owned()];
    let harness = Halter::builder()
        .with_config(config)
        .with_resource_snapshot(ResourceSnapshot::empty())
        .with_environment(Environment::from_iter([
            ("PATH", "/usr/bin:/bin"),
            ("VIRTUAL_ENV", "/venv"),
            ("JAVA_HOME", "/java"),
            ("https_proxy", "http://proxy.example:3128"),
            ("http_proxy", "http://me:hidden@proxy.example:3128"),
            ("DEPLOY_TOKEN", "hidden"),
            ("CI_JOB_TOKEN", "shown"),
            ("AWS_REGION", "hidden"),
            ("BASH_ENV", "/hidden"),
            ("LD_DEBUG_OUTPUT", "/hidden"),
        ]))
        .with_provider(Arc::new(model))
        .build()
        .await
        .unwrap();
    let events = one_turn(&harness, project.path(), "Show me the environment").await;
    let printed = outcomes(&events)[0]
        .result
        .as_ref()
        .unwrap()
        .to_model_text();
    for shown in [
        "VIRTUAL_ENV=/venv",
        "JAVA_HOME=/java",
        "https_proxy=http://proxy.example:3128",
        "CI_JOB_TOKEN=shown",
    ] {
        assert!(printed.contains(shown), "{shown} in {printed}");
    }
    assert!(!printed.contains("hidden"), "{printed}");
}
