//! Which step answers a request: the rules are in the documentation of the
//! module above.

use super::library::FALLBACK;
use super::{Scenario, ScenarioLibrary, Step};
use crate::conversation::{Conversation, SpokenTurn};
use std::borrow::Cow;

/// The word before a scenario's name.
const TOKEN: &str = "mock:";

/// What answers a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Selection<'a> {
    /// The scenario's name.
    pub name: String,
    /// The scenario.
    pub scenario: &'a Scenario,
    /// The step's index, counted from 0, before a repetition is folded.
    pub step_index: usize,
    /// The step.
    pub step: Cow<'a, Step>,
    /// The turn that the steps are counted from.
    pub anchor: usize,
}

/// Chooses the step; the error is a sentence for the client.
pub(crate) fn select<'a>(
    conversation: &Conversation,
    library: &'a ScenarioLibrary,
    default: Option<&str>,
) -> Result<Selection<'a>, String> {
    let prompt = prompt_turn(conversation);
    let (name, anchor) = by_phrase(conversation, library)
        .or_else(|| named(conversation, prompt))
        .or_else(|| continued(conversation, library))
        .unwrap_or_else(|| (default.unwrap_or(FALLBACK).to_owned(), prompt));
    let scenario = library.get(&name).ok_or_else(|| {
        format!(
            "no mock scenario is called `{name}`; known: {}",
            library.names()
        )
    })?;
    let step_index = conversation
        .turns
        .iter()
        .skip(anchor)
        .filter(|turn| matches!(turn, SpokenTurn::Assistant { .. }))
        .count();
    let folded = if scenario.repeat {
        step_index % scenario.steps.len().max(1)
    } else {
        step_index
    };
    let step = match scenario.steps.get(folded) {
        Some(step) => Cow::Borrowed(step),
        None => Cow::Owned(Step::text(format!(
            "The mock scenario {name} is over after {} steps.",
            scenario.steps.len()
        ))),
    };
    Ok(Selection {
        name,
        scenario,
        step_index,
        step,
        anchor,
    })
}

/// The turn of the prompt, or 0 when there is none.
fn prompt_turn(conversation: &Conversation) -> usize {
    let mut answered = true;
    let mut prompt = 0;
    for (index, turn) in conversation.turns.iter().enumerate() {
        match turn {
            SpokenTurn::Assistant { calls } => answered = *calls == 0,
            SpokenTurn::User { .. } if answered => {
                prompt = index;
                // Further texts of the same prompt belong to it.
                answered = false;
            }
            _ => {}
        }
    }
    prompt
}

/// The last scenario named in the prompt or after it.
fn named(conversation: &Conversation, prompt: usize) -> Option<(String, usize)> {
    conversation
        .turns
        .iter()
        .enumerate()
        .skip(prompt)
        .rev()
        .find_map(|(index, turn)| match turn {
            SpokenTurn::User { text, .. } => Some((token(text)?, index)),
            _ => None,
        })
}

/// The last scenario named at all, if it goes on over prompts.
fn continued(conversation: &Conversation, library: &ScenarioLibrary) -> Option<(String, usize)> {
    named(conversation, 0)
        .filter(|(name, _)| library.get(name).is_some_and(|found| found.continues))
}

/// The last `mock:NAME` of a text, perhaps behind a quote, a bracket or a tag.
pub(super) fn token(text: &str) -> Option<String> {
    let in_name = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    text.rmatch_indices(TOKEN).find_map(|(start, _)| {
        let (before, after) = text.split_at_checked(start)?;
        let after = after.strip_prefix(TOKEN)?;
        let end = after.find(|letter| !in_name(letter)).unwrap_or(after.len());
        let name = after.get(..end).filter(|name| !name.is_empty())?;
        // Not the end of a longer word, and no host with a port.
        let starts_here = !before.ends_with(|letter| in_name(letter) || "./@".contains(letter));
        starts_here.then(|| name.to_owned())
    })
}

fn by_phrase(conversation: &Conversation, library: &ScenarioLibrary) -> Option<(String, usize)> {
    let (index, text) = conversation
        .turns
        .iter()
        .enumerate()
        .rev()
        .find_map(|(index, turn)| match turn {
            SpokenTurn::User { text, .. } => Some((index, text)),
            _ => None,
        })?;
    // What a prompt begins with counts more than a word that it quotes.
    let quotes = token(text).is_some();
    let has = |phrase: &String| match quotes {
        true => text.starts_with(phrase),
        false => text.contains(phrase),
    };
    library
        .iter()
        .find(|(_, scenario)| scenario.phrases.iter().any(has))
        .map(|(name, _)| (name.to_owned(), index))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(text: &str) -> SpokenTurn {
        SpokenTurn::User {
            text: text.to_owned(),
            images: 0,
        }
    }

    fn assistant(calls: usize) -> SpokenTurn {
        SpokenTurn::Assistant { calls }
    }

    fn results() -> SpokenTurn {
        SpokenTurn::Results(vec![crate::conversation::ToolResult::default()])
    }

    fn library() -> ScenarioLibrary {
        let mut library = ScenarioLibrary::default();
        let steps = |count: usize| (0..count).map(|n| Step::text(format!("s{n}"))).collect();
        let mut repeating = Scenario::new("r", steps(2));
        repeating.repeat = true;
        let mut lasting = Scenario::new("l", steps(3));
        lasting.continues = true;
        library.add("l", lasting).unwrap();
        let mut summary = Scenario::new("s", steps(1));
        summary.phrases = vec!["Summarize this".to_owned()];
        library.add("a", Scenario::new("a", steps(3))).unwrap();
        library.add("b", Scenario::new("b", steps(3))).unwrap();
        library.add("r", repeating).unwrap();
        library.add("sum", summary).unwrap();
        library
            .add("default", Scenario::new("d", steps(1)))
            .unwrap();
        library
    }

    fn chosen(turns: Vec<SpokenTurn>) -> (String, usize) {
        let library = library();
        let conversation = Conversation {
            turns,
            ..Conversation::default()
        };
        let selection = select(&conversation, &library, None).unwrap();
        (selection.name, selection.step_index)
    }

    #[test]
    fn the_word_in_the_prompt_chooses_and_assistant_turns_count() {
        assert_eq!(chosen(vec![user("please mock:a.")]), ("a".into(), 0));
        let turns = vec![user("mock:a"), assistant(1), results()];
        assert_eq!(chosen(turns), ("a".into(), 1));
        let turns = vec![
            user("mock:a"),
            assistant(2),
            results(),
            assistant(1),
            results(),
        ];
        assert_eq!(chosen(turns), ("a".into(), 2));
    }

    #[test]
    fn a_name_is_found_behind_quotes_brackets_and_tags() {
        for text in [
            "say \"mock:a\"",
            "'mock:a'",
            "(mock:a)",
            "<task>mock:a</task>",
            r#"{"prompt":"mock:a path=x"}"#,
        ] {
            assert_eq!(chosen(vec![user(text)]), ("a".into(), 0), "{text}");
        }
        for text in ["http://mock:80/", "hammock:a", "mock:", "it is mock: a"] {
            assert_eq!(chosen(vec![user(text)]).0, "default", "{text}");
        }
    }

    #[test]
    fn a_steering_text_keeps_the_scenario_unless_it_names_one() {
        let turns = vec![user("mock:a"), assistant(1), results(), user("faster")];
        assert_eq!(chosen(turns), ("a".into(), 1));
        let turns = vec![user("mock:a"), assistant(1), results(), user("mock:b")];
        assert_eq!(chosen(turns), ("b".into(), 0));
    }

    #[test]
    fn a_new_prompt_without_a_word_gets_the_default() {
        let turns = vec![user("mock:a"), assistant(0), user("and now?")];
        assert_eq!(chosen(turns), ("default".into(), 0));
    }

    #[test]
    fn a_scenario_that_continues_keeps_later_prompts() {
        let turns = vec![user("mock:l"), assistant(0), user("go on")];
        assert_eq!(chosen(turns), ("l".into(), 1));
        let turns = vec![user("mock:l"), assistant(0), user("mock:a")];
        assert_eq!(chosen(turns), ("a".into(), 0));
    }

    #[test]
    fn a_phrase_chooses_when_no_word_does() {
        let turns = vec![user("mock:a"), assistant(0), user("Summarize this session")];
        assert_eq!(chosen(turns), ("sum".into(), 0));
        let turns = vec![
            user("mock:a"),
            assistant(1),
            results(),
            user("Summarize this"),
        ];
        assert_eq!(chosen(turns), ("sum".into(), 0));
        let turns = vec![user("please Summarize this mock:a")];
        assert_eq!(chosen(turns), ("a".into(), 0));
        let turns = vec![user("Summarize this: they said mock:a")];
        assert_eq!(chosen(turns), ("sum".into(), 0));
    }

    #[test]
    fn a_scenario_repeats_or_is_over() {
        let turns = vec![
            user("mock:r"),
            assistant(1),
            results(),
            assistant(1),
            results(),
        ];
        let library = library();
        let mut conversation = Conversation {
            turns,
            ..Conversation::default()
        };
        let selection = select(&conversation, &library, None).unwrap();
        assert_eq!(selection.step.as_ref(), &Step::text("s0"));
        conversation.turns[0] = user("mock:sum");
        let selection = select(&conversation, &library, None).unwrap();
        assert_eq!(
            selection.step.as_ref(),
            &Step::text("The mock scenario sum is over after 1 steps.")
        );
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let conversation = Conversation {
            turns: vec![user("mock:nope")],
            ..Conversation::default()
        };
        let error = select(&conversation, &library(), None).unwrap_err();
        assert!(
            error.contains("`nope`") && error.contains("default"),
            "{error}"
        );
    }
}
