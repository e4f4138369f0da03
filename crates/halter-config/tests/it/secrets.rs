//! Secrets never appear, wherever a configuration is shown.

use halter_config::{
    ConfiguredProvider, Environment, HarnessConfig, LayeredConfigPaths, ProviderConfig,
    SecretString, TrustStore, config_fingerprint, load_layered, resolve_credentials,
};

use crate::support::{World, error_of};

const KEY: &str = "sk-very-secret-0123";
const HEADER: &str = "header-secret-4567";

fn file() -> String {
    format!(
        "version = 1\n[models.default]\nprovider = \"openai\"\nmodel = \"gpt-5\"\n\
         [providers.openai]\napi_key = \"{KEY}\"\n[providers.openai.headers]\nX-Auth = \"{HEADER}\"\n"
    )
}

fn assert_clean(what: &str, shown: &str) {
    for secret in [KEY, HEADER, "very-secret", "header-secret"] {
        assert!(!shown.contains(secret), "{what} shows a secret: {shown}");
    }
}

#[tokio::test]
async fn no_view_of_a_configuration_shows_a_secret() {
    let world = World::new().explicit(&file());
    let loaded = world.loaded().await;
    let config = &loaded.config;
    assert_eq!(
        config.providers.openai.as_ref().unwrap().api_key.as_deref(),
        Some(KEY),
        "the value itself is there"
    );

    assert_clean("Debug", &format!("{loaded:?} {loaded:#?}"));
    assert_clean("JSON", &serde_json::to_string(&config).unwrap());
    assert_clean("TOML", &toml::to_string(&config).unwrap());
    assert!(
        serde_json::to_string(&config)
            .unwrap()
            .contains("\"api_key\":\"[redacted]\"")
    );
    let runtime = resolve_credentials(config, &Environment::empty()).unwrap();
    assert_clean("runtime Debug", &format!("{runtime:?}"));
    assert_clean(
        "runtime JSON",
        &serde_json::to_string(&runtime[0].1).unwrap(),
    );
    let secret = SecretString::from(KEY.to_owned());
    assert_clean(
        "secret",
        &format!("{secret} {secret:?} {}", serde_json::json!(secret)),
    );
    let table = config.providers.openai.clone().unwrap();
    assert_clean(
        "table",
        &format!(
            "{table:?} {:?}",
            ProviderConfig {
                base_url: None,
                ..table.clone()
            }
        ),
    );
}

#[tokio::test]
async fn the_fingerprint_depends_on_settings_and_not_on_secrets() {
    let base = World::new().explicit(&file()).loaded().await.config;
    let mut other_key = base.clone();
    other_key.providers.openai.as_mut().unwrap().api_key = Some("another".to_owned());
    let mut other_model = base.clone();
    other_model.models.default.as_mut().unwrap().model = "gpt-6".to_owned();

    let fingerprint = |config: &HarnessConfig| config_fingerprint(config).unwrap();
    assert_eq!(fingerprint(&base), fingerprint(&base.clone()));
    assert_eq!(fingerprint(&base), fingerprint(&other_key));
    assert_ne!(fingerprint(&base), fingerprint(&other_model));
    assert_clean("fingerprint", &fingerprint(&base));
}

/// Whatever is wrong near a secret, the error does not quote it.
#[tokio::test]
async fn no_error_shows_a_secret() {
    for text in [
        file().replace("[providers.openai.headers]", "[providers.openai.headers"),
        file().replace(&format!("\"{KEY}\""), &format!("\"{KEY}")),
        file().replace(&format!("\"{KEY}\""), &format!("[\"{KEY}\"]")),
        file().replace(&format!("\"{KEY}\""), &format!("\"{KEY}\\u0007\"")),
        file().replace(&format!("\"{KEY}\""), &format!("{{ key = \"{KEY}\" }}")),
        file().replace(&format!("\"{KEY}\""), KEY),
        file().replace("api_key", "apikey"),
        file().replace(&format!("\"{HEADER}\""), &format!("\"{HEADER}\\n\"")),
        file().replace(&format!("\"{HEADER}\""), &format!("{{ a = \"{HEADER}\" }}")),
        file().replace(&format!("\"{HEADER}\""), "7"),
        file().replace("X-Auth", "\"X Auth\""),
        file() + &format!("base_url = \"https://{KEY}@example.com\"\n").repeat(2),
        file().replace(
            "[providers.openai]\n",
            &format!("[providers.openai]\nbase_url = \"https://u:{KEY}@example.com\"\n"),
        ),
    ] {
        let error = error_of(&text).await;
        assert_clean(
            "the error",
            &format!("{error} {error:?} {:?}", error.hint()),
        );
    }
}

#[tokio::test]
async fn a_key_from_the_environment_is_as_hidden() {
    let world = World::new()
        .explicit("version = 1\n[models.default]\nprovider = \"openai\"\nmodel = \"gpt-5\"\n");
    let environment = Environment::from_iter([("OPENAI_API_KEY", KEY)]);
    let paths = LayeredConfigPaths {
        explicit_config: Some(world.path("explicit/halter.toml")),
        ..LayeredConfigPaths::default()
    };
    let loaded = load_layered(paths, &environment, &TrustStore::none())
        .await
        .unwrap();
    assert_clean("Debug", &format!("{loaded:?} {environment:?}"));
    assert_clean("JSON", &serde_json::to_string(&loaded.config).unwrap());
}

#[tokio::test]
async fn a_project_file_in_memory_is_not_shown() {
    let world = World::new().user(&file()).project(&file());
    let loaded = world.loaded().await;
    assert_clean("Debug", &format!("{loaded:?}"));
    for warning in &loaded.warnings {
        assert_clean("warning", &warning.to_string());
    }
}

/// A configuration that was printed cannot be loaded as if it held keys.
#[tokio::test]
async fn the_placeholder_is_refused() {
    let error = error_of(file().replace(KEY, "[redacted]")).await;
    assert!(error.problem().contains("placeholder"), "{error}");
    assert!(matches!(
        ConfiguredProvider::from_name("openai"),
        ConfiguredProvider::OpenAi
    ));
}
