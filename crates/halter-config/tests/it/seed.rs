//! The file and the literal that programs are written against, and the cases of the
//! troubleshooting list that concern configuration.

use halter_config::{
    ConfiguredProvider, HarnessConfig, KnownTools, ModelConfig, ModelsConfig, ProviderConfig,
    ProvidersConfig, SessionBackend, check_tool_names, load_path, resolve_credentials,
};
use halter_protocol::{ModelRole, ReasoningEffort};

use crate::support::{OFFLINE, World, load_text, strings};

const SEED_FILE: &str = r#"
version = 1
[models.default]
provider = "openai"
model = "gpt-5"
reasoning = "medium"
[models.subagent]
provider = "openai"
model = "gpt-5-mini"
reasoning = "medium"
[resources.skills]
roots = ["./.agent/skills"]
[resources.plugins]
roots = ["./.agent/plugins"]
[tools]
enabled = ["read", "glob", "grep", "write", "edit", "shell", "task"]
[policy]
allowed_write_roots = ["./", "/tmp/halter"]
max_read_bytes = 1048576
max_subagent_depth = 3
max_concurrent_subagents = 8
[policy.shell]
enabled = true
allow = ["git", "cargo", "rg", "ls", "find"]
timeout_secs = 30
[policy.network]
enabled = false
allowed_hosts = []
[sessions]
backend = "memory"
"#;

#[tokio::test]
async fn the_file_loads_as_it_is() {
    let world = World::new()
        .explicit(SEED_FILE)
        .variable("OPENAI_API_KEY", "sk-test");
    let loaded = world.loaded().await;
    let config = &loaded.config;

    assert_eq!(loaded.warnings, []);
    let default = config.model_for(ModelRole::Default).unwrap();
    assert_eq!(
        *default,
        ModelConfig {
            provider: ConfiguredProvider::OpenAi,
            model: "gpt-5".to_owned(),
            max_input_tokens: None,
            max_output_tokens: None,
            reasoning: Some(ReasoningEffort::Medium),
            tokens_per_minute: Some(500_000),
        }
    );
    assert_eq!(config.model_for(ModelRole::Small).unwrap(), default);
    assert_eq!(
        config.model_for(ModelRole::Subagent).unwrap().model,
        "gpt-5-mini"
    );
    assert_eq!(
        config.resources.skills.roots,
        [world.path("explicit/.agent/skills")]
    );
    assert_eq!(
        config.resources.plugins.roots,
        [world.path("explicit/.agent/plugins")]
    );
    assert_eq!(
        strings(&config.policy.allowed_write_roots),
        ["./", "/tmp/halter"]
    );
    assert_eq!(
        config.policy.shell.allow,
        ["git", "cargo", "rg", "ls", "find"]
    );
    assert_eq!(config.sessions.backend, SessionBackend::Memory);
    assert_eq!(
        resolve_credentials(config, &world.environment())
            .unwrap()
            .len(),
        1
    );
    config.validate().unwrap();
}

#[tokio::test]
async fn a_rate_that_is_set_is_a_ceiling_and_the_default_is_none() {
    let models = |more: &str| {
        format!("version = 1\n[models.default]\nprovider = \"openai\"\nmodel = \"gpt-5\"\n{more}")
    };
    let subagent = "[models.subagent]\nprovider = \"openai\"\nmodel = \"gpt-5\"\n";
    for (more, ceiling) in [
        (String::new(), None),
        ("tokens_per_minute = 500000\n".to_owned(), Some(500_000)),
        ("tokens_per_minute = 900000\n".to_owned(), Some(900_000)),
        (subagent.to_owned(), None),
        (
            format!("{subagent}tokens_per_minute = 500000\n"),
            Some(500_000),
        ),
    ] {
        let mut loaded = load_text(models(&more)).await.unwrap();
        let config = &loaded.config;
        let default = config.model_for(ModelRole::Default).unwrap();
        assert_eq!(config.models.rate_ceiling(default), ceiling, "{more}");
        // A flag that names the same model changes nothing.
        let environment = halter_config::Environment::empty();
        let used = loaded.use_model("openai/gpt-5", "--model", &environment);
        used.unwrap();
        let config = &loaded.config;
        let default = config.model_for(ModelRole::Default).unwrap();
        assert_eq!(config.models.rate_ceiling(default), ceiling, "{more}");
    }
    let written = ModelConfig {
        tokens_per_minute: Some(500_000),
        ..ModelConfig::offline()
    };
    assert_eq!(
        ModelsConfig::default().rate_ceiling(&written),
        Some(500_000),
        "a program wrote it"
    );
}

/// The literal of a program that owns its configuration.
#[test]
fn the_literal_compiles_and_holds() {
    let config = HarnessConfig {
        providers: ProvidersConfig {
            openai: Some(ProviderConfig {
                api_key: Some("sk-test".to_owned()),
                ..ProviderConfig::default()
            }),
            ..ProvidersConfig::default()
        },
        models: ModelsConfig {
            default: Some(ModelConfig {
                provider: ConfiguredProvider::OpenAi,
                model: "gpt-5".to_owned(),
                max_input_tokens: Some(200_000),
                max_output_tokens: Some(8_192),
                reasoning: Some(ReasoningEffort::Medium),
                tokens_per_minute: Some(500_000),
            }),
            ..ModelsConfig::default()
        },
        ..HarnessConfig::default()
    };
    config.validate().unwrap();
    let resolved = resolve_credentials(&config, &halter_config::Environment::empty()).unwrap();
    let key = resolved[0].1.api_key.as_ref().unwrap();
    assert_eq!(key.expose_secret(), "sk-test");
}

/// `load_path` is called as the programs call it: a path, `await`, `?` into `anyhow`-like errors.
#[tokio::test]
async fn load_path_reads_one_file() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let world = World::new().explicit(OFFLINE);
    let config = load_path(world.path("explicit/halter.toml")).await?;
    assert_eq!(
        config.model_for(ModelRole::Default)?.provider,
        ConfiguredProvider::Offline
    );
    Ok(())
}

#[tokio::test]
async fn a_missing_file_names_the_path_and_init() {
    let error = load_path("/nonexistent/halter.toml").await.unwrap_err();
    assert_eq!(error.code(), "config_read");
    let text = error.to_string();
    assert!(text.contains("/nonexistent/halter.toml"), "{text}");
    assert!(text.contains("halter init"), "{text}");
}

#[tokio::test]
async fn troubleshooting_missing_default_model() {
    // An empty table is as good as none.
    for text in ["version = 1\n", "version = 1\n[models.default]\n"] {
        let world = World::new().explicit(text);
        let error = load_path(world.path("explicit/halter.toml"))
            .await
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid configuration: [models.default] is required"
        );
        assert!(error.hint().unwrap().contains("HALTER_MODEL=offline"));
    }
}

#[tokio::test]
async fn troubleshooting_missing_credentials() {
    let loaded = load_text(SEED_FILE).await.unwrap();
    let error =
        resolve_credentials(&loaded.config, &halter_config::Environment::empty()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "missing api key for provider 'openai': set [providers.openai].api_key or OPENAI_API_KEY"
    );
}

#[test]
fn troubleshooting_tool_not_available() {
    let text_for = |name: &str| {
        let mut config = HarnessConfig::default();
        config.tools.enabled = vec!["read".to_owned(), name.to_owned()];
        let known = KnownTools {
            available: &["read", "shell"],
            left_out: &[("pty", "pty")],
        };
        let error = check_tool_names(&config, known);
        error.unwrap_err().to_string()
    };
    assert!(text_for("raed").contains("did you mean `read`?"));
    assert!(text_for("weather_report").contains("known tools: read, shell"));
    assert!(text_for("pty").contains("not compiled in: build with the cargo feature `pty`"));
}

#[tokio::test]
async fn troubleshooting_unknown_model_id() {
    let config = load_text(OFFLINE).await.unwrap().config;
    let error = config.model_named("gpt-5").unwrap_err();
    let known = "unknown model 'gpt-5': known models: default, small, subagent";
    assert!(error.to_string().starts_with(known), "{error}");
    assert_eq!(config.model_named("small").unwrap().model, "offline");
}
