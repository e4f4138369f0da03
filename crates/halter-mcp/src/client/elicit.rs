//! What servers want to know of the user, asked through the session of the
//! call that it is for.

use super::form::{Field, Form};
use crate::limits::{FORM_ADDRESS_BYTES, FORM_TEXT_BYTES, FORM_TRIES};
use crate::names::ServerName;
use crate::text::{plain, shortened};
use halter_protocol::{Question, QuestionOption, QuestionResponse, ResolvedBy};
use halter_tools::ToolContext;
use halter_tools::limits::{QUESTION_CHARS, QUESTIONS};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::{Value, json};
use url::Url;

/// How a person says that they agree to something that has no fields.
const ACCEPT: &str = "accept";
/// How they say that they do not.
const DECLINE: &str = "decline";

/// Asks what a server wants to know.
///
/// # Errors
/// What is wrong with what it asks.
pub(crate) async fn elicit(
    server: &ServerName,
    params: ElicitRequestParams,
    context: &ToolContext,
) -> Result<ElicitResult, String> {
    let asked = match params {
        ElicitRequestParams::FormElicitationParams {
            message,
            requested_schema,
            ..
        } => {
            let form = Form::new(&requested_schema)?;
            let asking = Asking {
                intro: form_intro(server, &message),
                context,
            };
            asking.form(&form).await
        }
        ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
            let asking = Asking {
                intro: address_intro(server, &message, &url)?,
                context,
            };
            asking
                .agreement("I have opened it and am done", json!(null))
                .await
        }
        _ => return Err("a question of a kind that is not known".to_owned()),
    };
    Ok(match asked {
        Asked::Answered(Value::Null) => ElicitResult::new(ElicitationAction::Accept),
        Asked::Answered(content) => {
            ElicitResult::new(ElicitationAction::Accept).with_content(content)
        }
        Asked::Declined => ElicitResult::new(ElicitationAction::Decline),
        Asked::Nobody => ElicitResult::new(ElicitationAction::Cancel),
    })
}

/// Who asks, and that the answer leaves the session: a form is no place for
/// secrets, says the protocol.
fn form_intro(server: &ServerName, message: &str) -> String {
    let message = shortened(plain(message).trim(), FORM_TEXT_BYTES);
    format!(
        "The MCP server `{server}` asks, and gets the answer (give it no passwords, keys or \
         tokens): {message}"
    )
}

/// An address is shown whole, with its host, and never opened from here.
fn address_intro(server: &ServerName, message: &str, address: &str) -> Result<String, String> {
    let parsed = Url::parse(address).map_err(|error| format!("its address: {error}"))?;
    let host = parsed.host_str().unwrap_or_default();
    let is_web = matches!(parsed.scheme(), "https" | "http") && !host.is_empty();
    if !is_web || parsed.as_str().len() > FORM_ADDRESS_BYTES {
        return Err(format!(
            "only addresses of the web of at most {FORM_ADDRESS_BYTES} bytes are shown"
        ));
    }
    let message = shortened(plain(message).trim(), FORM_TEXT_BYTES / 2);
    let other_letters = match host.split('.').any(|label| label.starts_with("xn--")) {
        true => ", which is written in letters that can be mistaken for others",
        false => "",
    };
    Ok(format!(
        "The MCP server `{server}` asks you to open an address of {host}{other_letters}: \
         {message}\n{parsed}\nOpen it yourself if you trust it; nothing has been opened."
    ))
}

/// What came of a question.
enum Asked {
    Answered(Value),
    Declined,
    Nobody,
}

/// A question of a server, as it is put to a person.
struct Asking<'a> {
    intro: String,
    context: &'a ToolContext,
}

impl Asking<'_> {
    async fn form(&self, form: &Form) -> Asked {
        if form.fields.is_empty() {
            return self.agreement("yes", json!({})).await;
        }
        let mut values: Vec<Option<Value>> = Vec::new();
        let mut answered = false;
        for fields in form.fields.chunks(QUESTIONS) {
            match self.fields(fields, values.is_empty()).await {
                Ok((taken, any)) => {
                    values.extend(taken);
                    answered |= any;
                }
                Err(asked) => return asked,
            }
        }
        match form.content(&values) {
            Some(content) if answered => Asked::Answered(content),
            _ => Asked::Declined,
        }
    }

    /// Asks for fields until each answer fits, and says whether any was
    /// answered.
    async fn fields(
        &self,
        fields: &[Field],
        first: bool,
    ) -> Result<(Vec<Option<Value>>, bool), Asked> {
        let mut problem: Option<String> = None;
        for _ in 0..FORM_TRIES {
            let mut questions: Vec<Question> = fields.iter().map(Field::question).collect();
            if let Some(question) = questions.first_mut() {
                let mut intro = Vec::new();
                intro.extend(problem.take().map(|it| format!("That was no answer. {it}")));
                intro.extend(first.then(|| self.intro.clone()));
                intro.push(std::mem::take(&mut question.question));
                question.question = intro.join("\n");
            }
            let responses = self.ask(questions).await?;
            let values: Result<Vec<_>, String> = fields
                .iter()
                .zip(&responses)
                .map(|(field, response)| field.value(response))
                .collect();
            match values {
                Ok(values) => return Ok((values, responses.iter().any(|it| !it.skipped))),
                Err(wrong) => problem = Some(wrong),
            }
        }
        Err(Asked::Nobody)
    }

    /// Asks for a yes or no, which stands for `content`.
    async fn agreement(&self, yes: &str, content: Value) -> Asked {
        let option = |id: &str, text: &str| QuestionOption {
            id: id.to_owned(),
            text: text.to_owned(),
        };
        let question = Question {
            question: self.intro.clone(),
            options: vec![option(ACCEPT, yes), option(DECLINE, "no")],
            is_multi_select: false,
        };
        match self.ask(vec![question]).await {
            Ok(responses) => {
                let chosen = responses
                    .first()
                    .and_then(|it| it.selected_option_ids.as_ref());
                match chosen.and_then(|it| it.first()).map(String::as_str) {
                    Some(ACCEPT) => Asked::Answered(content),
                    _ => Asked::Declined,
                }
            }
            Err(asked) => asked,
        }
    }

    async fn ask(&self, mut questions: Vec<Question>) -> Result<Vec<QuestionResponse>, Asked> {
        for question in &mut questions {
            if question.question.chars().count() > QUESTION_CHARS {
                question.question = question.question.chars().take(QUESTION_CHARS).collect();
            }
        }
        match self.context.ask(questions).await {
            Ok(answers) if matches!(answers.by, ResolvedBy::User | ResolvedBy::Handler) => {
                Ok(answers.responses)
            }
            Ok(_) => Err(Asked::Nobody),
            Err(error) => {
                tracing::debug!(%error, "a question of an MCP server is not asked");
                Err(Asked::Nobody)
            }
        }
    }
}
