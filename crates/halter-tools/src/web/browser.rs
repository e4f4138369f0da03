//! A browser that runs elsewhere, as settings name it.

use super::{WebRequest, parse};
use crate::limits::{BROWSER_ENDPOINT_BYTES, BROWSER_START_SECS};
use anyhow::anyhow;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::json;
use std::time::Duration;
use url::Url;

/// The public address of Browserbase.
const BROWSERBASE: &str = "https://api.browserbase.com";

/// A browser that runs elsewhere.
#[derive(Clone)]
pub(crate) enum RemoteBrowser {
    /// At this address.
    Endpoint(Url),
    /// One that a service starts when it is needed.
    Browserbase(Browserbase),
}

/// An account at Browserbase.
#[derive(Clone)]
pub struct Browserbase {
    key: HeaderValue,
    project: String,
    address: Url,
    /// Pages go through proxies of the service.
    pub proxies: bool,
    /// The browser goes on when the session ends.
    pub keep_alive: bool,
    /// Seconds that a browser may run; absent: as the service says.
    pub timeout_secs: Option<u64>,
}

impl Browserbase {
    /// An account, at the service's public address unless another is named.
    ///
    /// # Errors
    /// If the key cannot be sent, or this is not an address.
    pub fn new(key: &str, project: &str, address: Option<&str>) -> anyhow::Result<Self> {
        // What is wrong with a key is not said in its words.
        let key = HeaderValue::from_str(key);
        let mut key = key.map_err(|_| anyhow!("the key holds characters that no key has"))?;
        key.set_sensitive(true);
        Ok(Self {
            key,
            project: project.to_owned(),
            address: parse(address.unwrap_or(BROWSERBASE))?,
            proxies: false,
            keep_alive: false,
            timeout_secs: None,
        })
    }

    /// What asks for a browser.
    pub(crate) fn request(&self) -> anyhow::Result<WebRequest> {
        let mut body = json!({ "projectId": self.project });
        if let Some(fields) = body.as_object_mut() {
            if self.proxies {
                fields.insert("proxies".into(), true.into());
            }
            if self.keep_alive {
                fields.insert("keepAlive".into(), true.into());
            }
            if let Some(seconds) = self.timeout_secs {
                fields.insert("timeout".into(), seconds.into());
            }
        }
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static("x-bb-api-key"), self.key.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let mut url = self.address.clone();
        url.set_path(&format!("{}/v1/sessions", url.path().trim_end_matches('/')));
        Ok(WebRequest {
            url,
            headers,
            body: Some(body.to_string()),
            redirects: 0,
            body_bytes: BROWSER_ENDPOINT_BYTES,
            time: Duration::from_secs(BROWSER_START_SECS),
        })
    }

    pub(crate) fn address(&self) -> &Url {
        &self.address
    }
}

impl std::fmt::Debug for Browserbase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Browserbase").finish_non_exhaustive()
    }
}
