//! The built-in table: a few common models, so that a fresh installation has
//! sensible numbers. Services change them; configuration and the provider's
//! own list win.

use super::{Claims, Prices};
use halter_protocol::ReasoningEffort;
use serde::Deserialize;
use std::sync::LazyLock;

/// The day the table was last true to its author's knowledge.
pub const TABLE_DATE: &str = "2026-11-15";

/// Unreadable it would be empty, which a test rules out.
static TABLE: LazyLock<Vec<Row>> =
    LazyLock::new(|| serde_json::from_str(include_str!("models.json")).unwrap_or_default());

#[derive(Deserialize)]
struct Row {
    /// The model's name; dated versions of it match as well.
    name: String,
    context_window: u32,
    output_limit: u32,
    /// In thousandths of a dollar per million tokens: input, cache read, cache
    /// write, output. Services without a charge for writing have the price of
    /// input there. Absent where a price depends on the length or the kind of
    /// the prompt: none is truer than a wrong one.
    prices: Option<[u64; 4]>,
    temperature: Option<bool>,
    reasoning: Option<Vec<ReasoningEffort>>,
}

/// What the table says of a model.
pub(super) fn claims(model: &str) -> Option<Claims> {
    let name = plain_name(model);
    let row = TABLE.iter().find(|row| is_version_of(&name, &row.name))?;
    let prices = |[input, cache_read, cache_write, output]: [u64; 4]| Prices {
        input,
        cache_read,
        cache_write,
        output,
    };
    Some(Claims {
        context_window: Some(row.context_window),
        output_limit: Some(row.output_limit),
        prices: row.prices.map(prices),
        temperature: row.temperature,
        reasoning: row.reasoning.clone(),
        images: None,
    })
}

/// The name without the vendor before it and the variant after it, as
/// gateways write them; Claude's with hyphens, as its maker writes it.
fn plain_name(model: &str) -> String {
    let name = model.rsplit('/').next().unwrap_or(model);
    let name = name.split(':').next().unwrap_or(name);
    match name.starts_with("claude-") {
        true => name.replace('.', "-"),
        false => name.to_owned(),
    }
}

/// True for the name itself and for the name with a date.
fn is_version_of(name: &str, row: &str) -> bool {
    let Some(rest) = name.strip_prefix(row) else {
        return false;
    };
    let date: String = rest.chars().filter(|c| *c != '-').collect();
    rest.is_empty()
        || (rest.starts_with('-') && date.len() == 8 && date.chars().all(|c| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_with_vendor_variant_and_date() {
        let window = |name| claims(name).and_then(|claims| claims.context_window);
        for name in [
            "claude-sonnet-4-5",
            "claude-sonnet-4-5-20250929",
            "anthropic/claude-sonnet-4.5",
            "anthropic/claude-sonnet-4.5:beta",
        ] {
            assert_eq!(window(name), Some(200_000), "{name}");
        }
        assert_eq!(window("gpt-5-2025-08-07"), Some(400_000));
        assert_eq!(window("gpt-5.1-2025-11-13"), Some(400_000));
        assert_eq!(window("gpt-5.3"), None);
        assert_eq!(window("gpt-5-pro"), None);
        assert_eq!(window("claude-sonnet-4-6"), Some(1_000_000));
        assert_eq!(window("claude-sonnet-4"), None);
    }

    #[test]
    fn the_table_is_read_and_each_model_stands_once() {
        assert!(!TABLE.is_empty());
        let names: std::collections::HashSet<&str> =
            TABLE.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names.len(), TABLE.len());
    }
}
