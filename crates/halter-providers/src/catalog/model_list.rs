//! Lists of models as services answer them.

use super::{Claims, Prices};
use serde_json::Value;

/// What a service says of one of its models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedModel {
    /// The service's name of the model.
    pub model: String,
    /// What it says of it.
    pub claims: Claims,
}

/// Where services put the context window.
const WINDOW: [&str; 9] = [
    "/context_length",
    "/max_model_len",
    "/context_window",
    "/loaded_context_length",
    "/max_context_length",
    "/max_input_tokens",
    "/inputTokenLimit",
    "/meta/n_ctx",
    "/meta/n_ctx_train",
];

/// Where services put the largest output.
const OUTPUT: [&str; 4] = [
    "/top_provider/max_completion_tokens",
    "/max_output_tokens",
    "/outputTokenLimit",
    "/max_tokens",
];

/// Reads a list of models: `data` of OpenAI and those like it, of OpenRouter,
/// Anthropic, vLLM, llama.cpp and LM Studio, or `models` of Gemini. What is
/// not understood is left open.
///
/// ```
/// use halter_providers::catalog::read_models;
///
/// let models = read_models(br#"{"data":[{"id":"m","max_model_len":32768}]}"#);
/// assert_eq!(models[0].claims.context_window, Some(32_768));
/// ```
pub fn read_models(body: &[u8]) -> Vec<ListedModel> {
    let Ok(list) = serde_json::from_slice::<Value>(body) else {
        return Vec::new();
    };
    let models = ["/data", "/models"]
        .iter()
        .find_map(|place| list.pointer(place)?.as_array());
    models.into_iter().flatten().filter_map(answer).collect()
}

fn answer(model: &Value) -> Option<ListedModel> {
    let name = ["id", "name", "model"]
        .iter()
        .find_map(|member| model.get(*member)?.as_str())?;
    Some(ListedModel {
        model: name.strip_prefix("models/").unwrap_or(name).to_owned(),
        claims: Claims {
            context_window: number(model, &WINDOW),
            output_limit: number(model, &OUTPUT),
            prices: model.get("pricing").and_then(prices),
            temperature: takes(model, "temperature"),
            reasoning: None,
            images: takes_images(model),
        },
    })
}

fn number(model: &Value, places: &[&str]) -> Option<u32> {
    places
        .iter()
        .filter_map(|place| model.pointer(place)?.as_u64())
        .find_map(|number| u32::try_from(number).ok().filter(|number| *number > 0))
}

/// OpenRouter lists the parameters that a model takes.
fn takes(model: &Value, parameter: &str) -> Option<bool> {
    let parameters = model.get("supported_parameters")?.as_array()?;
    Some(parameters.iter().any(|known| known == parameter))
}

/// OpenRouter lists what goes in; Anthropic and Mistral list abilities.
fn takes_images(model: &Value) -> Option<bool> {
    let listed = model
        .pointer("/architecture/input_modalities")
        .and_then(Value::as_array);
    if let Some(kinds) = listed {
        return Some(kinds.iter().any(|kind| kind == "image"));
    }
    [
        "/capabilities/image_input/supported",
        "/capabilities/vision",
    ]
    .iter()
    .find_map(|place| model.pointer(place)?.as_bool())
}

/// OpenRouter writes dollars per token as text.
fn prices(pricing: &Value) -> Option<Prices> {
    let price = |member: &str| -> Option<u64> {
        let dollars: f64 = match pricing.get(member)? {
            Value::String(text) => text.parse().ok()?,
            number => number.as_f64()?,
        };
        let billionths = (dollars * 1e9).round();
        // A negative price means that it depends on the route.
        (billionths.is_finite() && (0.0..1e12).contains(&billionths)).then_some(billionths as u64)
    };
    let input = price("prompt")?;
    Some(Prices {
        input,
        cache_read: price("input_cache_read").unwrap_or(input),
        cache_write: price("input_cache_write").unwrap_or(input),
        output: price("completion")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(body: &str) -> ListedModel {
        let mut models = read_models(body.as_bytes());
        assert_eq!(models.len(), 1, "{body}");
        models.remove(0)
    }

    #[test]
    fn openrouter_says_everything() {
        let answer = only(
            r#"{"data":[{"id":"anthropic/claude-x","context_length":200000,
                "top_provider":{"max_completion_tokens":64000,"is_moderated":true},
                "supported_parameters":["tools","reasoning"],
                "architecture":{"input_modalities":["text","image"]},
                "pricing":{"prompt":"0.000003","completion":"0.000015",
                           "input_cache_read":"0.0000003","input_cache_write":"0.00000375"}}]}"#,
        );
        assert_eq!(
            answer.claims,
            Claims {
                context_window: Some(200_000),
                output_limit: Some(64_000),
                prices: Some(Prices {
                    input: 3_000,
                    cache_read: 300,
                    cache_write: 3_750,
                    output: 15_000
                }),
                temperature: Some(false),
                reasoning: None,
                images: Some(true),
            }
        );
    }

    #[test]
    fn local_servers_and_others_say_their_limits() {
        for (body, window, output) in [
            (r#"{"data":[{"id":"m","object":"model"}]}"#, None, None),
            (
                r#"{"data":[{"id":"m","meta":{"n_ctx_train":8192}}]}"#,
                Some(8_192),
                None,
            ),
            (
                r#"{"models":[{"name":"models/m","inputTokenLimit":1048576,"outputTokenLimit":65536}]}"#,
                Some(1_048_576),
                Some(65_536),
            ),
            (
                r#"{"data":[{"id":"m","max_input_tokens":200000,"max_tokens":64000}]}"#,
                Some(200_000),
                Some(64_000),
            ),
        ] {
            let answer = only(body);
            assert_eq!(answer.model, "m");
            assert_eq!(answer.claims.context_window, window);
            assert_eq!(answer.claims.output_limit, output);
        }
    }

    #[test]
    fn prices_that_depend_on_the_route_are_left_open() {
        let answer =
            only(r#"{"data":[{"id":"auto","pricing":{"prompt":"-1","completion":"-1"}}]}"#);
        assert_eq!(answer.claims.prices, None);
        assert!(read_models(b"<html>").is_empty());
    }
}
