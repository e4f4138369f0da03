//! Where keys are found.

use halter_config::{
    ConfiguredProvider, Environment, HarnessConfig, ModelConfig, ModelsConfig, Origin,
    ProviderConfig, ProvidersConfig, default_base_url, resolve_credentials,
    resolve_provider_runtime_config,
};

use crate::support::World;

fn config_of(default: ConfiguredProvider, subagent: ConfiguredProvider) -> HarnessConfig {
    HarnessConfig {
        models: ModelsConfig {
            default: Some(ModelConfig::new(default, "m")),
            subagent: Some(ModelConfig::new(subagent, "m")),
            ..ModelsConfig::default()
        },
        ..HarnessConfig::default()
    }
}

#[test]
fn a_configured_key_wins_and_a_blank_one_counts_as_missing() {
    let key_of = |configured: Option<&str>, variable: Option<&str>| {
        let table = ProviderConfig {
            api_key: configured.map(str::to_owned),
            ..ProviderConfig::default()
        };
        resolve_provider_runtime_config(&ConfiguredProvider::Anthropic, Some(&table), |name| {
            match name {
                "ANTHROPIC_API_KEY" => variable.map(str::to_owned),
                "ANTHROPIC_BASE_URL" => None,
                other => panic!("{other}"),
            }
        })
        .map(|runtime| runtime.unwrap().api_key.unwrap().expose_secret().to_owned())
        .map_err(|error| error.to_string())
    };
    assert_eq!(key_of(Some("file"), Some("env")), Ok("file".to_owned()));
    assert_eq!(key_of(Some("  "), Some(" env\n")), Ok("env".to_owned()));
    assert_eq!(key_of(None, Some("env")), Ok("env".to_owned()));
    let missing = "missing api key for provider 'anthropic': set [providers.anthropic].api_key or ANTHROPIC_API_KEY";
    assert_eq!(key_of(None, None), Err(missing.to_owned()));
    assert_eq!(key_of(Some(""), Some(" ")), Err(missing.to_owned()));
}

#[test]
fn the_table_decides_the_rest() {
    let table = ProviderConfig {
        base_url: Some("http://127.0.0.1:1".to_owned()),
        api_key: Some("k".to_owned()),
        headers: [("X-Team".to_owned(), "core".to_owned())]
            .into_iter()
            .collect(),
        temperature: Some(0.5),
        ..ProviderConfig::default()
    };
    let runtime =
        resolve_provider_runtime_config(&ConfiguredProvider::OpenAi, Some(&table), |_| None)
            .unwrap()
            .unwrap();
    assert_eq!(runtime.base_url, "http://127.0.0.1:1");
    assert_eq!(runtime.temperature, Some(0.5));
    assert_eq!(runtime.headers["X-Team"].expose_secret(), "core");

    for provider in ConfiguredProvider::ALL {
        let lookup = |name: &str| name.ends_with("_KEY").then(|| "k".to_owned());
        let runtime = resolve_provider_runtime_config(&provider, None, lookup).unwrap();
        assert_eq!(
            runtime.map(|runtime| runtime.base_url).as_deref(),
            default_base_url(&provider)
        );
    }
}

#[test]
fn every_selected_role_needs_its_key() {
    let config = config_of(ConfiguredProvider::OpenAi, ConfiguredProvider::Anthropic);
    let environment = Environment::from_iter([("OPENAI_API_KEY", "k")]);
    let error = resolve_credentials(&config, &environment).unwrap_err();
    assert!(error.to_string().contains("ANTHROPIC_API_KEY"), "{error}");
    assert_eq!(error.code(), "config_missing_api_key");

    let environment = Environment::from_iter([("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "l")]);
    let providers: Vec<_> = resolve_credentials(&config, &environment)
        .unwrap()
        .into_iter()
        .map(|(provider, _)| provider)
        .collect();
    assert_eq!(
        providers,
        [ConfiguredProvider::OpenAi, ConfiguredProvider::Anthropic]
    );
}

#[test]
fn the_offline_model_needs_none() {
    let config = config_of(ConfiguredProvider::Offline, ConfiguredProvider::Offline);
    assert!(
        resolve_credentials(&config, &Environment::empty())
            .unwrap()
            .is_empty()
    );
    assert_eq!(config.providers, ProvidersConfig::default());
}

/// What is built from a loaded configuration needs no environment any more.
#[tokio::test]
async fn loading_fills_in_the_keys_of_selected_providers_only() {
    let world = World::new()
        .explicit("version = 1\n[models.default]\nprovider = \"anthropic\"\nmodel = \"m\"\n")
        .variable("ANTHROPIC_API_KEY", " sk-env ")
        .variable("OPENAI_API_KEY", "sk-other");
    let loaded = world.loaded().await;
    let resolved = resolve_credentials(&loaded.config, &Environment::empty()).unwrap();
    let key = resolved[0].1.api_key.as_ref().unwrap();
    assert_eq!(key.expose_secret(), "sk-env");
    assert_eq!(loaded.config.providers.openai, None);
    assert_eq!(
        loaded.origin("providers.anthropic.api_key"),
        Origin::Environment("ANTHROPIC_API_KEY".to_owned())
    );
}

#[tokio::test]
async fn dot_env_files_are_never_read() {
    let world = World::new()
        .explicit("version = 1\n[models.default]\nprovider = \"openai\"\nmodel = \"m\"\n");
    for directory in ["explicit", "project", "current", "home"] {
        world.write(&format!("{directory}/.env"), "OPENAI_API_KEY=sk-env\n");
    }
    let loaded = world.loaded().await;
    let error = resolve_credentials(&loaded.config, &world.environment()).unwrap_err();
    assert_eq!(error.code(), "config_missing_api_key");
}
