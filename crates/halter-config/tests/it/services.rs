//! Model services: known ones, those with a table of their own, and which one answers.

use halter_config::{
    ChatDialect, ConfigError, ConfiguredProvider, Environment, HarnessConfig, ModelChoice,
    ModelConfig, ModelPrices, Origin, ProviderConfig, ProviderWire, resolve_credentials,
    resolve_provider_runtime_config,
};

use crate::support::{OFFLINE, World, error_of, load_text, place};

const GROQ: &str = "version = 1\n[models.default]\nprovider = \"groq\"\nmodel = \"llama\"\n\
    [providers.groq]\nwire = \"chat\"\nbase_url = \"https://api.groq.example/openai\"\n";

#[tokio::test]
async fn a_service_of_ones_own_is_described_by_its_table() {
    let world = World::new().explicit(GROQ).variable("GROQ_API_KEY", " k ");
    let loaded = world.loaded().await;
    let reached = resolve_credentials(&loaded.config, &Environment::empty()).unwrap();
    let (provider, reached) = &reached[0];
    assert_eq!(*provider, ConfiguredProvider::Named("groq".to_owned()));
    assert_eq!(reached.wire, ProviderWire::Chat);
    assert_eq!(reached.dialect, ChatDialect::Generic);
    assert_eq!(reached.base_url, "https://api.groq.example/openai");
    assert_eq!(reached.api_key.as_ref().unwrap().expose_secret(), "k");
    assert_eq!(
        loaded.origin("providers.groq.api_key"),
        Origin::Environment("GROQ_API_KEY".to_owned())
    );
    assert_eq!(
        loaded
            .origin("providers.groq.wire")
            .to_string()
            .split(' ')
            .next(),
        Some("explicit")
    );
}

#[tokio::test]
async fn any_number_of_services_may_be_described() {
    let mut text = OFFLINE.to_owned();
    for n in 0..20 {
        text += &format!(
            "[providers.service-{n}]\nwire = \"anthropic\"\nbase_url = \"https://s{n}.example\"\n\
             temperature = 0.5\n[providers.service-{n}.headers]\nX-Team = \"core\"\n"
        );
    }
    let mut config = load_text(text).await.unwrap().config;
    assert_eq!(config.providers.named.len(), 20);
    assert_eq!(config.providers.tables().count(), 20);
    let again = load_text(
        toml::to_string(&config)
            .unwrap()
            .replace("[redacted]", "core"),
    )
    .await
    .unwrap();
    config.sources = again.config.sources.clone();
    config.policy.shell.allow_is_set = true;
    config.policy.write_roots_are_set = true;
    config.policy.read_roots_are_set = true;
    config.policy.network.is_set = true;
    config.models.default_rates.clear();
    assert_eq!(again.config, config);
}

#[tokio::test]
async fn what_is_missing_is_said_with_the_table_to_write() {
    for (text, at, problem, hint) in [
        (
            GROQ.replace("wire = \"chat\"\n", ""),
            Some((6, 1)),
            "`providers.groq.wire` is missing",
            "[providers.groq] with base_url = \"https://...\" and wire = \"chat\", or",
        ),
        (
            GROQ.replace("base_url = \"https://api.groq.example/openai\"\n", ""),
            Some((6, 1)),
            "`providers.groq.base_url` is missing",
            "[providers.groq] with base_url",
        ),
        (
            GROQ.replace("[providers.groq]", "[providers.grok]"),
            Some((3, 1)),
            "unknown provider 'groq'",
            "[providers.groq] with base_url",
        ),
        (
            "version = 1\n[models.default]\nprovider = \"antropic\"\nmodel = \"m\"\n".to_owned(),
            Some((3, 1)),
            "unknown provider 'antropic'",
            "did you mean `anthropic`? If not, describe the service: [providers.antropic] with",
        ),
        (
            format!("{OFFLINE}[providers.opneai]\napi_key = \"k\"\n"),
            Some((6, 1)),
            "`providers.opneai.wire` is missing",
            "did you mean [providers.openai]? If not",
        ),
        (
            format!("{OFFLINE}[providers.offline]\napi_key = \"k\"\n"),
            Some((5, 12)),
            "`providers.offline` is not a service that is reached",
            "leave the table out",
        ),
        (
            format!("{OFFLINE}[providers.\"a/b\"]\napi_key = \"k\"\n"),
            Some((5, 12)),
            "`providers.\"a/b\"` is not a name for a service",
            "letters, digits",
        ),
        (
            format!("{OFFLINE}[providers.openai.routing]\norder = []\n"),
            Some((6, 1)),
            "`providers.openai.routing` is set, but only OpenRouter chooses",
            "dialect = \"openrouter\"",
        ),
        (
            format!("{OFFLINE}[providers.anthropic]\ndialect = \"vllm\"\n"),
            Some((6, 1)),
            "`providers.anthropic.dialect` is set, but the service does not speak the Chat wire",
            "take the dialect out",
        ),
    ] {
        let error = error_of(&text).await;
        assert_eq!(Some(place(&error)), at, "{error}");
        assert_eq!(
            error.problem().split(':').next().unwrap().find(problem),
            Some(0),
            "{error}"
        );
        assert!(error.hint().unwrap().contains(hint), "{error}");
    }
}

#[tokio::test]
async fn a_literal_is_held_to_the_same() {
    let mut config = HarnessConfig::default();
    config.models.default = Some(ModelConfig::new(
        ConfiguredProvider::Named("groq".to_owned()),
        "m",
    ));
    let error = config.validate().unwrap_err();
    assert_eq!(error.code(), "config_unknown_provider");
    config
        .providers
        .named
        .insert("groq".to_owned(), ProviderConfig::default());
    let error = config.validate().unwrap_err();
    assert_eq!(error.problem(), "`providers.groq.wire` is missing");
    config.providers.named.insert(
        "groq".to_owned(),
        ProviderConfig {
            wire: Some(ProviderWire::Gemini),
            base_url: Some("https://x".to_owned()),
            ..ProviderConfig::default()
        },
    );
    config.validate().unwrap();
    config
        .providers
        .named
        .insert("a b".to_owned(), ProviderConfig::default());
    assert!(config.validate().is_err());
}

/// Configured over environment over what is known.
#[tokio::test]
async fn the_usual_variables_give_keys_and_addresses() {
    for (provider, variable, address) in [
        ("anthropic", "ANTHROPIC_API_KEY", Some("ANTHROPIC_BASE_URL")),
        ("openai", "OPENAI_API_KEY", Some("OPENAI_BASE_URL")),
        ("openrouter", "OPENROUTER_API_KEY", None),
        ("gemini", "GEMINI_API_KEY", Some("GOOGLE_GEMINI_BASE_URL")),
        ("gemini", "GOOGLE_API_KEY", Some("GOOGLE_GEMINI_BASE_URL")),
    ] {
        let table =
            format!("version = 1\n[models.default]\nprovider = \"{provider}\"\nmodel = \"m\"\n");
        let mut world = World::new().explicit(&table).variable(variable, "k");
        if let Some(address) = address {
            world = world.variable(address, "http://127.0.0.1:9");
        }
        let loaded = world.loaded().await;
        let reached = resolve_credentials(&loaded.config, &Environment::empty()).unwrap();
        assert_eq!(reached[0].1.api_key.as_ref().unwrap().expose_secret(), "k");
        if let Some(address) = address {
            assert_eq!(reached[0].1.base_url, "http://127.0.0.1:9");
            let key = format!("providers.{provider}.base_url");
            assert_eq!(loaded.origin(&key), Origin::Environment(address.to_owned()));
        }

        let world = World::new().explicit(&format!(
            "{table}[providers.{provider}]\nbase_url = \"http://mine\"\napi_key = \"mine\"\n"
        ));
        let world = world.variable(variable, "k");
        let world = world.variable(address.unwrap_or("X"), "http://127.0.0.1:9");
        let config = world.loaded().await.config;
        let reached = resolve_credentials(&config, &world.environment()).unwrap();
        assert_eq!(
            reached[0].1.api_key.as_ref().unwrap().expose_secret(),
            "mine"
        );
        assert_eq!(reached[0].1.base_url, "http://mine");
    }
}

#[tokio::test]
async fn the_first_variable_of_gemini_wins() {
    let world = World::new()
        .explicit("version = 1\n[models.default]\nprovider = \"gemini\"\nmodel = \"m\"\n")
        .variable("GOOGLE_API_KEY", "second")
        .variable("GEMINI_API_KEY", "first");
    let config = world.loaded().await.config;
    assert_eq!(
        config.providers.gemini.unwrap().api_key.as_deref(),
        Some("first")
    );
}

#[tokio::test]
async fn a_variable_with_a_bad_address_is_named_and_not_shown() {
    for address in ["api.example.com", "https://user:hunter2@x", "https://"] {
        let world = World::new()
            .explicit("version = 1\n[models.default]\nprovider = \"openai\"\nmodel = \"m\"\n")
            .variable("OPENAI_BASE_URL", address);
        let error = world.load().await.unwrap_err();
        assert_eq!(error.code(), "config_variable");
        assert!(error.to_string().starts_with("OPENAI_BASE_URL "), "{error}");
        assert!(!error.to_string().contains("hunter2"));
    }
}

#[test]
fn a_header_may_stand_in_for_the_key_and_local_servers_need_none() {
    let table = ProviderConfig {
        headers: [("Authorization".to_owned(), "Bearer t".to_owned())].into(),
        ..ProviderConfig::default()
    };
    let reach = |name: &str, table: Option<&ProviderConfig>| {
        resolve_provider_runtime_config(&ConfiguredProvider::from_name(name), table, |_| None)
    };
    assert!(
        reach("openai", Some(&table))
            .unwrap()
            .unwrap()
            .api_key
            .is_none()
    );
    let error = reach("gemini", None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "missing api key for provider 'gemini': set [providers.gemini].api_key or GEMINI_API_KEY"
    );
    for (name, dialect) in [
        ("ollama", ChatDialect::Ollama),
        ("lmstudio", ChatDialect::LmStudio),
        ("llamacpp", ChatDialect::LlamaCpp),
        ("vllm", ChatDialect::Vllm),
    ] {
        let reached = reach(name, None).unwrap().unwrap();
        assert!(reached.api_key.is_none());
        assert_eq!(reached.dialect, dialect);
        assert!(reached.base_url.starts_with("http://127.0.0.1:"));
    }
    assert_eq!(
        reach("groq", None).unwrap_err().code(),
        "config_unknown_provider"
    );
}

#[tokio::test]
async fn the_address_of_ollama_comes_from_its_own_variable() {
    let world = World::new()
        .variable("HALTER_MODEL", "ollama/qwen3")
        .variable("OLLAMA_HOST", "0.0.0.0:5000");
    let config = world.loaded().await.config;
    assert_eq!(
        config.providers.named["ollama"].base_url.as_deref(),
        Some("http://127.0.0.1:5000")
    );
}

#[tokio::test]
async fn models_have_facts_and_prices_of_their_own() {
    let text = format!(
        "{GROQ}ca_file = \"ca.pem\"\n[providers.groq.models.\"vendor/model.v1\"]\nmax_input_tokens = 32768\n\
         prices = {{ input = 0.5, output = 1, cache_read = 0.05 }}\n"
    );
    let world = World::new().explicit(&text);
    let loaded = world.loaded().await;
    let table = &loaded.config.providers.named["groq"];
    let model = &table.models["vendor/model.v1"];
    assert_eq!(model.max_input_tokens, Some(32_768));
    assert_eq!(
        model.prices,
        Some(ModelPrices {
            input: 0.5,
            output: 1.0,
            cache_read: Some(0.05),
            cache_write: None
        })
    );
    assert_eq!(table.ca_file, Some(world.path("explicit/ca.pem")));
    let key = "providers.groq.models.\"vendor/model.v1\".prices.input";
    assert!(loaded.origin(key).location().is_some());
    let error = error_of(text.replace("0.5", "-0.5")).await;
    assert!(error.problem().contains("prices.input` is -0.5"), "{error}");
}

fn choice(variables: &[(&str, &str)]) -> (ModelChoice, ModelConfig) {
    let mut config = HarnessConfig::default();
    let choice = config.choose_model(&Environment::from_iter(variables.iter().copied()));
    (choice, config.models.default.unwrap())
}

#[test]
fn without_a_model_the_first_key_decides() {
    let all = [
        ("ANTHROPIC_API_KEY", "anthropic"),
        ("OPENAI_API_KEY", "openai"),
        ("OPENROUTER_API_KEY", "openrouter"),
        ("GEMINI_API_KEY", "gemini"),
        ("GOOGLE_API_KEY", "gemini"),
    ];
    for (from, (variable, name)) in all.iter().enumerate() {
        let set: Vec<_> = all[from..]
            .iter()
            .map(|(variable, _)| (*variable, "k"))
            .collect();
        let (choice, model) = choice(&set);
        assert_eq!(model.provider.as_str(), *name);
        let ModelChoice::KeyFound {
            variable: found, ..
        } = &choice
        else {
            panic!("{choice:?}");
        };
        assert_eq!(found, variable);
        let said = choice.to_string();
        let answers = format!("{variable} is set, so {name}/{} answers", model.model);
        assert!(said.ends_with(&answers), "{said}");
    }
    let (choice, model) = choice(&[("OPENAI_API_KEY", "  "), ("OLLAMA_HOST", "127.0.0.1:1")]);
    assert_eq!(
        (choice.clone(), model),
        (ModelChoice::Offline, ModelConfig::offline())
    );
    assert!(
        choice
            .to_string()
            .contains("ANTHROPIC_API_KEY, OPENAI_API_KEY, OPENROUTER_API_KEY")
    );
}

#[tokio::test]
async fn a_chosen_model_has_its_key_and_its_origin() {
    let world = World::new().variable("OPENAI_API_KEY", "k");
    let mut loaded = world.loaded().await;
    loaded.choose_model(&world.environment()).unwrap();
    assert_eq!(
        loaded.origin("models.default.model"),
        Origin::Environment("OPENAI_API_KEY".to_owned())
    );
    assert!(resolve_credentials(&loaded.config, &Environment::empty()).is_ok());
    assert_eq!(
        loaded.choose_model(&world.environment()).unwrap(),
        ModelChoice::Named
    );
}

#[tokio::test]
async fn a_flag_puts_another_model_in_the_place_of_the_default() {
    let world = World::new()
        .explicit(
            "version = 1\n[models.default]\nprovider = \"openai\"\nmodel = \"m\"\nreasoning = \"low\"\n\
             [models.small]\nprovider = \"gemini\"\nmodel = \"g\"\nreasoning = \"high\"\n",
        )
        .variable("GEMINI_API_KEY", "k");
    let mut loaded = world.loaded().await;
    loaded
        .use_model("ollama/qwen3:8b", "--model", &world.environment())
        .unwrap();
    let default = loaded.config.models.default.clone().unwrap();
    assert_eq!(default.provider.as_str(), "ollama");
    assert_eq!(default.model, "qwen3:8b");
    assert_eq!(default.reasoning, None);
    assert_eq!(
        loaded.origin("models.default.model").to_string(),
        "flag --model"
    );
    assert_eq!(loaded.origin("models.default.reasoning"), Origin::Default);
    // No key of the model that was replaced is needed any more.
    resolve_credentials(&loaded.config, &Environment::empty()).unwrap();

    let same = loaded.config.model_with_id("gemini/g").unwrap();
    assert_eq!(Some(same), loaded.config.models.small);
    for (id, code) in [
        ("groq/x", "config_unknown_provider"),
        ("qwen3", "config_unknown_model"),
        ("ollama/", "config_unknown_model"),
        ("/x", "config_unknown_model"),
    ] {
        let error = loaded
            .use_model(id, "--model", &world.environment())
            .unwrap_err();
        assert_eq!(error.code(), code, "{id}");
    }
    let error = loaded.config.model_with_id("qwen3").unwrap_err();
    assert!(matches!(error, ConfigError::UnknownModel { .. }));
    assert!(error.to_string().contains("provider/model"), "{error}");
}
