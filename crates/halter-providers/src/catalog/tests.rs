use super::*;
use crate::test_model::model;
use halter_protocol::UsageBuckets;

fn window(claimed: u32) -> Claims {
    Claims {
        context_window: Some(claimed),
        ..Claims::default()
    }
}

#[test]
fn each_source_yields_to_the_one_before_it() {
    let catalog = Catalog::new();
    let known = || catalog.facts(&model("gpt-4o")).context_window;
    assert_eq!(
        catalog.facts(&model("never-heard-of")).context_window,
        Known::new(DEFAULT_CONTEXT_WINDOW, Source::Default)
    );
    assert_eq!(known(), Known::new(128_000, Source::BuiltIn));

    let answer = ListedModel {
        model: "gpt-4o".to_owned(),
        claims: window(100_000),
    };
    catalog.take_list(&"acme".into(), vec![answer]);
    assert_eq!(known(), Known::new(100_000, Source::Provider));

    catalog.configure(&"acme".into(), "gpt-4o", window(90_000));
    assert_eq!(known(), Known::new(90_000, Source::Config));

    let own = ResolvedModel {
        max_input_tokens: Some(80_000),
        ..model("gpt-4o")
    };
    assert_eq!(
        catalog.facts(&own).context_window,
        Known::new(80_000, Source::Config)
    );
}

#[test]
fn what_one_source_leaves_open_the_next_fills_in() {
    let catalog = Catalog::new();
    catalog.configure(&"acme".into(), "gpt-4o", window(90_000));
    let facts = catalog.facts(&model("gpt-4o"));
    assert_eq!(facts.context_window.source, Source::Config);
    assert_eq!(
        facts.output_limit,
        Some(Known::new(16_384, Source::BuiltIn))
    );
}

#[test]
fn a_learned_limit_only_ever_narrows() {
    let catalog = Catalog::new();
    let configured = ResolvedModel {
        max_input_tokens: Some(200_000),
        ..model("m")
    };
    let message = "This model's maximum context length is 150000 tokens.";
    assert_eq!(
        catalog.learn_from_overflow(&configured, message),
        Some(150_000)
    );
    assert_eq!(
        catalog.facts(&configured).context_window,
        Known::new(150_000, Source::Learned)
    );
    let smaller = ResolvedModel {
        max_input_tokens: Some(100_000),
        ..model("m")
    };
    assert_eq!(
        catalog.facts(&smaller).context_window,
        Known::new(100_000, Source::Config)
    );
    assert_eq!(
        catalog.learn_from_overflow(&smaller, "something else"),
        None
    );
    assert_eq!(
        catalog.facts(&model("m")).context_window,
        Known::new(150_000, Source::Learned),
        "a default knows nothing"
    );
}

#[test]
fn refusals_are_remembered_per_setting_and_level() {
    let catalog = Catalog::new();
    let thinking = |level| ResolvedModel {
        reasoning: Some(level),
        ..model("m")
    };
    assert!(catalog.takes_temperature(&model("m")));
    catalog.learn_refusal(&model("m"), RefusedSetting::Temperature);
    assert!(!catalog.takes_temperature(&model("m")));

    catalog.learn_refusal(&thinking(ReasoningEffort::XHigh), RefusedSetting::Reasoning);
    assert!(!catalog.takes_reasoning(&thinking(ReasoningEffort::XHigh)));
    assert!(catalog.takes_reasoning(&thinking(ReasoningEffort::High)));
    assert!(catalog.takes_reasoning(&model("m")));
    assert!(catalog.takes_temperature(&model("other")));
}

#[test]
fn the_table_knows_what_gpt_5_refuses() {
    let catalog = Catalog::new();
    let level = |level| ResolvedModel {
        reasoning: Some(level),
        ..model("gpt-5")
    };
    assert!(!catalog.takes_temperature(&model("gpt-5")));
    assert!(catalog.takes_reasoning(&level(ReasoningEffort::Minimal)));
    assert!(!catalog.takes_reasoning(&level(ReasoningEffort::Max)));
}

#[test]
fn cost_is_known_per_bucket_with_its_source() {
    let catalog = Catalog::new();
    let usage = Usage::from(UsageBuckets {
        uncached_input: 1_000_000,
        cache_read: 1_000_000,
        cache_write: 1_000_000,
        output: 1_000_000,
        reasoning: 1_000_000,
    });
    let cost = catalog.cost(&usage, &model("claude-sonnet-4-5")).unwrap();
    assert_eq!(cost.source, Source::BuiltIn);
    assert_eq!(cost.value.dollars(), 3.0 + 0.3 + 3.75 + 15.0 + 15.0);
    assert_eq!(catalog.cost(&usage, &model("never-heard-of")), None);
}

#[test]
fn the_catalog_forgets_the_oldest_beyond_its_limit() {
    let catalog = Catalog::new();
    for index in 0..=CATALOG_MODELS {
        catalog.configure(&"acme".into(), &format!("m{index}"), window(1));
    }
    assert_eq!(
        catalog.facts(&model("m0")).context_window.source,
        Source::Default
    );
    assert_eq!(
        catalog.facts(&model("m1")).context_window.source,
        Source::Config
    );
}
