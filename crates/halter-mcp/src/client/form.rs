//! Forms of servers as questions to a person, and answers as what a server
//! gets.

use crate::limits::{FORM_FIELDS, FORM_TEXT_BYTES};
use crate::text::{plain, shortened};
use halter_protocol::{Question, QuestionOption, QuestionResponse};
use halter_tools::limits::{OPTION_CHARS, OPTION_ID_CHARS, QUESTION_OPTIONS};
use rmcp::model::ElicitationSchema;
use serde_json::{Map, Value};

/// The option that stands for the default of a field.
const DEFAULT: &str = "default";

/// A form that a server wants filled in.
pub(crate) struct Form {
    pub(crate) fields: Vec<Field>,
}

/// One field of a form.
pub(crate) struct Field {
    name: String,
    required: bool,
    schema: Map<String, Value>,
    kind: Kind,
    check: jsonschema::Validator,
}

enum Kind {
    Text,
    Number,
    YesNo,
    One(Vec<Choice>),
    Several(Vec<Choice>),
}

/// Something that may be chosen: an option's id, its value and how it reads.
struct Choice {
    id: String,
    value: String,
    title: String,
}

impl Form {
    /// Reads a schema.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn new(schema: &ElicitationSchema) -> Result<Self, String> {
        let count = schema.properties.len();
        if count > FORM_FIELDS {
            return Err(format!("a form may have {FORM_FIELDS} fields, not {count}"));
        }
        let order = schema.property_order.clone();
        let order = order.unwrap_or_else(|| schema.properties.keys().cloned().collect());
        let required = schema.required.as_deref().unwrap_or_default();
        let mut fields = Vec::new();
        for name in order {
            let Some(property) = schema.properties.get(&name) else {
                continue;
            };
            let schema = serde_json::to_value(property).map_err(|error| error.to_string())?;
            let is_required = required.contains(&name);
            fields.push(Field::new(name, is_required, schema)?);
        }
        Ok(Self { fields })
    }

    /// What the server gets, if every required field has a value.
    pub(crate) fn content(&self, values: &[Option<Value>]) -> Option<Value> {
        let pairs = self.fields.iter().zip(values);
        let mut content = Map::new();
        for (field, value) in pairs {
            match value {
                Some(value) => {
                    content.insert(field.name.clone(), value.clone());
                }
                None if field.required => return None,
                None => {}
            }
        }
        Some(Value::Object(content))
    }
}

impl Field {
    fn new(name: String, required: bool, schema: Value) -> Result<Self, String> {
        let check = jsonschema::options()
            .should_validate_formats(true)
            .build(&schema)
            .map_err(|error| format!("the schema of the field `{name}`: {error}"))?;
        let Value::Object(schema) = schema else {
            return Err(format!("the schema of the field `{name}` is no object"));
        };
        let kind = match schema.get("type").and_then(Value::as_str) {
            Some("boolean") => Kind::YesNo,
            Some("number" | "integer") => Kind::Number,
            Some("array") => Kind::Several(choices(schema.get("items").and_then(Value::as_object))),
            _ => match choices(Some(&schema)) {
                choices if choices.is_empty() => Kind::Text,
                choices => Kind::One(choices),
            },
        };
        Ok(Self {
            name,
            required,
            schema,
            kind,
            check,
        })
    }

    /// The field as a question.
    pub(crate) fn question(&self) -> Question {
        let mut options = self.options();
        let mut text = self.label();
        if options.len() > QUESTION_OPTIONS {
            let titles: Vec<String> = options.into_iter().map(|option| option.text).collect();
            let titles = shortened(&titles.join(", "), FORM_TEXT_BYTES);
            text.push_str(&format!("\nOne of: {titles}"));
            options = Vec::new();
        }
        Question {
            question: text,
            options,
            is_multi_select: matches!(self.kind, Kind::Several(_)),
        }
    }

    fn label(&self) -> String {
        let said = |key: &str| self.schema.get(key).and_then(Value::as_str);
        let title = plain(said("title").unwrap_or(&self.name));
        let mut text = shortened(title.trim(), FORM_TEXT_BYTES);
        if let Some(description) = said("description") {
            let description = shortened(plain(description).trim(), FORM_TEXT_BYTES);
            text.push_str(&format!(": {description}"));
        }
        let mut notes = Vec::new();
        notes.extend((!self.required).then(|| "may be skipped".to_owned()));
        for (key, words) in [
            ("format", "as"),
            ("minimum", "at least"),
            ("maximum", "at most"),
            ("minLength", "characters, at least"),
            ("maxLength", "characters, at most"),
            ("minItems", "choose at least"),
            ("maxItems", "choose at most"),
        ] {
            if let Some(value) = self.schema.get(key) {
                notes.push(format!("{words} {}", shown(value)));
            }
        }
        if let Some(default) = self.schema.get("default") {
            notes.push(format!("default {}", shown(default)));
        }
        if !notes.is_empty() {
            text.push_str(&format!(" ({})", notes.join(", ")));
        }
        text
    }

    fn options(&self) -> Vec<QuestionOption> {
        let option = |id: &str, text: String| QuestionOption {
            id: id.to_owned(),
            text,
        };
        match &self.kind {
            Kind::YesNo => vec![
                option("true", "yes".to_owned()),
                option("false", "no".to_owned()),
            ],
            Kind::One(choices) | Kind::Several(choices) => {
                let choices = choices.iter();
                choices.map(|it| option(&it.id, it.title.clone())).collect()
            }
            Kind::Text | Kind::Number => {
                let default = self.schema.get("default").into_iter();
                default.map(|value| option(DEFAULT, shown(value))).collect()
            }
        }
    }

    /// The value of an answer; the default, if there is one, for a field that
    /// was skipped.
    ///
    /// # Errors
    /// What is wrong with the answer.
    pub(crate) fn value(&self, response: &QuestionResponse) -> Result<Option<Value>, String> {
        let default = || self.schema.get("default").cloned();
        if response.skipped {
            return Ok(default());
        }
        let chosen = response.selected_option_ids.as_deref().unwrap_or_default();
        let words = response.freeform_response.trim();
        let is_default = chosen.first().is_some_and(|id| id == DEFAULT);
        let value = match &self.kind {
            Kind::Text | Kind::Number if is_default && words.is_empty() => default(),
            Kind::Text => Some(Value::from(words)),
            Kind::Number => number(words),
            Kind::YesNo => yes_or_no(chosen.first().map_or(words, String::as_str)),
            Kind::One(choices) => {
                let word = chosen.first().map_or(words, String::as_str);
                choice(choices, word).map(Value::from)
            }
            Kind::Several(choices) => {
                let typed = words.split(',').map(str::trim).filter(|it| !it.is_empty());
                let all = chosen.iter().map(String::as_str).chain(typed);
                let all: Option<Vec<&str>> = all.map(|word| choice(choices, word)).collect();
                all.map(Value::from)
            }
        };
        let wrong = || {
            format!(
                "{}: this is none of what may be answered",
                plain(&self.name)
            )
        };
        let value = value.ok_or_else(wrong)?;
        match self.check.validate(&value) {
            Ok(()) => Ok(Some(value)),
            Err(error) => {
                let error = shortened(&plain(&error.to_string()), FORM_TEXT_BYTES);
                Err(format!("{}: {error}", plain(&self.name)))
            }
        }
    }
}

/// The values of an `enum`, with their names, or the constants of `oneOf` and
/// `anyOf`.
fn choices(schema: Option<&Map<String, Value>>) -> Vec<Choice> {
    let list = |key: &str| schema.and_then(|it| it.get(key)).and_then(Value::as_array);
    let named = list("oneOf").or_else(|| list("anyOf"));
    let mut pairs: Vec<(String, String)> = Vec::new();
    if let Some(constants) = named {
        let text = |it: &Value, key: &str| it.get(key).and_then(Value::as_str).map(str::to_owned);
        pairs.extend(constants.iter().filter_map(|it| {
            let value = text(it, "const")?;
            let title = text(it, "title").unwrap_or_else(|| value.clone());
            Some((value, title))
        }));
    } else if let Some(values) = list("enum") {
        let names = list("enumNames").map(Vec::as_slice).unwrap_or_default();
        pairs.extend(values.iter().enumerate().filter_map(|(index, value)| {
            let value = value.as_str()?.to_owned();
            let name = names.get(index).and_then(Value::as_str);
            Some((value.clone(), name.map_or(value, str::to_owned)))
        }));
    }
    let numbered = pairs.into_iter().enumerate();
    numbered
        .map(|(index, (value, title))| {
            let fits = !value.is_empty() && value.chars().count() <= OPTION_ID_CHARS;
            let title: String = plain(&title).chars().take(OPTION_CHARS).collect();
            Choice {
                id: if fits {
                    value.clone()
                } else {
                    format!("option {}", index + 1)
                },
                title: if title.trim().is_empty() {
                    format!("option {}", index + 1)
                } else {
                    title
                },
                value,
            }
        })
        .collect()
}

/// The value that a word stands for, by id, value or name.
fn choice<'a>(choices: &'a [Choice], word: &str) -> Option<&'a str> {
    let mut choices = choices.iter();
    let found = choices.find(|it| it.id == word || it.value == word || it.title == word)?;
    Some(found.value.as_str())
}

fn number(words: &str) -> Option<Value> {
    let whole = words.parse::<i64>().ok().map(Value::from);
    whole.or_else(|| words.parse::<f64>().ok().map(Value::from))
}

fn yes_or_no(word: &str) -> Option<Value> {
    match word.to_lowercase().as_str() {
        "true" | "yes" | "y" => Some(Value::Bool(true)),
        "false" | "no" | "n" => Some(Value::Bool(false)),
        _ => None,
    }
}

/// A value of a schema, made fit to be shown.
fn shown(value: &Value) -> String {
    let text = match value {
        Value::String(text) => plain(text),
        other => plain(&other.to_string()),
    };
    let text: String = text.chars().take(OPTION_CHARS).collect();
    if text.is_empty() {
        "empty".to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn form(schema: Value) -> Form {
        Form::new(&serde_json::from_value(schema).unwrap()).unwrap()
    }

    fn everything() -> Form {
        form(json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "title": "Full name", "description": "as on the card",
                    "minLength": 2},
                "mail": {"type": "string", "format": "email"},
                "age": {"type": "integer", "minimum": 18, "default": 30},
                "share": {"type": "number"},
                "sure": {"type": "boolean", "default": false},
                "colour": {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
                "size": {"type": "string", "oneOf": [
                    {"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]},
                "tags": {"type": "array", "maxItems": 1, "items": {"type": "string",
                    "enum": ["a", "b"]}},
            },
            "required": ["name"],
        }))
    }

    #[test]
    fn fields_are_asked_in_their_order_with_what_may_be_answered() {
        let form = everything();
        let asked: Vec<Question> = form.fields.iter().map(Field::question).collect();
        let texts: Vec<&str> = asked.iter().map(|it| it.question.as_str()).collect();
        assert_eq!(
            texts,
            [
                "Full name: as on the card (characters, at least 2)",
                "mail (may be skipped, as email)",
                "age (may be skipped, at least 18, default 30)",
                "share (may be skipped)",
                "sure (may be skipped, default false)",
                "colour (may be skipped)",
                "size (may be skipped)",
                "tags (may be skipped, choose at most 1)",
            ]
        );
        let ids = |question: &Question| -> Vec<String> {
            question.options.iter().map(|it| it.id.clone()).collect()
        };
        assert_eq!(ids(&asked[2]), ["default"]);
        assert_eq!(ids(&asked[4]), ["true", "false"]);
        assert_eq!(ids(&asked[6]), ["s", "l"]);
        assert_eq!(asked[5].options[1].text, "Green");
        assert!(asked[7].is_multi_select);
    }

    #[test]
    fn answers_are_values_of_the_schema_or_it_is_said_why_not() {
        let form = everything();
        let value = |index: usize, response: QuestionResponse| form.fields[index].value(&response);
        let text = QuestionResponse::text;
        let selected = |id: &str| QuestionResponse::selected(id);
        assert_eq!(value(0, text("Ada")), Ok(Some(json!("Ada"))));
        assert!(value(0, text("A")).unwrap_err().starts_with("name: "));
        assert!(value(1, text("nobody")).unwrap_err().contains("email"));
        assert_eq!(
            value(1, text("a@b.example")),
            Ok(Some(json!("a@b.example")))
        );
        assert_eq!(value(2, selected("default")), Ok(Some(json!(30))));
        assert_eq!(value(2, QuestionResponse::skipped()), Ok(Some(json!(30))));
        assert_eq!(value(2, text("41")), Ok(Some(json!(41))));
        assert!(value(2, text("4")).is_err());
        assert!(value(2, text("4.5")).is_err());
        assert!(value(2, text("old")).is_err());
        assert_eq!(value(3, text("0.5")), Ok(Some(json!(0.5))));
        assert_eq!(value(4, selected("true")), Ok(Some(json!(true))));
        assert_eq!(value(4, text("No")), Ok(Some(json!(false))));
        assert_eq!(value(5, text("Green")), Ok(Some(json!("g"))));
        assert!(value(5, text("Blue")).is_err());
        assert_eq!(value(6, selected("l")), Ok(Some(json!("l"))));
        assert_eq!(value(7, selected("b")), Ok(Some(json!(["b"]))));
        assert!(value(7, text("a, b")).is_err());
        assert_eq!(value(3, QuestionResponse::skipped()), Ok(None));
    }

    #[test]
    fn what_is_required_is_there_and_what_was_skipped_is_left_out() {
        let form = everything();
        let mut values = vec![None; 8];
        assert_eq!(form.content(&values), None);
        values[0] = Some(json!("Ada"));
        values[2] = Some(json!(30));
        assert_eq!(
            form.content(&values),
            Some(json!({"name": "Ada", "age": 30}))
        );
    }

    #[test]
    fn a_form_has_so_many_fields_and_so_much_text_and_no_more() {
        let fields = |count: usize| {
            let fields = (0..count).map(|n| (format!("f{n}"), json!({"type": "string"})));
            let fields: Map<String, Value> = fields.collect();
            let schema = json!({"type": "object", "properties": fields});
            Form::new(&serde_json::from_value(schema).unwrap()).map(|form| form.fields.len())
        };
        assert_eq!(fields(FORM_FIELDS), Ok(FORM_FIELDS));
        assert!(fields(FORM_FIELDS + 1).is_err());
        let long = form(json!({"type": "object", "properties": {
            "a": {"type": "string", "title": "\u{1b}[2Jt", "description": "d".repeat(FORM_TEXT_BYTES + 1)},
        }}));
        let asked = long.fields[0].question().question;
        assert!(asked.starts_with("[2Jt: ddd"), "{asked}");
        assert!(asked.contains("[1 bytes left out]"), "{asked}");
    }

    #[test]
    fn more_choices_than_a_question_has_are_answered_in_words() {
        let values: Vec<String> = (0..=QUESTION_OPTIONS).map(|n| format!("v{n}")).collect();
        let form = form(json!({"type": "object", "properties": {
            "a": {"type": "string", "enum": values},
        }}));
        let asked = form.fields[0].question();
        assert!(asked.options.is_empty() && asked.question.contains("One of: v0, v1"));
        let answer = form.fields[0].value(&QuestionResponse::text("v12"));
        assert_eq!(answer, Ok(Some(json!("v12"))));
    }
}
