//! Services that search the web: what one must do, SearXNG, and Brave.

use super::{Tls, WebRequest, destination, html, send};
use crate::context::ToolContext;
use crate::limits::{WEB_SEARCH_BYTES, WEB_SEARCH_SECS, WEB_SEARCH_SNIPPET_CHARS};
use anyhow::{Context as _, bail};
use async_trait::async_trait;
use hyper::StatusCode;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// Where Brave answers.
const BRAVE: &str = "https://api.search.brave.com/res/v1/web/search";

/// A service that searches the web. Reach it by
/// [`ToolContext::connect`](crate::ToolContext::connect), which holds it to the
/// network policy.
#[async_trait]
pub trait WebSearch: Send + Sync {
    /// The host that a search reaches, with its port, such as
    /// `search.example:443`: a call is judged by it before it starts. Absent:
    /// none.
    fn host(&self) -> Option<String> {
        None
    }

    /// What is found, best first.
    ///
    /// # Errors
    /// If there is no answer. What is said must hold no secret: a model reads
    /// it.
    async fn search(
        &self,
        context: &ToolContext,
        query: &SearchQuery,
    ) -> anyhow::Result<Vec<SearchHit>>;
}

/// What is searched for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchQuery {
    /// The words.
    pub text: String,
    /// How many pages are wanted at most.
    pub max_results: usize,
}

/// A page that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SearchHit {
    /// Its title.
    pub title: String,
    /// Its address.
    pub url: String,
    /// What of it fits the query, as plain text or HTML.
    pub snippet: String,
}

/// The service that is asked.
#[derive(Clone)]
pub(crate) enum SearchChoice {
    Searxng(Url),
    Brave {
        key: HeaderValue,
        url: Option<Url>,
    },
    Own(Arc<dyn WebSearch>),
    /// None can be asked, and why.
    Missing(String),
}

impl SearchChoice {
    pub(crate) fn service(&self, tls: &Tls) -> anyhow::Result<Arc<dyn WebSearch>> {
        let (kind, base) = match self {
            Self::Own(own) => return Ok(Arc::clone(own)),
            Self::Missing(reason) => bail!("{reason}"),
            Self::Searxng(url) => {
                // An address names the place of the service, `/search` is its own.
                let mut base = url.clone();
                base.set_path(&format!("{}/search", url.path().trim_end_matches('/')));
                (Kind::Searxng, base)
            }
            Self::Brave { key, url } => {
                let base = match url {
                    Some(url) => url.clone(),
                    None => Url::parse(BRAVE)?,
                };
                (Kind::Brave(key.clone()), base)
            }
        };
        Ok(Arc::new(Service {
            kind,
            base,
            tls: tls.clone(),
        }))
    }
}

/// A built-in service.
struct Service {
    kind: Kind,
    base: Url,
    tls: Tls,
}

enum Kind {
    Searxng,
    /// With the key, which is marked as one: no log shows it.
    Brave(HeaderValue),
}

#[async_trait]
impl WebSearch for Service {
    fn host(&self) -> Option<String> {
        destination(&self.base).ok().map(|host| host.to_string())
    }

    async fn search(
        &self,
        context: &ToolContext,
        query: &SearchQuery,
    ) -> anyhow::Result<Vec<SearchHit>> {
        let mut url = self.base.clone();
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        match &self.kind {
            Kind::Searxng => {
                url.query_pairs_mut()
                    .append_pair("q", &query.text)
                    .append_pair("format", "json");
            }
            Kind::Brave(key) => {
                let count = query.max_results.to_string();
                url.query_pairs_mut()
                    .append_pair("q", &query.text)
                    .append_pair("count", &count);
                let name = HeaderName::from_static("x-subscription-token");
                headers.insert(name, key.clone());
            }
        }
        let request = WebRequest {
            url,
            headers,
            // The key goes to the service and nowhere else.
            body: None,
            redirects: 0,
            body_bytes: WEB_SEARCH_BYTES,
            time: Duration::from_secs(WEB_SEARCH_SECS),
        };
        let answer = send(context, &self.tls, request).await?;
        if !answer.status.is_success() {
            bail!(
                "the search service answered {}{}",
                answer.status,
                self.advice(answer.status)
            );
        }
        if answer.is_cut {
            bail!("the search service answered with more than {WEB_SEARCH_BYTES} bytes");
        }
        self.hits(&answer.body)
    }
}

impl Service {
    fn hits(&self, body: &[u8]) -> anyhow::Result<Vec<SearchHit>> {
        let unknown = "the search service answered something else than its format";
        let found = match self.kind {
            Kind::Searxng => {
                serde_json::from_slice::<SearxngAnswer>(body)
                    .context(unknown)?
                    .results
            }
            Kind::Brave(_) => serde_json::from_slice::<BraveAnswer>(body)
                .context(unknown)?
                .web
                .map_or_else(Vec::new, |web| web.results),
        };
        let hit = |found: Found| SearchHit {
            title: found.title.unwrap_or_default(),
            url: found.url,
            snippet: found.snippet.unwrap_or_default(),
        };
        Ok(found.into_iter().map(hit).collect())
    }

    /// What a person who set the service up has to look at.
    fn advice(&self, status: StatusCode) -> &'static str {
        match (&self.kind, status.as_u16()) {
            (Kind::Searxng, 403) => "; its settings.yml has to list `json` under search.formats",
            (Kind::Brave(_), 401 | 403 | 422) => {
                "; look at the key, tools.web_search.api_key or BRAVE_API_KEY"
            }
            (_, 429) => "; it was asked too often, try again later",
            _ => "",
        }
    }
}

#[derive(Deserialize)]
struct SearxngAnswer {
    #[serde(default)]
    results: Vec<Found>,
}

#[derive(Deserialize)]
struct BraveAnswer {
    web: Option<BraveWeb>,
}

#[derive(Deserialize)]
struct BraveWeb {
    #[serde(default)]
    results: Vec<Found>,
}

/// What both services say of a page.
#[derive(Deserialize)]
struct Found {
    url: String,
    title: Option<String>,
    #[serde(default, alias = "content", alias = "description")]
    snippet: Option<String>,
}

impl SearchHit {
    /// The page as a result shows it: plain text, cut.
    pub(crate) fn shown(&self) -> Self {
        Self {
            title: plain(&self.title),
            url: self.url.clone(),
            snippet: plain(&self.snippet),
        }
    }
}

/// One line of text. Services mark what fits in HTML.
fn plain(text: &str) -> String {
    let text: String = text.chars().take(WEB_SEARCH_SNIPPET_CHARS * 2).collect();
    let text = html::text_of(&text);
    let words: Vec<&str> = text.split_whitespace().collect();
    words
        .join(" ")
        .chars()
        .take(WEB_SEARCH_SNIPPET_CHARS)
        .collect()
}
