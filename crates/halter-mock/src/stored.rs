//! Responses that the service keeps, for requests that go on from one.

use crate::codec::Problem;
use crate::fields;
use crate::limits::MAX_STORED_RESPONSES;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The newest responses. The oldest goes first.
#[derive(Debug, Default)]
pub(crate) struct StoredResponses {
    kept: Mutex<VecDeque<StoredResponse>>,
}

#[derive(Debug)]
struct StoredResponse {
    /// The items of its request, without those of earlier responses.
    input: Vec<Value>,
    /// The response as it was answered.
    response: Value,
}

impl StoredResponse {
    fn id(&self) -> &str {
        fields::text(&self.response, "id").unwrap_or_default()
    }

    fn items(&self) -> impl Iterator<Item = &Value> {
        let output = fields::items(&self.response, "output");
        self.input.iter().chain(output)
    }
}

impl StoredResponses {
    fn lock(&self) -> MutexGuard<'_, VecDeque<StoredResponse>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a response. One that is answered again is kept once.
    pub(crate) fn keep(&self, request: &Value, response: Value) {
        let stored = StoredResponse {
            input: input_items(request),
            response,
        };
        let mut kept = self.lock();
        kept.retain(|one| one.id() != stored.id());
        kept.push_back(stored);
        if kept.len() > MAX_STORED_RESPONSES {
            kept.pop_front();
        }
    }

    /// A response by its id.
    pub(crate) fn get(&self, id: &str) -> Result<Value, Problem> {
        let kept = self.lock();
        let found = kept.iter().find(|stored| stored.id() == id);
        found
            .map(|stored| stored.response.clone())
            .ok_or_else(|| Problem::new(404, format!("Response with id '{id}' not found.")))
    }

    /// The request with all that it refers to: the items of the responses
    /// before, and stored items instead of references.
    pub(crate) fn resolve(&self, request: &Value) -> Result<Value, Problem> {
        let input = input_items(request);
        let mut previous = fields::text(request, "previous_response_id");
        let has_references = input
            .iter()
            .any(|item| fields::kind(item) == "item_reference");
        if previous.is_none() && !has_references {
            return Ok(request.clone());
        }
        let kept = self.lock();
        let mut chain = Vec::new();
        while let Some(id) = previous {
            let stored = kept.iter().find(|stored| stored.id() == id);
            let stored = stored.ok_or_else(|| {
                Problem::invalid(format!("Previous response with id '{id}' not found."))
                    .at("previous_response_id")
                    .with_code("previous_response_not_found")
            })?;
            chain.push(stored);
            previous = fields::text(&stored.response, "previous_response_id");
        }
        let mut items: Vec<Value> = Vec::new();
        for stored in chain.iter().rev() {
            items.extend(stored.items().cloned());
        }
        for item in input {
            if fields::kind(&item) != "item_reference" {
                items.push(item);
                continue;
            }
            let id = fields::text(&item, "id").unwrap_or_default();
            let mut all = kept.iter().flat_map(StoredResponse::items);
            let found = all.find(|stored| fields::text(stored, "id") == Some(id));
            items.push(found.cloned().ok_or_else(|| {
                Problem::new(404, format!("Item with id '{id}' not found.")).at("input")
            })?);
        }
        drop(kept);
        let mut resolved = request.clone();
        fields::set(&mut resolved, "input", Value::Array(items));
        Ok(resolved)
    }
}

/// The input as items; a text is a message of the user.
fn input_items(request: &Value) -> Vec<Value> {
    match fields::text(request, "input") {
        Some(text) => vec![json!({"role": "user", "content": text})],
        None => fields::items(request, "input").to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_response_goes_first() {
        let stored = StoredResponses::default();
        for number in 0..=MAX_STORED_RESPONSES {
            stored.keep(&json!({}), json!({"id": number.to_string()}));
        }
        assert_eq!(stored.get("0").unwrap_err().status, 404);
        assert!(stored.get("1").is_ok());
    }
}
