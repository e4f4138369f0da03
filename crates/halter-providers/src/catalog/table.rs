//! The built-in table: a few common models, so that a fresh installation has
//! sensible numbers. Services change them; configuration and the provider's
//! own list win.

use super::{Claims, Prices};
use halter_protocol::ReasoningEffort::{self, High, Low, Max, Medium, Minimal, XHigh};

/// The day the table was last true to its author's knowledge.
pub const TABLE_DATE: &str = "2026-11-15";

struct Row {
    /// The model's name; dated versions of it match as well.
    name: &'static str,
    context_window: u32,
    output_limit: u32,
    prices: Option<Prices>,
    temperature: Option<bool>,
    reasoning: Option<&'static [ReasoningEffort]>,
}

/// Prices in thousandths of a dollar per million tokens: input, cache read,
/// cache write, output. Services without a charge for writing have the price
/// of input there.
const fn prices(input: u64, cache_read: u64, cache_write: u64, output: u64) -> Option<Prices> {
    Some(Prices {
        input,
        cache_read,
        cache_write,
        output,
    })
}

const fn row(name: &'static str, context_window: u32, output_limit: u32) -> Row {
    Row {
        name,
        context_window,
        output_limit,
        prices: None,
        temperature: None,
        reasoning: None,
    }
}

const GPT_5: Row = Row {
    temperature: Some(false),
    reasoning: Some(&[Minimal, Low, Medium, High]),
    ..row("gpt-5", 400_000, 128_000)
};

/// Prices of these depend on the length of the prompt: none is truer than a
/// wrong one.
const GPT_5_4: Row = Row {
    reasoning: Some(&[ReasoningEffort::None, Low, Medium, High, XHigh]),
    context_window: 1_050_000,
    name: "gpt-5.4",
    ..GPT_5
};

/// Claude with the window and the output of the newer ones.
const fn claude(name: &'static str, prices: Option<Prices>) -> Row {
    Row {
        prices,
        ..row(name, 1_000_000, 128_000)
    }
}

const GPT_5_6: Row = Row {
    reasoning: Some(&[ReasoningEffort::None, Low, Medium, High, XHigh, Max]),
    name: "gpt-5.6",
    ..GPT_5_4
};

const OPUS: Option<Prices> = prices(5_000, 500, 6_250, 25_000);
const SONNET: Option<Prices> = prices(3_000, 300, 3_750, 15_000);
const SONNET_5: Option<Prices> = prices(2_000, 200, 2_500, 10_000);
const FABLE: Option<Prices> = prices(10_000, 1_000, 12_500, 50_000);

const TABLE: [Row; 31] = [
    claude("claude-fable-5-1", FABLE),
    claude("claude-fable-5", FABLE),
    claude("claude-opus-5-5", prices(4_000, 400, 5_000, 20_000)),
    claude("claude-opus-5", OPUS),
    claude("claude-opus-4-8", OPUS),
    claude("claude-opus-4-6", OPUS),
    Row {
        prices: OPUS,
        ..row("claude-opus-4-5", 200_000, 64_000)
    },
    claude("claude-sonnet-5-5", SONNET_5),
    claude("claude-sonnet-5", SONNET_5),
    claude("claude-sonnet-4-6", SONNET),
    Row {
        prices: SONNET,
        ..row("claude-sonnet-4-5", 200_000, 64_000)
    },
    // Its price has steps.
    claude("claude-haiku-5-5", None),
    Row {
        prices: prices(1_000, 100, 1_250, 5_000),
        ..row("claude-haiku-4-5", 200_000, 64_000)
    },
    GPT_5_6,
    Row {
        name: "gpt-5.6-sol",
        ..GPT_5_6
    },
    Row {
        name: "gpt-5.6-terra",
        ..GPT_5_6
    },
    GPT_5_4,
    Row {
        name: "gpt-5.2",
        prices: prices(1_750, 175, 1_750, 14_000),
        reasoning: GPT_5_4.reasoning,
        ..GPT_5
    },
    Row {
        name: "gpt-5.1",
        prices: prices(1_250, 125, 1_250, 10_000),
        reasoning: Some(&[ReasoningEffort::None, Low, Medium, High]),
        ..GPT_5
    },
    Row {
        prices: prices(1_250, 125, 1_250, 10_000),
        ..GPT_5
    },
    Row {
        name: "gpt-5-mini",
        prices: prices(250, 25, 250, 2_000),
        ..GPT_5
    },
    Row {
        name: "gpt-5-nano",
        prices: prices(50, 5, 50, 400),
        ..GPT_5
    },
    Row {
        prices: prices(2_000, 500, 2_000, 8_000),
        ..row("gpt-4.1", 1_047_576, 32_768)
    },
    Row {
        prices: prices(2_500, 1_250, 2_500, 10_000),
        ..row("gpt-4o", 128_000, 16_384)
    },
    Row {
        prices: prices(150, 75, 150, 600),
        ..row("gpt-4o-mini", 128_000, 16_384)
    },
    // Prices of these depend on the length of the prompt, or on its kind.
    Row {
        reasoning: Some(&[Low, Medium, High]),
        ..row("gemini-3.8-flash", 1_048_576, 65_536)
    },
    row("gemini-3.1-pro-preview", 1_048_576, 65_536),
    row("gemini-3-flash-preview", 1_048_576, 65_536),
    row("gemini-2.5-pro", 1_048_576, 65_536),
    Row {
        prices: prices(300, 30, 300, 2_500),
        ..row("gemini-2.5-flash", 1_048_576, 65_536)
    },
    row("gemini-2.5-flash-lite", 1_048_576, 65_536),
];

/// What the table says of a model.
pub(super) fn claims(model: &str) -> Option<Claims> {
    let name = plain_name(model);
    let row = TABLE.iter().find(|row| is_version_of(&name, row.name))?;
    Some(Claims {
        context_window: Some(row.context_window),
        output_limit: Some(row.output_limit),
        prices: row.prices,
        temperature: row.temperature,
        reasoning: row.reasoning.map(<[_]>::to_vec),
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
    fn each_model_stands_once() {
        for (index, row) in TABLE.iter().enumerate() {
            assert!(
                TABLE
                    .iter()
                    .skip(index + 1)
                    .all(|other| other.name != row.name)
            );
        }
    }
}
