//! How the tools for the web are set up, from the configuration.

use crate::services::certificates;
use halter_config::{Environment, HarnessConfig, SearchProvider, WebSearchConfig};
use halter_providers::http::tls_with_roots;
use halter_tools::WebSettings;
use std::sync::Arc;

/// The variable that holds the key of Brave where no file does.
const BRAVE_KEY: &str = "BRAVE_API_KEY";

/// Tools for the web trust whom model services are trusted by.
pub(crate) fn web_settings(config: &HarnessConfig, environment: &Environment) -> WebSettings {
    let file = certificates(environment);
    let web = WebSettings::new().with_tls(Arc::new(move || Ok(tls_with_roots(file.as_deref())?)));
    match with_search(web.clone(), &config.tools.web_search, environment) {
        Ok(searching) => searching,
        Err(error) => web.without_search(format!("{error:#}")),
    }
}

fn with_search(
    web: WebSettings,
    search: &WebSearchConfig,
    environment: &Environment,
) -> anyhow::Result<WebSettings> {
    match search.provider {
        None => Ok(web),
        Some(SearchProvider::Searxng) => match &search.url {
            Some(address) => web.with_searxng(address),
            None => anyhow::bail!("tools.web_search.url is missing: the address of SearXNG"),
        },
        Some(SearchProvider::Brave) => {
            let blank = |key: &&str| !key.trim().is_empty();
            let key = search.api_key.as_deref().filter(blank);
            let key = key.or_else(|| environment.text(BRAVE_KEY).filter(blank));
            let Some(key) = key else {
                anyhow::bail!("there is no key; set tools.web_search.api_key or {BRAVE_KEY}");
            };
            web.with_brave(key.trim(), search.url.as_deref())
        }
        Some(_) => anyhow::bail!("tools.web_search.provider names no known service"),
    }
}
