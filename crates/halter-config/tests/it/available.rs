//! What a build can do, and keys that have no effect yet.

use halter_config::{HarnessConfig, inert_keys};

use crate::support::{OFFLINE, World, load_text};

#[tokio::test]
async fn keys_that_nobody_set_are_not_reported_as_inert() {
    let loaded = load_text(OFFLINE).await.unwrap();
    assert_eq!(inert_keys(&loaded), []);
}

#[tokio::test]
async fn inert_keys_name_the_part_they_wait_for_and_who_set_them() {
    let loaded = load_text(format!(
        "{OFFLINE}[context]\ncompaction_threshold = 90000\n[resources.plugins]\nroots = [\"/p\"]\n[resilience.timeouts]\nconnect_secs = 3\n"
    ))
    .await
    .unwrap();
    let inert: Vec<(String, &str, usize)> = inert_keys(&loaded)
        .into_iter()
        .map(|key| (key.key, key.waits_for, key.origin.location().unwrap().line))
        .collect();
    assert_eq!(
        inert,
        [("resources.plugins.roots".to_owned(), "plugins", 8),]
    );
}

#[tokio::test]
async fn a_variable_can_set_an_inert_key() {
    let world = World::new()
        .explicit(OFFLINE)
        .variable("HALTER_PLUGIN_ROOTS", "/p");
    let inert = inert_keys(&world.loaded().await);
    assert_eq!(inert.len(), 1);
    assert_eq!(inert[0].key, "resources.plugins.roots");
}

#[test]
fn a_literal_is_held_to_the_limits_of_a_file() {
    let refused = |change: fn(&mut HarnessConfig)| {
        let mut config = HarnessConfig::default();
        change(&mut config);
        config.validate().unwrap_err().to_string()
    };
    assert!(refused(|c| c.policy.max_read_bytes = 0).contains("policy.max_read_bytes"));
    assert!(refused(|c| c.version = 2).contains("version"));
    let both = |c: &mut HarnessConfig| {
        c.context.compaction_threshold = Some(80_000);
        c.context.pre_compaction_target = Some(80_000);
    };
    assert!(refused(both).contains("threshold"));
    assert!(refused(|c| c.sessions.sqlite_path = Some("x".into())).contains("sqlite_path"));
    assert!(refused(|c| c.tools.enabled = vec![String::new()]).contains("tools.enabled[0]"));
    assert!(
        refused(|c| {
            c.providers.openai = Some(halter_config::ProviderConfig {
                temperature: Some(f64::NAN),
                ..Default::default()
            });
        })
        .contains("temperature")
    );
    assert!(
        refused(|c| {
            c.providers.openai = Some(halter_config::ProviderConfig {
                headers: [("A".to_owned(), "b\n".to_owned())].into_iter().collect(),
                ..Default::default()
            });
        })
        .contains("control character")
    );
}
