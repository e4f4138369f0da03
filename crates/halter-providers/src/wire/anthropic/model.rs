//! What the models of this wire take: their reasoning and output limits.
//!
//! Read from the model's name. A Claude model newer than this table is treated
//! like the newest of it; a model that is not Claude gets the older, widely
//! copied form.

use super::limits::MIN_THINKING_BUDGET_TOKENS;
use halter_protocol::{ReasoningEffort, ResolvedModel};

/// What a model takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ModelTraits {
    pub thinking: Thinking,
    /// True for the vendor's own models, which sign their reasoning.
    pub signs_thinking: bool,
    /// True if answers can be kept to a schema.
    pub takes_output_schema: bool,
    /// True if its service compacts conversations with it.
    pub compacts: bool,
    /// True if it shows its thinking only when told to.
    hides_thinking: bool,
    default_max_tokens: u32,
}

/// How a model is told to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thinking {
    /// It decides by itself, guided by an effort.
    Adaptive { off: Off, efforts: Efforts },
    /// It is given a budget of tokens.
    Budget,
    /// It does not think.
    Never,
}

/// How an adaptive model is told not to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Off {
    ByDefault,
    OnRequest,
    Impossible,
}

/// Which efforts an adaptive model knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Efforts {
    All,
    AllButXHigh,
}

/// The members of a request that ask for reasoning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ReasoningMembers {
    /// The `thinking` member, if there is anything to say.
    pub thinking: Option<String>,
    /// The effort of `output_config`.
    pub effort: Option<&'static str>,
    /// What could not be asked for, and why.
    pub warning: Option<String>,
}

impl ModelTraits {
    pub fn of(model: &str) -> Self {
        let Some(name) = ClaudeName::parse(model) else {
            return Self {
                thinking: Thinking::Budget,
                signs_thinking: false,
                takes_output_schema: false,
                compacts: false,
                hides_thinking: false,
                default_max_tokens: 8_192,
            };
        };
        Self {
            thinking: name.thinking(),
            signs_thinking: true,
            takes_output_schema: name.takes_output_schema(),
            compacts: name.compacts(),
            hides_thinking: name.hides_thinking(),
            default_max_tokens: name.default_max_tokens(),
        }
    }

    /// The output to allow: what is configured, else the model's default.
    pub fn max_tokens(&self, model: &ResolvedModel) -> u32 {
        model
            .max_output_tokens
            .unwrap_or(self.default_max_tokens)
            .max(1)
    }

    /// What to send for a configured level.
    pub fn reasoning(&self, model: &ResolvedModel) -> ReasoningMembers {
        let Some(level) = model.reasoning else {
            return self.default_reasoning();
        };
        match (self.thinking, level) {
            (Thinking::Adaptive { off, .. }, ReasoningEffort::None) => no_thinking(off, model),
            (_, ReasoningEffort::None) => ReasoningMembers::default(),
            (Thinking::Adaptive { efforts, .. }, level) => self.adaptive(efforts, level, model),
            (Thinking::Budget, level) => budget(level, self.max_tokens(model), model),
            (Thinking::Never, level) => dropped(level, model, "the model does not reason"),
        }
    }

    /// Without a level: a model that thinks unless told otherwise is asked to
    /// show it, where it would not.
    fn default_reasoning(&self) -> ReasoningMembers {
        let thinks = match self.thinking {
            Thinking::Adaptive { off, .. } => off != Off::ByDefault,
            Thinking::Budget | Thinking::Never => false,
        };
        match thinks && self.hides_thinking {
            true => sent(self.adaptive_thinking()),
            false => ReasoningMembers::default(),
        }
    }

    fn adaptive_thinking(&self) -> String {
        let json = match self.hides_thinking {
            true => r#"{"type":"adaptive","display":"summarized"}"#,
            false => r#"{"type":"adaptive"}"#,
        };
        json.to_owned()
    }

    fn adaptive(
        &self,
        efforts: Efforts,
        level: ReasoningEffort,
        model: &ResolvedModel,
    ) -> ReasoningMembers {
        let thinking = Some(self.adaptive_thinking());
        if efforts == Efforts::AllButXHigh && level == ReasoningEffort::XHigh {
            return ReasoningMembers {
                thinking,
                ..dropped(
                    level,
                    model,
                    "the model knows `high` and `max`, nothing between",
                )
            };
        }
        ReasoningMembers {
            thinking,
            effort: Some(match level {
                ReasoningEffort::Minimal => ReasoningEffort::Low.as_str(),
                other => other.as_str(),
            }),
            warning: None,
        }
    }
}

fn no_thinking(off: Off, model: &ResolvedModel) -> ReasoningMembers {
    match off {
        Off::ByDefault => ReasoningMembers::default(),
        Off::OnRequest => sent(r#"{"type":"disabled"}"#.to_owned()),
        Off::Impossible => dropped(
            ReasoningEffort::None,
            model,
            "the model always reasons; `minimal` asks for the least",
        ),
    }
}

fn budget(level: ReasoningEffort, max_tokens: u32, model: &ResolvedModel) -> ReasoningMembers {
    let most = max_tokens - max_tokens.div_ceil(4);
    if most < MIN_THINKING_BUDGET_TOKENS {
        return dropped(
            level,
            model,
            "its output limit leaves no room for it; raise `max_output_tokens`",
        );
    }
    let tokens = match level {
        ReasoningEffort::Minimal => MIN_THINKING_BUDGET_TOKENS,
        ReasoningEffort::Low => 4_096,
        ReasoningEffort::Medium => 10_240,
        ReasoningEffort::High => 20_480,
        ReasoningEffort::XHigh => 32_768,
        _ => most,
    };
    let tokens = tokens.min(most);
    sent(format!(r#"{{"type":"enabled","budget_tokens":{tokens}}}"#))
}

fn sent(thinking: String) -> ReasoningMembers {
    ReasoningMembers {
        thinking: Some(thinking),
        ..ReasoningMembers::default()
    }
}

fn dropped(level: ReasoningEffort, model: &ResolvedModel, why: &str) -> ReasoningMembers {
    ReasoningMembers {
        warning: Some(format!(
            "reasoning `{}` was not sent to '{}': {why}",
            level.as_str(),
            model.model
        )),
        ..ReasoningMembers::default()
    }
}

/// A Claude model's name, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ClaudeName<'a> {
    line: &'a str,
    /// Major and minor version; a name without one is the newest.
    version: Option<(u32, u32)>,
}

impl<'a> ClaudeName<'a> {
    /// Reads `claude-opus-4-8`, `claude-sonnet-4-5-20250929`,
    /// `claude-3-7-sonnet-latest` and the same behind a gateway's prefix or
    /// with dots.
    fn parse(model: &'a str) -> Option<Self> {
        let words: Vec<&str> = model
            .split(|character: char| !character.is_ascii_alphanumeric())
            .skip_while(|word| !word.eq_ignore_ascii_case("claude"))
            .skip(1)
            .collect();
        if words.is_empty() && !model.to_ascii_lowercase().contains("claude") {
            return None;
        }
        let line = words
            .iter()
            .find(|word| word.starts_with(|first: char| first.is_ascii_alphabetic()))
            .copied()
            .unwrap_or_default();
        // A number of more than two digits is a date.
        let mut numbers = words
            .iter()
            .filter(|word| word.len() <= 2)
            .filter_map(|word| word.parse::<u32>().ok());
        let version = numbers
            .next()
            .map(|major| (major, numbers.next().unwrap_or(0)));
        Some(Self { line, version })
    }

    fn thinking(&self) -> Thinking {
        let all = Efforts::All;
        match (self.line, self.version) {
            ("fable" | "mythos", _) => Thinking::Adaptive {
                off: Off::Impossible,
                efforts: all,
            },
            (_, None | Some((5.., _))) => Thinking::Adaptive {
                off: Off::OnRequest,
                efforts: all,
            },
            (_, Some((4, 7..))) => Thinking::Adaptive {
                off: Off::ByDefault,
                efforts: all,
            },
            (_, Some((4, 6))) => Thinking::Adaptive {
                off: Off::ByDefault,
                efforts: Efforts::AllButXHigh,
            },
            (_, Some((4, _) | (3, 7..))) => Thinking::Budget,
            (_, Some(_)) => Thinking::Never,
        }
    }

    /// From 4.7 on models do not show their thinking unless they are told to.
    fn hides_thinking(&self) -> bool {
        matches!(self.line, "fable" | "mythos")
            || matches!(self.version, None | Some((5.., _) | (4, 7..)))
    }

    fn takes_output_schema(&self) -> bool {
        matches!(self.line, "fable" | "mythos")
            || matches!(self.version, None | Some((5.., _) | (4, 5..)))
    }

    fn compacts(&self) -> bool {
        matches!(self.line, "fable" | "mythos")
            || matches!(self.version, None | Some((5.., _) | (4, 6..)))
    }

    /// Room for reasoning and an answer, within what each generation allows.
    fn default_max_tokens(&self) -> u32 {
        match (self.line, self.version) {
            ("fable" | "mythos", _) | (_, None | Some((5.., _) | (4, 6..))) => 64_000,
            (_, Some((4, _) | (3, 7..))) => 32_000,
            (_, Some((3, 5..))) => 8_192,
            (_, Some(_)) => 4_096,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(name: &str, level: ReasoningEffort, max_output_tokens: Option<u32>) -> ResolvedModel {
        ResolvedModel {
            max_output_tokens,
            reasoning: Some(level),
            ..crate::test_model::model(name)
        }
    }

    /// The `thinking` member, the effort, and whether there is a warning.
    type Asked = (String, Option<&'static str>, bool);

    fn asked(name: &str, level: ReasoningEffort) -> Asked {
        let model = model(name, level, None);
        let members = ModelTraits::of(name).reasoning(&model);
        let thinking = members.thinking.unwrap_or_default();
        (thinking, members.effort, members.warning.is_some())
    }

    const SHOWN: &str = r#"{"type":"adaptive","display":"summarized"}"#;
    const ADAPTIVE: &str = r#"{"type":"adaptive"}"#;

    fn effort(level: &'static str) -> Asked {
        (SHOWN.to_owned(), Some(level), false)
    }

    fn tokens(budget: u32) -> Asked {
        let json = format!(r#"{{"type":"enabled","budget_tokens":{budget}}}"#);
        (json, None, false)
    }

    const NOTHING: Asked = (String::new(), None, false);
    const DROPPED: Asked = (String::new(), None, true);

    #[test]
    fn each_family_gets_the_levels_of_the_table() {
        use ReasoningEffort::{High, Low, Max, Medium, Minimal, None, XHigh};
        let disabled: Asked = (r#"{"type":"disabled"}"#.to_owned(), Option::None, false);
        let adaptive_only: Asked = (ADAPTIVE.to_owned(), Option::None, true);
        let table = [
            ("claude-fable-5-2", None, DROPPED),
            ("claude-mythos-5", Minimal, effort("low")),
            ("claude-fable-5", Max, effort("max")),
            ("claude-opus-5-5", None, disabled.clone()),
            ("claude-sonnet-5", None, disabled.clone()),
            ("claude-haiku-5-5", Medium, effort("medium")),
            ("claude-opus-5", XHigh, effort("xhigh")),
            ("claude-opus-4-8", None, NOTHING),
            ("claude-opus-4-8", XHigh, effort("xhigh")),
            ("claude-opus-4-7", Low, effort("low")),
            ("claude-opus-4-6", XHigh, adaptive_only),
            (
                "anthropic/claude-sonnet-4.6",
                Max,
                (ADAPTIVE.to_owned(), Some("max"), false),
            ),
            ("claude-sonnet-4-5-20250929", None, NOTHING),
            ("claude-sonnet-4-5-20250929", Minimal, tokens(1_024)),
            ("claude-haiku-4-5", Low, tokens(4_096)),
            ("claude-opus-4-20250514", Medium, tokens(10_240)),
            ("claude-3-7-sonnet-20250219", High, tokens(20_480)),
            ("claude-opus-4-5", XHigh, tokens(24_000)),
            ("claude-opus-4-5", Max, tokens(24_000)),
            ("claude-3-5-haiku-20241022", High, DROPPED),
            ("claude-3-opus-20240229", None, NOTHING),
            ("claude-next", High, effort("high")),
            ("some-other-model", None, NOTHING),
            ("some-other-model", Low, tokens(4_096)),
        ];
        for (name, level, expected) in table {
            assert_eq!(asked(name, level), expected, "{name} at {level:?}");
        }
    }

    #[test]
    fn a_budget_leaves_room_for_an_answer_or_is_dropped() {
        let asked = |max_tokens| {
            let model = model("claude-haiku-4-5", ReasoningEffort::Max, Some(max_tokens));
            ModelTraits::of("claude-haiku-4-5").reasoning(&model)
        };
        assert_eq!(asked(1_366).thinking, Some(tokens(1_024).0));
        assert_eq!(asked(1_365).thinking, None);
        assert!(asked(1_365).warning.unwrap().contains("max_output_tokens"));
        assert_eq!(asked(100_000).thinking, Some(tokens(75_000).0));
    }

    #[test]
    fn models_that_think_and_hide_it_are_asked_to_show_it() {
        let thinking = |name: &str| {
            let mut model = model(name, ReasoningEffort::None, None);
            model.reasoning = None;
            ModelTraits::of(name).reasoning(&model).thinking
        };
        for name in ["claude-fable-5", "claude-opus-5-5", "claude-sonnet-5"] {
            assert_eq!(thinking(name).as_deref(), Some(SHOWN), "{name}");
        }
        for name in [
            "claude-opus-4-8",
            "claude-opus-4-6",
            "claude-haiku-4-5",
            "other",
        ] {
            assert_eq!(thinking(name), None, "{name}");
        }
    }

    #[test]
    fn answers_are_kept_to_a_schema_from_4_5_on() {
        let takes = |name: &str| ModelTraits::of(name).takes_output_schema;
        for name in [
            "claude-haiku-4-5",
            "claude-opus-4-8",
            "claude-fable-5",
            "claude-next",
        ] {
            assert!(takes(name), "{name}");
        }
        for name in ["claude-opus-4-1", "claude-3-7-sonnet-latest", "other"] {
            assert!(!takes(name), "{name}");
        }
    }

    #[test]
    fn conversations_are_compacted_from_4_6_on() {
        let compacts = |name: &str| ModelTraits::of(name).compacts;
        assert!(compacts("claude-opus-4-6") && compacts("claude-mythos-5"));
        assert!(!compacts("claude-haiku-4-5") && !compacts("other"));
    }

    #[test]
    fn the_output_limit_is_the_configured_one_or_the_models() {
        let limit = |name: &str, configured| {
            let model = model(name, ReasoningEffort::None, configured);
            ModelTraits::of(name).max_tokens(&model)
        };
        assert_eq!(limit("claude-opus-5", Some(7)), 7);
        assert_eq!(limit("claude-opus-5", Some(0)), 1);
        assert_eq!(limit("claude-opus-5", None), 64_000);
        assert_eq!(limit("claude-opus-4-1", None), 32_000);
        assert_eq!(limit("claude-3-5-sonnet-latest", None), 8_192);
        assert_eq!(limit("claude-3-haiku-20240307", None), 4_096);
        assert_eq!(limit("other", None), 8_192);
    }
}
