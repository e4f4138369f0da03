//! What a build can do.

use halter_config::HarnessConfig;

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
