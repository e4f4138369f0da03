//! Quotations from the request in scripted text: the table is in the
//! documentation of the module above.

use super::select::token;
use crate::conversation::{Conversation, SpokenTurn};
use serde_json::{Map, Value};

/// What may stand around the words of a prompt.
const QUOTES: [char; 4] = ['"', '\'', '`', '\\'];

/// What a template may quote.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quotes<'a> {
    pub conversation: &'a Conversation,
    pub anchor: usize,
    pub step_index: usize,
}

impl Quotes<'_> {
    /// The text with its templates filled in.
    pub(crate) fn fill(&self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            filled.push_str(before);
            let Some((inside, behind)) = after.split_once("}}") else {
                filled.push_str("{{");
                rest = after;
                continue;
            };
            match self.quote(inside.trim()) {
                Some(value) => filled.push_str(&value),
                None => {
                    filled.push_str("{{");
                    filled.push_str(inside);
                    filled.push_str("}}");
                }
            }
            rest = behind;
        }
        filled.push_str(rest);
        filled
    }

    /// The object with the templates in its strings filled in.
    pub(crate) fn fill_object(&self, object: &Map<String, Value>) -> Map<String, Value> {
        object
            .iter()
            .map(|(key, value)| (key.clone(), self.fill_value(value)))
            .collect()
    }

    fn fill_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill(text)),
            Value::Array(items) => items.iter().map(|item| self.fill_value(item)).collect(),
            Value::Object(object) => Value::Object(self.fill_object(object)),
            other => other.clone(),
        }
    }

    fn quote(&self, template: &str) -> Option<String> {
        let (word, rest) = template.split_once(' ').unwrap_or((template, ""));
        let rest = rest.trim();
        let found = match word {
            "prompt" => self.prompt(),
            "arg" => self.argument(rest),
            "result" => self.result(rest),
            "images" => Some(self.conversation.images().to_string()),
            "model" => Some(self.conversation.model.clone()),
            "step" => Some(self.step_index.to_string()),
            "tools" => Some(self.conversation.tools.join(", ")),
            _ => return None,
        };
        Some(found.unwrap_or_else(|| "(none)".to_owned()))
    }

    fn anchor_text(&self) -> Option<&str> {
        match self.conversation.turns.get(self.anchor)? {
            SpokenTurn::User { text, .. } => Some(text),
            _ => None,
        }
    }

    fn prompt(&self) -> Option<String> {
        let words: Vec<_> = self
            .anchor_text()?
            .split_whitespace()
            .filter(|word| token(word).is_none())
            .collect();
        Some(words.join(" "))
    }

    fn argument(&self, rest: &str) -> Option<String> {
        let (name, default) = match rest.split_once(" or ") {
            Some((name, default)) => (name.trim(), Some(default.trim())),
            None => (rest, None),
        };
        self.anchor_text()
            .into_iter()
            .flat_map(str::split_whitespace)
            .map(|word| word.trim_matches(QUOTES))
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
            .or(default)
            .map(str::to_owned)
    }

    fn result(&self, rest: &str) -> Option<String> {
        let (which, pointer) = rest.split_once(' ').unwrap_or((rest, ""));
        let mut results = self.conversation.results_since(self.anchor);
        let result = match which {
            "" | "last" => results.next_back(),
            number => results.nth(number.parse::<usize>().ok()?.checked_sub(1)?),
        }?;
        if pointer.is_empty() {
            return Some(result.text.clone());
        }
        // What a result says of tools may stand behind its value.
        let mut values = serde_json::Deserializer::from_str(&result.text).into_iter();
        let value: Value = values.next()?.ok()?;
        match value.pointer(pointer.trim())? {
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::ToolResult;

    fn filled(text: &str) -> String {
        let result = |text: &str| ToolResult {
            text: text.to_owned(),
            images: 1,
        };
        let conversation = Conversation {
            model: "m".to_owned(),
            turns: vec![
                SpokenTurn::User {
                    text: "do mock:x it path=a/b.txt".to_owned(),
                    images: 0,
                },
                SpokenTurn::Assistant { calls: 2 },
                SpokenTurn::Results(vec![result("one"), result(r#"{"stdout":"hi","code":0}"#)]),
            ],
            ..Conversation::default()
        };
        let quotes = Quotes {
            conversation: &conversation,
            anchor: 0,
            step_index: 1,
        };
        quotes.fill(text)
    }

    #[test]
    fn templates_quote_the_request() {
        let table = [
            ("plain", "plain"),
            ("<{{prompt}}>", "<do it path=a/b.txt>"),
            ("{{arg path}}", "a/b.txt"),
            ("{{arg size or 7 kB}}", "7 kB"),
            ("{{arg size}}", "(none)"),
            ("{{result 1}} {{result 3}}", "one (none)"),
            ("{{result last /stdout}}/{{result 2 /code}}", "hi/0"),
            ("{{result 1 /stdout}}", "(none)"),
            ("{{model}} {{step}} {{images}}", "m 1 2"),
            ("{{novelty}} {{open", "{{novelty}} {{open"),
        ];
        for (template, expected) in table {
            assert_eq!(filled(template), expected, "{template}");
        }
    }
}
