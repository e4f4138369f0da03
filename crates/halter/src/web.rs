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
    let web = match with_search(web.clone(), &config.tools.web_search, environment) {
        Ok(searching) => searching,
        Err(error) => web.without_search(format!("{error:#}")),
    };
    #[cfg(feature = "browser-tools")]
    let web = match with_browser(web.clone(), &config.browser, environment) {
        Ok(browsing) => browsing,
        Err(error) => web.without_browser(format!("{error:#}")),
    };
    web
}

/// A browser elsewhere, if one is named.
#[cfg(feature = "browser-tools")]
fn with_browser(
    web: WebSettings,
    browser: &halter_config::BrowserConfig,
    environment: &Environment,
) -> anyhow::Result<WebSettings> {
    use anyhow::Context as _;
    let text = |name: &str| {
        let value = environment.text(name).map(str::trim);
        value.filter(|value| !value.is_empty())
    };
    if let Some(address) = &browser.cdp_url {
        return web.with_browser_at(address).context("browser.cdp_url");
    }
    let Some(key) = text("BROWSERBASE_API_KEY") else {
        return Ok(web);
    };
    let project = text("BROWSERBASE_PROJECT_ID")
        .context("BROWSERBASE_API_KEY is set, and BROWSERBASE_PROJECT_ID is not")?;
    let mut service = halter_tools::Browserbase::new(key, project, text("BROWSERBASE_BASE_URL"))
        .context("BROWSERBASE_API_KEY or BROWSERBASE_BASE_URL")?;
    let is_on = |name: &str| text(name).is_some_and(|value| matches!(value, "1" | "true"));
    service.proxies = is_on("BROWSERBASE_PROXIES");
    service.keep_alive = is_on("BROWSERBASE_KEEP_ALIVE");
    if let Some(seconds) = text("BROWSERBASE_SESSION_TIMEOUT") {
        let seconds = seconds.parse();
        let wrong = "BROWSERBASE_SESSION_TIMEOUT is no number of seconds";
        service.timeout_secs = Some(seconds.context(wrong)?);
    }
    Ok(web.with_browserbase(service))
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
