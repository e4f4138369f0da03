//! What a turn costs, and where its prices are known from: configuration, then
//! the service, then the table in the program, then nobody.

use crate::support::{directory, no_keys, run_turn};
use halter::prelude::*;
use halter_config::{ConfiguredProvider, ModelConfig, ModelOverride, ModelPrices, ProviderConfig};
use halter_mock::{MockService, ServeOptions, serve};
use halter_protocol::Cost;
use halter_providers::catalog::{ListedModel, read_models};

/// Uses 1,000 tokens of input, 200 from the cache and 30 into it, and 500 of
/// output.
const METER: &str = "mock:token_cost_reporting";

fn config(service: &MockService, model: &str, prices: Option<ModelPrices>) -> HarnessConfig {
    let mut config = HarnessConfig::default();
    let mut table = ProviderConfig {
        base_url: Some(format!("{}/anthropic", service.base_url())),
        api_key: Some("sk-very-secret".to_owned()),
        ..ProviderConfig::default()
    };
    let facts = ModelOverride {
        prices,
        ..ModelOverride::default()
    };
    table.models.insert(model.to_owned(), facts);
    config.providers.anthropic = Some(table);
    config.models.default = Some(ModelConfig::new(ConfiguredProvider::Anthropic, model));
    config
}

/// What the turn, and with it the session, cost.
async fn cost(config: HarnessConfig, answers: Vec<ListedModel>) -> Option<Cost> {
    let workspace = directory(&[]);
    let harness = Halter::builder()
        .with_config(config)
        .with_environment(no_keys())
        .with_resource_snapshot(ResourceSnapshot::empty())
        .build()
        .await
        .unwrap();
    harness.catalog().take_list(&"anthropic".into(), answers);
    let init = SessionInit::default().with_working_dir(workspace.path());
    let session = harness.new_session(init).await.unwrap();
    let events = run_turn(&session, METER).await;
    session.shutdown("done").await.unwrap();
    match &events.last().unwrap().payload {
        SessionEventPayload::TurnCompleted { usage, .. } => usage.cost,
        other => panic!("{other:?}"),
    }
}

/// A list as services with prices answer it: a dollar for a million tokens of
/// any kind.
fn listed(model: &str) -> Vec<ListedModel> {
    let list = format!(
        r#"{{"data":[{{"id":"{model}","pricing":{{"prompt":"0.000001","completion":"0.000001"}}}}]}}"#
    );
    read_models(list.as_bytes())
}

#[tokio::test]
async fn each_source_of_prices_yields_to_the_one_before_it() {
    let service = serve(ServeOptions::default()).await.unwrap();
    let known = "claude-sonnet-4-5";
    let unknown = "claude-nobody-knows-1-1";
    let prices = ModelPrices {
        input: 2.0,
        output: 4.0,
        cache_read: Some(1.0),
        cache_write: None,
    };

    let configured = config(&service, known, Some(prices));
    let configured = cost(configured, listed(known)).await.unwrap();
    // Billionths of a dollar.
    assert_eq!(
        configured,
        Cost {
            uncached_input: 2_000_000,
            cache_read: 200_000,
            cache_write: 60_000,
            output: 2_000_000,
            price_from_config: true,
            ..Cost::default()
        }
    );

    let answered = cost(config(&service, known, None), listed(known)).await;
    assert_eq!(
        answered.unwrap(),
        Cost {
            uncached_input: 1_000_000,
            cache_read: 200_000,
            cache_write: 30_000,
            output: 500_000,
            price_from_provider: true,
            ..Cost::default()
        }
    );

    let built_in = cost(config(&service, known, None), Vec::new()).await;
    assert_eq!(
        built_in.unwrap(),
        Cost {
            uncached_input: 3_000_000,
            cache_read: 60_000,
            cache_write: 112_500,
            output: 7_500_000,
            price_built_in: true,
            ..Cost::default()
        }
    );

    let nobody = cost(config(&service, unknown, None), Vec::new()).await;
    assert_eq!(nobody, None, "without a price there is no cost");
    service.stop().await;
}
