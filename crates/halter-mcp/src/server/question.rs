//! Approvals as forms that a host shows to whoever sits there.

use crate::limits::QUESTION_BYTES;
use halter_protocol::{ApprovalAnswer, ApprovalChoice, ApprovalRequest};
use rmcp::model::{
    ClientCapabilities, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
};
use serde_json::{Value, json};

/// The field of the form that decides.
const DECISION: &str = "decision";

/// True if the host can show a form.
pub(super) fn can_ask(capabilities: Option<&ClientCapabilities>) -> bool {
    let elicitation = capabilities.and_then(|it| it.elicitation.as_ref());
    // A host that names no mode means forms.
    elicitation.is_some_and(|it| it.form.is_some() || it.url.is_none())
}

/// The answer where nobody can be asked.
pub(super) fn nobody(request: &ApprovalRequest) -> ApprovalAnswer {
    let rule = match request.rule() {
        Some(rule) => format!("; it would run with the permission rule `{rule}`"),
        None => String::new(),
    };
    ApprovalAnswer::deny(format!(
        "a person has to approve this, and the host cannot ask one{rule}"
    ))
}

/// The form for a request.
///
/// # Errors
/// If it is longer than a host should show: nobody approves what they cannot
/// see whole.
pub(super) fn form(request: &ApprovalRequest) -> Result<ElicitRequestParams, ApprovalAnswer> {
    let message = text(request);
    if message.len() > QUESTION_BYTES {
        return Err(ApprovalAnswer::deny(
            "the call is too long to be shown to a person over the host",
        ));
    }
    let schema = json!({
        "type": "object",
        "properties": {
            DECISION: {
                "type": "string",
                "title": "Decision",
                "description": "once: this call runs; session: also what is like it, in this \
                    session; deny: it does not run",
                "enum": choices(request),
            },
            "reason": {
                "type": "string",
                "title": "Reason",
                "description": "with deny: why, for the agent to read",
            },
        },
        "required": [DECISION],
    });
    let schema: ElicitationSchema = serde_json::from_value(schema)
        .map_err(|error| ApprovalAnswer::deny(format!("the form cannot be made: {error}")))?;
    Ok(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema: schema,
    })
}

/// What may be chosen over a host: nothing that holds for good.
fn choices(request: &ApprovalRequest) -> Vec<&str> {
    let offered = request.choices.iter();
    offered
        .filter(|choice| **choice != ApprovalChoice::Always)
        .map(|choice| choice.as_str())
        .collect()
}

fn text(request: &ApprovalRequest) -> String {
    let call = &request.call;
    let mut text = format!("Allow {} {}?", call.name, call.arguments);
    if !request.objection.message.is_empty() {
        text.push_str(&format!("\nAsked because: {}", request.objection.message));
    }
    if let Some(rule) = request.rule() {
        text.push_str(&format!("\nsession covers: {rule}"));
    }
    if let Some(diff) = &request.diff {
        text.push_str(&format!("\n{diff}"));
    }
    text
}

/// What the filled form decides. Whatever is not clearly a yes is a no.
pub(super) fn answer(request: &ApprovalRequest, result: &ElicitResult) -> ApprovalAnswer {
    let field = |name| result.content.as_ref()?.get(name)?.as_str();
    match result.action {
        ElicitationAction::Accept => {}
        ElicitationAction::Cancel => return ApprovalAnswer::deny("the question was dismissed"),
        _ => return ApprovalAnswer::deny("the user declined"),
    }
    let chosen = field(DECISION).filter(|chosen| choices(request).contains(chosen));
    match chosen {
        Some(chosen) if chosen == ApprovalChoice::Deny.as_str() => ApprovalAnswer {
            reason: field("reason").map(str::to_owned),
            ..ApprovalChoice::Deny.into()
        },
        Some(chosen) => ApprovalChoice::from(chosen).into(),
        None => ApprovalAnswer::deny("the host sent no decision that was offered"),
    }
}

/// The same for an answer as raw JSON.
pub(super) fn answer_of(request: &ApprovalRequest, result: Value) -> ApprovalAnswer {
    match serde_json::from_value::<ElicitResult>(result) {
        Ok(result) => answer(request, &result),
        Err(error) => ApprovalAnswer::deny(format!("the host's answer cannot be read: {error}")),
    }
}
