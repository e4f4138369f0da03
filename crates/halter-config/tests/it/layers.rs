//! Layers: which one wins, where values come from, and where paths start.

use std::fs;
use std::path::{Path, PathBuf};

use halter_config::{
    ConfiguredProvider, Environment, LayeredConfigPaths, LoadedConfig, ModelChoice, Origin,
    SessionBackend, TrustStore, find_project_config, load_layered,
};
use halter_protocol::ModelRole;
use serde_json::Value;

use crate::support::{OFFLINE, World, below, error_of, strings};

fn line(origin: &Origin) -> usize {
    origin.location().unwrap().line
}

/// Every value that is written has an origin under its dotted key.
fn assert_all_have_origins(loaded: &LoadedConfig) {
    fn walk(value: &Value, key: &str, loaded: &LoadedConfig, seen: &mut usize) {
        match value {
            Value::Object(table) => {
                for (name, inner) in table {
                    let name = if name
                        .chars()
                        .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
                    {
                        name.clone()
                    } else {
                        format!("{name:?}")
                    };
                    let key = if key.is_empty() {
                        name
                    } else {
                        format!("{key}.{name}")
                    };
                    walk(inner, &key, loaded, seen);
                }
            }
            Value::Null => {}
            _ => {
                assert!(loaded.origins.contains_key(key), "no origin for {key}");
                *seen += 1;
            }
        }
    }
    let mut seen = 0;
    let tree = serde_json::to_value(&loaded.config).unwrap();
    walk(&tree, "", loaded, &mut seen);
    assert!(seen > 30, "{seen}");
}

#[tokio::test]
async fn a_later_layer_wins_key_by_key_and_every_value_has_an_origin() {
    let world = World::new()
        .user("version = 1\n[models.default]\nprovider = \"anthropic\"\nmodel = \"a\"\n[policy]\nmax_read_bytes = 1\nmax_subagent_depth = 1\n[policy.shell]\ntimeout_secs = 1\nallow = [\"user\"]\n[providers.openai.headers]\nX-Team = \"core\"\n\"X.Dot\" = \"d\"\n")
        .project("version = 1\n[models.default]\nmodel = \"p\"\n[policy]\nmax_read_bytes = 2\nmax_subagent_depth = 2\n[policy.shell]\ntimeout_secs = 2\n")
        .explicit("version = 1\n[models.default]\nprovider = \"openai\"\n[policy]\nmax_read_bytes = 3\n[policy.shell]\nallow = [\"explicit\"]\n")
        .variable("HALTER_POLICY_SHELL_ALLOW", "git, ls")
        .variable("OPENAI_API_KEY", "sk-env");
    world.trust_project().await;
    let loaded = world.loaded().await;
    let config = &loaded.config;

    let default = config.model_for(ModelRole::Default).unwrap();
    assert_eq!(default.provider, ConfiguredProvider::OpenAi);
    assert_eq!(default.model, "p");
    assert_eq!(config.policy.max_read_bytes, 3);
    assert_eq!(config.policy.max_subagent_depth, 2);
    assert_eq!(config.policy.shell.timeout_secs, 2);
    assert_eq!(config.policy.shell.allow, ["git", "ls"]);
    assert_eq!(config.policy.max_concurrent_subagents, 8);

    assert_all_have_origins(&loaded);
    let explicit = loaded.origin("policy.max_read_bytes");
    assert!(matches!(explicit, Origin::Explicit(_)));
    assert_eq!(line(&explicit), 5);
    let project = loaded.origin("policy.max_subagent_depth");
    assert!(matches!(project, Origin::Project(_)));
    assert_eq!(line(&project), 6);
    let user = loaded.origin("providers.openai.headers.X-Team");
    assert!(matches!(user, Origin::User(_)));
    assert_eq!(
        user.to_string(),
        format!(
            "user {}:12",
            world.path("home/.config/halter/halter.toml").display()
        )
    );
    assert_eq!(
        loaded.origin("policy.shell.allow"),
        Origin::Environment("HALTER_POLICY_SHELL_ALLOW".to_owned())
    );
    assert_eq!(
        loaded.origin("providers.openai.api_key"),
        Origin::Environment("OPENAI_API_KEY".to_owned())
    );
    assert_eq!(
        loaded.origin("policy.max_concurrent_subagents"),
        Origin::Default
    );
    assert!(loaded.project.unwrap().trusted);
}

#[tokio::test]
async fn roots_of_skills_add_up_without_repeats() {
    let world = World::new()
        .user(&format!("{OFFLINE}[resources.skills]\nroots = [\"mine\", \"~/shared\"]\n"))
        .explicit("version = 1\n[resources.skills]\nroots = [\"./theirs\", \"theirs\", \"~/shared\", \"/abs/./x\"]\n");
    let loaded = world.loaded().await;
    assert_eq!(
        loaded.config.resources.skills.roots,
        [
            world.path("home/.config/halter/mine"),
            world.path("home/shared"),
            world.path("explicit/theirs"),
            PathBuf::from("/abs/x"),
        ]
    );
    assert!(matches!(
        loaded.origin("resources.skills.roots[1]"),
        Origin::User(_)
    ));
    assert!(matches!(
        loaded.origin("resources.skills.roots[2]"),
        Origin::Explicit(_)
    ));
    assert!(!loaded.origins.contains_key("resources.skills.roots[4]"));
}

#[tokio::test]
async fn paths_start_at_their_file_and_policy_roots_stay_relative() {
    let world = World::new().explicit(&format!(
        "{OFFLINE}[sessions]\nbackend = \"sqlite\"\nsqlite_path = \"./.halter/sessions.db\"\n\
         [runtime]\ntraces_dir = \"traces\"\nworking_dir = \"$HOME/x\"\n\
         [policy]\nallowed_write_roots = [\".\", \"out\", \"~/notes\", \"~bob/x\"]\n"
    ));
    let config = world.loaded().await.config;
    assert_eq!(
        config.sessions.sqlite_path,
        Some(world.path("explicit/.halter/sessions.db"))
    );
    assert_eq!(
        config.runtime.traces_dir,
        Some(world.path("explicit/traces"))
    );
    assert_eq!(
        config.runtime.working_dir,
        Some(world.path("explicit/$HOME/x"))
    );
    assert_eq!(
        config.policy.allowed_write_roots,
        [
            PathBuf::from("."),
            PathBuf::from("out"),
            world.path("home/notes"),
            PathBuf::from("~bob/x"),
        ]
    );
}

#[tokio::test]
async fn a_home_path_without_a_home_is_an_error() {
    let world = World::new().explicit(&format!("{OFFLINE}[runtime]\ntraces_dir = \"~/t\"\n"));
    let error = load_layered(world.paths(), &Environment::empty(), &TrustStore::none())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("HOME is not set"), "{error}");
}

#[tokio::test]
async fn a_database_without_a_path_is_in_the_data_directory() {
    let world = World::new()
        .explicit(&format!("{OFFLINE}[sessions]\nbackend = \"sqlite\"\n"))
        .variable("XDG_DATA_HOME", "/data");
    let loaded = world.loaded().await;
    assert_eq!(
        loaded.config.sessions.sqlite_path.as_deref(),
        Some(Path::new("/data/halter/sessions.db"))
    );
    assert_eq!(loaded.origin("sessions.sqlite_path"), Origin::Default);

    let error = load_layered(world.paths(), &Environment::empty(), &TrustStore::none())
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("set sessions.sqlite_path"),
        "{error}"
    );
}

#[tokio::test]
async fn a_later_layer_may_turn_a_database_off() {
    let with_database = "[sessions]\nbackend = \"sqlite\"\nsqlite_path = \"x.db\"\n";
    let world = World::new()
        .user(&format!("{OFFLINE}{with_database}"))
        .explicit("version = 1\n[sessions]\nbackend = \"memory\"\n");
    let config = world.loaded().await.config;
    assert_eq!(config.sessions.backend, SessionBackend::Memory);
    assert_eq!(config.sessions.sqlite_path, None);

    let world = World::new()
        .explicit(&format!("{OFFLINE}{with_database}"))
        .variable("HALTER_SESSION_BACKEND", "memory");
    world.loaded().await.config.validate().unwrap();

    let error = error_of(format!(
        "{OFFLINE}[sessions]\nbackend = \"memory\"\nsqlite_path = \"x.db\"\n"
    ))
    .await;
    assert_eq!(error.code(), "config_invalid_value");
}

#[tokio::test]
async fn nothing_at_all_is_a_configuration_too() {
    let world = World::new();
    let mut loaded = world.loaded().await;
    assert_eq!(loaded.config, halter_config::HarnessConfig::default());
    assert_eq!(loaded.warnings, []);
    loaded.choose_model(&world.environment()).unwrap();
    assert_eq!(
        loaded
            .config
            .model_for(ModelRole::Subagent)
            .unwrap()
            .provider,
        ConfiguredProvider::Offline
    );
    assert_all_have_origins(&loaded);
}

#[tokio::test]
async fn no_layer_has_to_name_a_model() {
    let world = World::new()
        .user("version = 1\n")
        .project("version = 1\n[policy.shell]\nenabled = false\n");
    world.trust_project().await;
    let mut loaded = world.loaded().await;
    assert!(!loaded.config.policy.shell.enabled);
    assert!(loaded.config.models.default.is_none());
    let environment = Environment::from_iter([("ANTHROPIC_API_KEY", "k")]);
    let choice = loaded.choose_model(&environment).unwrap();
    assert!(matches!(choice, ModelChoice::KeyFound { .. }), "{choice}");
    loaded.config.validate().unwrap();
}

#[tokio::test]
async fn a_configuration_knows_the_files_it_was_read_from() {
    let world = World::new().user(OFFLINE).project("version = 1\n");
    let mut files = world.loaded().await.config.sources;
    files.sort();
    let mut expected =
        [world.paths().user_config, world.paths().project_config].map(Option::unwrap);
    expected.sort();
    assert_eq!(files, expected);
}

#[tokio::test]
async fn one_file_in_two_layers_counts_once_as_the_one_that_was_named() {
    let world = World::new().project(OFFLINE);
    let paths = LayeredConfigPaths {
        explicit_config: Some(world.path("project/halter.toml")),
        ..world.paths()
    };
    let loaded = load_layered(paths, &world.environment(), &world.trust_store())
        .await
        .unwrap();
    assert_eq!(loaded.warnings, []);
    assert!(loaded.project.is_none());
    assert!(matches!(
        loaded.origin("models.default.model"),
        Origin::Explicit(_)
    ));
}

#[test]
fn the_project_file_is_found_upward_to_the_root_of_the_repository() {
    let world = World::new();
    let deep = world.path("project/a/b");
    fs::create_dir_all(&deep).unwrap();
    world.write("halter.toml", OFFLINE);
    assert_eq!(find_project_config(&deep), None, "above the repository");
    let top = world.write("project/halter.toml", OFFLINE);
    assert_eq!(find_project_config(&deep), Some(top));
    let near = world.write("project/a/halter.toml", OFFLINE);
    assert_eq!(find_project_config(&deep), Some(near));
}

#[test]
fn outside_a_repository_only_the_directory_itself_counts() {
    let root = tempfile::TempDir::new().unwrap();
    // A repository above the temporary directory would make this test meaningless.
    if root
        .path()
        .ancestors()
        .any(|directory| directory.join(".git").exists())
    {
        return;
    }
    let inner = below(root.path(), "inner");
    fs::create_dir(&inner).unwrap();
    fs::write(root.path().join("halter.toml"), OFFLINE).unwrap();
    assert_eq!(find_project_config(&inner), None);
    assert_eq!(
        find_project_config(root.path()),
        Some(root.path().join("halter.toml"))
    );
}

#[tokio::test]
async fn a_directory_that_is_not_text_still_works() {
    use std::os::unix::ffi::OsStrExt;
    let root = tempfile::TempDir::new().unwrap();
    let directory = root
        .path()
        .join(std::ffi::OsStr::from_bytes(b"caf\xe9 bar"));
    fs::create_dir(&directory).unwrap();
    let file = directory.join("halter.toml");
    fs::write(
        &file,
        format!("{OFFLINE}[resources.skills]\nroots = [\"s\"]\n"),
    )
    .unwrap();
    let paths = LayeredConfigPaths {
        explicit_config: Some(file),
        ..LayeredConfigPaths::default()
    };
    let loaded = load_layered(paths, &Environment::empty(), &TrustStore::none())
        .await
        .unwrap();
    assert_eq!(loaded.config.resources.skills.roots, [directory.join("s")]);
    assert!(
        serde_json::to_string(&loaded.config)
            .unwrap()
            .contains("caf")
    );
}

#[tokio::test]
async fn defaults_are_those_of_the_documentation() {
    let config = halter_config::HarnessConfig::default();
    assert_eq!(strings(&config.policy.allowed_write_roots), ["."]);
    assert!(config.policy.allowed_read_roots.is_empty());
    assert_eq!(config.policy.sensitive_path_patterns, None);
    assert_eq!(config.policy.max_read_bytes, 1_048_576);
    assert_eq!(
        config.policy.shell.allow,
        ["git", "cargo", "rg", "ls", "find", "true", "cd"]
    );
    assert!(config.policy.network.allowed_hosts.is_empty());
    assert_eq!(config.context.compaction_threshold, None);
    assert_eq!(config.context.pre_compaction_target, None);
    assert_eq!(config.runtime.subagent_event_forwarding_cap, 100_000);
    assert_eq!(config.resilience.request_retry.max_attempts, 5);
    config.validate().unwrap();
}
