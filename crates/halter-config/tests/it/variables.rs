//! `HALTER_*` variables.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use halter_config::{
    ConfigError, ConfigWarning, ConfiguredProvider, Environment, Origin, SessionBackend,
    TrustStore, load_layered, override_variables,
};
use halter_protocol::ModelRole;

use crate::support::{OFFLINE, World, strings};

async fn with(name: &str, value: &str) -> Result<halter_config::LoadedConfig, ConfigError> {
    World::new()
        .explicit(&format!(
            "{OFFLINE}[resources.skills]\nroots = [\"a\"]\n[tools]\nenabled = [\"read\"]\n"
        ))
        .variable(name, value)
        .load()
        .await
}

#[tokio::test]
async fn each_variable_replaces_its_key() {
    let config = with("HALTER_SESSION_BACKEND", "sqlite")
        .await
        .unwrap()
        .config;
    assert_eq!(config.sessions.backend, SessionBackend::Sqlite);
    let config = with("HALTER_POLICY_SHELL_ENABLED", "false")
        .await
        .unwrap()
        .config;
    assert!(!config.policy.shell.enabled);
    let config = with("HALTER_POLICY_NETWORK_ENABLED", "true")
        .await
        .unwrap()
        .config;
    assert!(config.policy.network.enabled);
    let config = with("HALTER_POLICY_SHELL_ALLOW", "git, ls,git")
        .await
        .unwrap()
        .config;
    assert_eq!(config.policy.shell.allow, ["git", "ls"]);
    let config = with("HALTER_POLICY_ALLOWED_HOSTS", "a.example")
        .await
        .unwrap()
        .config;
    assert_eq!(config.policy.network.allowed_hosts, ["a.example"]);
    let config = with("HALTER_TOOLS_ENABLED", "glob,grep")
        .await
        .unwrap()
        .config;
    assert_eq!(config.tools.enabled, ["glob", "grep"]);
    let config = with("HALTER_PLUGIN_ROOTS", "/p:/q").await.unwrap().config;
    assert_eq!(strings(&config.resources.plugins.roots), ["/p", "/q"]);
}

#[tokio::test]
async fn roots_in_a_variable_replace_and_start_at_the_current_directory() {
    let world = World::new()
        .explicit(&format!("{OFFLINE}[resources.skills]\nroots = [\"a\"]\n"))
        .variable("HALTER_SKILL_ROOTS", "rel:~/s:/abs");
    let loaded = world.loaded().await;
    assert_eq!(
        loaded.config.resources.skills.roots,
        [
            world.path("current/rel"),
            world.path("home/s"),
            "/abs".into()
        ]
    );
    assert_eq!(
        loaded.origin("resources.skills.roots[0]"),
        Origin::Environment("HALTER_SKILL_ROOTS".to_owned())
    );
}

#[tokio::test]
async fn one_model_for_every_role() {
    let file = "version = 1\n[models.default]\nprovider = \"openai\"\nmodel = \"gpt-5\"\nmax_output_tokens = 5\nreasoning = \"high\"\n[models.subagent]\nprovider = \"anthropic\"\nmodel = \"x\"\n";
    let load = |value: &str| {
        let world = World::new().explicit(file).variable("HALTER_MODEL", value);
        async move { world.load().await }
    };
    let loaded = load("offline").await.unwrap();
    for role in ModelRole::ALL {
        let model = loaded.config.model_for(role).unwrap();
        assert_eq!(model.provider, ConfiguredProvider::Offline);
        assert_eq!(model.max_output_tokens, None);
        assert_eq!(model.reasoning, None);
    }
    assert_eq!(
        loaded.origin("models.small.model"),
        Origin::Environment("HALTER_MODEL".to_owned())
    );
    assert_eq!(
        halter_config::resolve_credentials(&loaded.config, &Environment::empty())
            .unwrap()
            .len(),
        0
    );

    let loaded = load("openrouter/anthropic/claude").await.unwrap();
    let model = loaded.config.model_for(ModelRole::Subagent).unwrap();
    assert_eq!(model.provider, ConfiguredProvider::OpenRouter);
    assert_eq!(model.model, "anthropic/claude");

    for (value, problem, hint) in [
        ("offlin", "names no provider", "did you mean `offline`?"),
        ("gpt-5", "names no provider", "openai/gpt-5"),
        (
            "opnai/gpt-5",
            "unknown provider \"opnai\"",
            "did you mean `openai`?",
        ),
        ("openai/", "names no model", "openai/gpt-5"),
    ] {
        let text = load(value).await.unwrap_err().to_string();
        assert!(text.starts_with("HALTER_MODEL "), "{text}");
        assert!(text.contains(problem) && text.contains(hint), "{text}");
    }
}

#[tokio::test]
async fn the_offline_model_needs_no_table_in_the_file() {
    let world = World::new()
        .explicit("version = 1\n")
        .variable("HALTER_MODEL", "offline");
    assert!(world.loaded().await.config.models.default.is_some());
}

#[tokio::test]
async fn malformed_values_name_the_variable() {
    for (name, value, hint) in [
        ("HALTER_POLICY_SHELL_ENABLED", "yes", "set true or false"),
        ("HALTER_POLICY_NETWORK_ENABLED", "TRUE", "set true or false"),
        (
            "HALTER_SESSION_BACKEND",
            "sqllite",
            "did you mean `sqlite`?",
        ),
        (
            "HALTER_POLICY_SHELL_ALLOW",
            "git,,ls",
            "take out the extra separator",
        ),
        ("HALTER_SKILL_ROOTS", "a::b", "take out the extra separator"),
        (
            "HALTER_TOOLS_ENABLED",
            " ",
            "name at least one tool, or unset it",
        ),
    ] {
        let error = with(name, value).await.unwrap_err();
        assert_eq!(error.code(), "config_variable", "{name}");
        assert_eq!(error.hint().unwrap(), hint);
        assert!(error.to_string().starts_with(name), "{error}");
    }
}

#[tokio::test]
async fn a_blank_word_is_unset_and_a_blank_list_is_empty() {
    let config = with("HALTER_SESSION_BACKEND", "").await.unwrap().config;
    assert_eq!(config.sessions.backend, SessionBackend::Memory);
    assert!(with("HALTER_MODEL", " ").await.is_ok());
    let config = with("HALTER_POLICY_SHELL_ALLOW", "").await.unwrap().config;
    assert!(config.policy.shell.allow.is_empty());
    let config = with("HALTER_SKILL_ROOTS", "").await.unwrap().config;
    assert!(config.resources.skills.roots.is_empty());
}

#[tokio::test]
async fn bytes_that_are_not_text_are_refused() {
    let world = World::new().explicit(OFFLINE);
    let environment =
        Environment::from_iter([("HALTER_SKILL_ROOTS", OsString::from_vec(vec![0xff]))]);
    let error = load_layered(world.paths(), &environment, &TrustStore::none())
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("HALTER_SKILL_ROOTS is not valid UTF-8")
    );
}

#[tokio::test]
async fn a_variable_nobody_reads_is_a_warning() {
    let loaded = with("HALTER_TOOL_ENABLED", "read").await.unwrap();
    assert_eq!(
        loaded.warnings,
        [ConfigWarning::UnknownVariable {
            variable: "HALTER_TOOL_ENABLED".to_owned(),
            hint: Some("did you mean HALTER_TOOLS_ENABLED?".to_owned()),
        }]
    );
    assert_eq!(with("HALTER_CONFIG", "x").await.unwrap().warnings, []);

    let world = World::new().explicit(OFFLINE);
    let environment =
        Environment::from_iter([("HALTER_SPINNER", "off")]).reserving(["HALTER_SPINNER"]);
    let loaded = load_layered(world.paths(), &environment, &TrustStore::none())
        .await
        .unwrap();
    assert_eq!(loaded.warnings, []);
}

#[test]
fn every_variable_is_listed() {
    let names: Vec<&str> = override_variables().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 10);
    assert!(names.contains(&"HALTER_MODEL"));
}
