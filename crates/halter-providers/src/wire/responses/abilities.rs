//! Which reasoning levels a model takes, and whether it takes a temperature.
//! The table stands in the documentation of the wire.

use halter_protocol::ReasoningEffort::{self, High, Low, Max, Medium, Minimal, None as Off, XHigh};

/// Every level of the wire.
const ALL: &[ReasoningEffort] = &[Off, Minimal, Low, Medium, High, XHigh, Max];

/// What a model takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Abilities {
    levels: &'static [ReasoningEffort],
    temperature: Temperature,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Temperature {
    Taken,
    /// Only while the model does not reason.
    TakenWithoutReasoning,
}

impl Abilities {
    /// The row of a model.
    pub fn of(model: &str) -> Self {
        let model = model.to_ascii_lowercase();
        let name = model.rsplit('/').next().unwrap_or(&model);
        match levels_of_known(name) {
            Some([]) => Self {
                levels: &[],
                temperature: Temperature::Taken,
            },
            Some(levels) => Self {
                levels,
                temperature: Temperature::TakenWithoutReasoning,
            },
            None => Self {
                levels: ALL,
                temperature: Temperature::Taken,
            },
        }
    }

    /// False for a model known not to reason.
    pub fn reasons(self) -> bool {
        !self.levels.is_empty()
    }

    /// True if the model takes the level.
    pub fn takes_level(self, level: ReasoningEffort) -> bool {
        self.levels.contains(&level)
    }

    /// The levels the model takes, for a person to read.
    pub fn levels_in_words(self) -> String {
        if self.levels.is_empty() {
            return "no reasoning level".to_owned();
        }
        let names: Vec<&str> = self.levels.iter().map(|level| level.as_str()).collect();
        names.join(", ")
    }

    /// True if the model takes a temperature at a level.
    pub fn takes_temperature(self, level: Option<ReasoningEffort>) -> bool {
        match self.temperature {
            Temperature::Taken => true,
            Temperature::TakenWithoutReasoning => level == Some(Off) && self.takes_level(Off),
        }
    }
}

/// The levels of a model of the table; none for a model it does not list.
fn levels_of_known(name: &str) -> Option<&'static [ReasoningEffort]> {
    let is_chat = name.contains("-chat");
    if ["gpt-3.5", "gpt-4", "chatgpt-4o"]
        .iter()
        .any(|family| name.starts_with(family))
    {
        return Some(&[]);
    }
    if ["o1", "o3", "o4"]
        .iter()
        .any(|family| is_family(name, family))
    {
        return Some(&[Low, Medium, High]);
    }
    let rest = name.strip_prefix("gpt-5")?;
    if is_chat {
        return Some(&[]);
    }
    match rest.strip_prefix('.').map(leading_number) {
        None if rest.starts_with("-pro") => Some(&[High]),
        None if rest.starts_with("-codex") => Some(&[Low, Medium, High]),
        None if rest.is_empty() || rest.starts_with('-') => Some(&[Minimal, Low, Medium, High]),
        Some(Some(1)) if rest.contains("-codex-max") => Some(&[Off, Low, Medium, High, XHigh]),
        Some(Some(1)) => Some(&[Off, Low, Medium, High]),
        Some(Some(2..=5)) => Some(&[Off, Low, Medium, High, XHigh]),
        _ => None,
    }
}

/// True for the family itself and its variants: `o3`, `o3-mini`, not `o30`.
fn is_family(name: &str, family: &str) -> bool {
    name.strip_prefix(family)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

fn leading_number(text: &str) -> Option<u32> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.get(..end)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(model: &str) -> String {
        Abilities::of(model).levels_in_words()
    }

    #[test]
    fn each_family_has_its_levels() {
        for (model, levels) in [
            ("gpt-4o-mini", "no reasoning level"),
            ("gpt-4.1", "no reasoning level"),
            ("gpt-5-chat-latest", "no reasoning level"),
            ("o3", "low, medium, high"),
            ("o4-mini-2025-04-16", "low, medium, high"),
            ("gpt-5", "minimal, low, medium, high"),
            ("openai/GPT-5-mini", "minimal, low, medium, high"),
            ("gpt-5-2025-08-07", "minimal, low, medium, high"),
            ("gpt-5-codex", "low, medium, high"),
            ("gpt-5-pro", "high"),
            ("gpt-5.1", "none, low, medium, high"),
            ("gpt-5.1-codex-max", "none, low, medium, high, xhigh"),
            ("gpt-5.2-codex", "none, low, medium, high, xhigh"),
            ("gpt-5.6", "none, minimal, low, medium, high, xhigh, max"),
            ("gpt-5.10", "none, minimal, low, medium, high, xhigh, max"),
            ("gpt-6", "none, minimal, low, medium, high, xhigh, max"),
            ("o30", "none, minimal, low, medium, high, xhigh, max"),
            ("my-model", "none, minimal, low, medium, high, xhigh, max"),
        ] {
            assert_eq!(words(model), levels, "{model}");
        }
    }

    #[test]
    fn a_reasoning_model_takes_a_temperature_only_while_it_does_not_reason() {
        assert!(Abilities::of("gpt-4o").takes_temperature(None));
        assert!(Abilities::of("my-model").takes_temperature(Some(High)));
        assert!(!Abilities::of("gpt-5").takes_temperature(None));
        assert!(!Abilities::of("gpt-5").takes_temperature(Some(Off)));
        assert!(!Abilities::of("gpt-5.2").takes_temperature(Some(Low)));
        assert!(Abilities::of("gpt-5.2").takes_temperature(Some(Off)));
    }
}
