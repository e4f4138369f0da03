use std::sync::Arc;
use halter::{HalterBuilder, ResourceCompiler};
use halter_config::load_path;
async fn build_custom(tool: Arc<dyn halter_tools::Tool>) -> anyhow::Result<halter::Halter> {
    let config = load_path("halter.toml").await?;
    let resources = ResourceCompiler::from_config(&config).compile().await?;
    HalterBuilder::new()
        .with_config(config)
        .with_compiled_resources(resources)
        .with_tool(tool)
        .build()
        .await
}
