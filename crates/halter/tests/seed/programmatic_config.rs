use halter::prelude::*;
use halter_config::{
    ConfiguredProvider, HarnessConfig, ModelConfig, ModelsConfig, ProviderConfig,
    ProvidersConfig,
};
use halter_protocol::ReasoningEffort;
async fn build() -> anyhow::Result<Halter> {
    let config = HarnessConfig {
        providers: ProvidersConfig {
            openai: Some(ProviderConfig {
                api_key: Some(std::env::var("OPENAI_API_KEY")?),
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
    Halter::from_config(config, ResourceSnapshot::empty()).await
}
