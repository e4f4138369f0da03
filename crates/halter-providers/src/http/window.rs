//! Asks servers on this computer for what their list of models leaves open:
//! how long a conversation may be.

use super::provider::{HttpProvider, is_success, read_body};
use super::transport::{HttpMethod, HttpRequest};
use crate::catalog::{Claims, ListedModel};
use crate::limits::{DOCUMENT_BYTES, WINDOW_PROBE_MILLIS, WINDOW_PROBES};
use bytes::Bytes;
use halter_protocol::ResolvedModel;
use serde_json::{Value, json};
use std::time::Duration;

impl HttpProvider {
    /// Asks a server on this computer, once, for the window of a model that
    /// nothing is known of. One that says nothing leaves the window a guess.
    pub(super) async fn ask_for_window(&self, model: &ResolvedModel) {
        let may_know = self.wire().is_self_hosted() && local_root(self.base_url()).is_some();
        if !may_know || !self.catalog().is_window_to_be_asked_for(model) {
            return;
        }
        let ask = async {
            let mut models = match self.list().await {
                Ok(models) => models,
                Err(error) if error.status.is_some() => Vec::new(),
                // Nobody answers: the conversation will say so.
                Err(_) => return,
            };
            models.retain(|listed| listed.model == model.model);
            if models.is_empty() {
                models.push(ListedModel {
                    model: model.model.clone(),
                    claims: Claims::default(),
                });
            }
            self.fill_in_windows(&mut models).await;
            self.catalog().take_list(&model.provider, models);
        };
        let wait = Duration::from_millis(WINDOW_PROBE_MILLIS);
        // The conversation goes on without it.
        let _ = tokio::time::timeout(wait, ask).await;
    }

    /// Fills in windows that the list left open: llama.cpp says what it was
    /// started with in `/props`, Ollama what a model has in `/api/show`. A
    /// server elsewhere is not asked, and one that knows neither says nothing.
    pub(super) async fn fill_in_windows(&self, models: &mut [ListedModel]) {
        let Some(root) = local_root(self.base_url()) else {
            return;
        };
        let is_open = |model: &&mut ListedModel| model.claims.context_window.is_none();
        if !models.iter_mut().any(|model| is_open(&model)) {
            return;
        }
        let props = self.ask(HttpMethod::Get, format!("{root}/props"), Bytes::new());
        let started_with = props.await.as_ref().and_then(window_in_props);
        for model in models.iter_mut().filter(is_open).take(WINDOW_PROBES) {
            model.claims.context_window = match started_with {
                Some(window) => Some(window),
                None => {
                    let body = Bytes::from(json!({"model": model.model}).to_string());
                    let shown = self.ask(HttpMethod::Post, format!("{root}/api/show"), body);
                    shown.await.as_ref().and_then(window_in_show)
                }
            };
        }
    }

    /// The document at an address; none if there is none in time.
    async fn ask(&self, method: HttpMethod, url: String, body: Bytes) -> Option<Value> {
        let request = HttpRequest {
            method,
            url,
            headers: self.headers(),
            body,
        };
        let read = async {
            let response = self.transport().send(request).await.ok()?;
            let body = match is_success(response.status) {
                true => read_body(response.body, DOCUMENT_BYTES).await.ok()?,
                false => return None,
            };
            serde_json::from_slice(&body).ok()
        };
        let wait = Duration::from_millis(WINDOW_PROBE_MILLIS);
        tokio::time::timeout(wait, read).await.ok().flatten()
    }
}

/// Scheme, host and port of an address on this computer.
fn local_root(base_url: &str) -> Option<&str> {
    let after_scheme = base_url.find("://")? + 3;
    let rest = base_url.get(after_scheme..)?;
    let host_end = rest.find('/').unwrap_or(rest.len());
    let host = rest.get(..host_end)?;
    let local = ["localhost", "127.", "[::1]"];
    let is_local = local.iter().any(|name| host.starts_with(name));
    is_local
        .then(|| base_url.get(..after_scheme + host_end))
        .flatten()
}

fn window_in_props(props: &Value) -> Option<u32> {
    let places = ["/default_generation_settings/n_ctx", "/n_ctx"];
    number(places.iter().find_map(|place| props.pointer(place))?)
}

/// What the model is run with, else what it was made for.
fn window_in_show(shown: &Value) -> Option<u32> {
    let set = shown
        .get("parameters")
        .and_then(Value::as_str)
        .and_then(|parameters| {
            let line = parameters
                .lines()
                .find_map(|line| line.strip_prefix("num_ctx"))?;
            line.trim().parse().ok()
        });
    set.or_else(|| {
        let facts = shown.get("model_info")?.as_object()?;
        let (_, window) = facts
            .iter()
            .find(|(name, _)| name.ends_with(".context_length"))?;
        number(window)
    })
}

fn number(value: &Value) -> Option<u32> {
    u32::try_from(value.as_u64()?)
        .ok()
        .filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_computer_is_asked() {
        for (base, root) in [
            ("http://127.0.0.1:8080/v1", Some("http://127.0.0.1:8080")),
            ("http://localhost:11434", Some("http://localhost:11434")),
            ("http://[::1]:80/v1/", Some("http://[::1]:80")),
            ("https://api.example.com/v1", None),
            ("nonsense", None),
        ] {
            assert_eq!(local_root(base), root, "{base}");
        }
    }

    #[test]
    fn windows_are_read_where_servers_put_them() {
        let props = json!({"default_generation_settings": {"n_ctx": 2048}});
        assert_eq!(window_in_props(&props), Some(2_048));
        let made_for = json!({"model_info": {"llama.context_length": 8192}});
        assert_eq!(window_in_show(&made_for), Some(8_192));
        let set = json!({"parameters": "stop x\nnum_ctx    4096", "model_info": {"llama.context_length": 8192}});
        assert_eq!(window_in_show(&set), Some(4_096));
        assert_eq!(window_in_show(&json!({})), None);
    }
}
