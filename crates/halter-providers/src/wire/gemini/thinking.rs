//! How a level of `reasoning` is said to each generation of models. The table
//! stands in the documentation of the wire.

use halter_protocol::ReasoningEffort;
use serde::Serialize;

/// Whether and how a model is told how hard to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Generation {
    /// Before 2.5: it does not think.
    Unthinking,
    /// 2.5: a budget in tokens. The large ones cannot be told not to think.
    Budget { can_be_off: bool },
    /// 3 and later: a level.
    Level(Levels),
}

/// Which levels a model of the third generation takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Levels {
    All,
    /// The first large one: no level between low and high.
    LowAndHigh,
    /// Large and newer ones: no minimal level.
    FromLow,
}

/// What a model takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Thinking {
    generation: Generation,
}

/// The `thinkingConfig` of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThinkingConfig {
    include_thoughts: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<u32>,
}

impl ThinkingConfig {
    const SHOWN: Self = Self {
        include_thoughts: true,
        thinking_level: None,
        thinking_budget: None,
    };
}

/// The model does not take the level.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LevelRefused;

impl Thinking {
    /// What a model takes, by its name.
    pub fn of(model: &str) -> Self {
        let model = model.to_ascii_lowercase();
        let name = model.rsplit('/').next().unwrap_or(&model);
        let is_pro = name.contains("-pro");
        let generation = match name.strip_prefix("gemini-") {
            Some(rest) if rest.starts_with("1.") || rest.starts_with("2.0") => {
                Generation::Unthinking
            }
            Some(rest) if rest.starts_with("2.5") => Generation::Budget {
                can_be_off: !is_pro,
            },
            Some(rest) if rest.starts_with("3-pro") => Generation::Level(Levels::LowAndHigh),
            Some(rest) if is_pro || rest.starts_with("3.8-flash") => {
                Generation::Level(Levels::FromLow)
            }
            None if name.starts_with("gemma") || name.starts_with("learnlm") => {
                Generation::Unthinking
            }
            _ => Generation::Level(Levels::All),
        };
        Self { generation }
    }

    /// True from the third generation on.
    pub fn is_third_generation(self) -> bool {
        matches!(self.generation, Generation::Level(_))
    }

    /// True if a call without a signature must say that it was not made by
    /// the model.
    pub fn checks_signatures(self) -> bool {
        self.is_third_generation()
    }

    /// The configuration without a level: thoughts are shown where there are
    /// any.
    pub fn default_config(self) -> Option<ThinkingConfig> {
        (self.generation != Generation::Unthinking).then_some(ThinkingConfig::SHOWN)
    }

    /// The configuration for a level.
    pub fn config(self, level: ReasoningEffort) -> Result<Option<ThinkingConfig>, LevelRefused> {
        match self.generation {
            Generation::Unthinking if level == ReasoningEffort::None => Ok(None),
            Generation::Unthinking => Err(LevelRefused),
            Generation::Budget { can_be_off } => budget(level, can_be_off).map(Some),
            Generation::Level(levels) => named_level(level, levels).map(Some),
        }
    }
}

fn budget(level: ReasoningEffort, can_be_off: bool) -> Result<ThinkingConfig, LevelRefused> {
    let tokens = match level {
        ReasoningEffort::None if can_be_off => 0,
        ReasoningEffort::None => return Err(LevelRefused),
        ReasoningEffort::Minimal => 1_024,
        ReasoningEffort::Low => 4_096,
        ReasoningEffort::Medium => 8_192,
        ReasoningEffort::High => 16_384,
        ReasoningEffort::XHigh | ReasoningEffort::Max => 24_576,
        _ => return Err(LevelRefused),
    };
    Ok(ThinkingConfig {
        include_thoughts: tokens > 0,
        thinking_level: None,
        thinking_budget: Some(tokens),
    })
}

fn named_level(level: ReasoningEffort, levels: Levels) -> Result<ThinkingConfig, LevelRefused> {
    let name = match (level, levels) {
        (ReasoningEffort::Minimal, Levels::All) => "MINIMAL",
        (ReasoningEffort::Low, _) => "LOW",
        (ReasoningEffort::Medium, Levels::All | Levels::FromLow) => "MEDIUM",
        (ReasoningEffort::High | ReasoningEffort::XHigh | ReasoningEffort::Max, _) => "HIGH",
        _ => return Err(LevelRefused),
    };
    Ok(ThinkingConfig {
        thinking_level: Some(name),
        ..ThinkingConfig::SHOWN
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ReasoningEffort::{High, Low, Max, Medium, Minimal, None as Off, XHigh};

    fn said(model: &str, level: ReasoningEffort) -> String {
        match Thinking::of(model).config(level) {
            Ok(Some(config)) => match (config.thinking_level, config.thinking_budget) {
                (Some(level), _) => level.to_owned(),
                (_, Some(budget)) => budget.to_string(),
                _ => "shown".to_owned(),
            },
            Ok(None) => "nothing".to_owned(),
            Err(LevelRefused) => "refused".to_owned(),
        }
    }

    #[test]
    fn each_generation_is_told_in_its_own_way() {
        let levels = [Off, Minimal, Low, Medium, High, XHigh, Max];
        for (model, expected) in [
            (
                "gemini-3-flash-preview",
                [
                    "refused", "MINIMAL", "LOW", "MEDIUM", "HIGH", "HIGH", "HIGH",
                ],
            ),
            (
                "models/gemini-3-pro-preview",
                [
                    "refused", "refused", "LOW", "refused", "HIGH", "HIGH", "HIGH",
                ],
            ),
            (
                "gemini-3.1-pro-preview",
                [
                    "refused", "refused", "LOW", "MEDIUM", "HIGH", "HIGH", "HIGH",
                ],
            ),
            (
                "gemini-3.8-flash",
                [
                    "refused", "refused", "LOW", "MEDIUM", "HIGH", "HIGH", "HIGH",
                ],
            ),
            (
                "gemini-2.5-flash",
                ["0", "1024", "4096", "8192", "16384", "24576", "24576"],
            ),
            (
                "gemini-2.5-pro",
                ["refused", "1024", "4096", "8192", "16384", "24576", "24576"],
            ),
            (
                "gemini-2.0-flash",
                [
                    "nothing", "refused", "refused", "refused", "refused", "refused", "refused",
                ],
            ),
        ] {
            let told: Vec<String> = levels.map(|level| said(model, level)).to_vec();
            assert_eq!(told, expected, "{model}");
        }
    }

    #[test]
    fn thoughts_are_shown_where_there_are_any() {
        assert!(Thinking::of("gemini-3-flash").default_config().is_some());
        assert!(Thinking::of("gemini-2.5-pro").default_config().is_some());
        assert!(Thinking::of("gemma-3-27b-it").default_config().is_none());
    }
}
