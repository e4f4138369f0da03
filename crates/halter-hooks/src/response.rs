//! What a hook answers.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a hook has to say about a tool call's permission. Ordered by strength:
/// when several hooks answer, the strongest wins.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PermissionDecision {
    /// No opinion.
    #[default]
    Passthrough,
    /// The hook has no objection. Policy still decides.
    Allow,
    /// A person should be asked.
    Ask,
    /// The call must not run.
    Deny,
}

/// A hook's answer, built up from one of three beginnings.
///
/// ```
/// use halter_hooks::HookResponse;
///
/// let quiet = HookResponse::passthrough();
/// let noted = HookResponse::passthrough().with_additional_context("Tests take ten minutes.");
/// let refused = HookResponse::block("the release branch is frozen");
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
#[must_use = "a response acts only when the handler returns it"]
pub struct HookResponse {
    output: HookOutput,
}

/// The parts of an answer as plain data.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct HookOutput {
    /// Why what the event announces must not happen.
    pub block_reason: Option<String>,
    /// Why the whole turn must end.
    pub stop_reason: Option<String>,
    /// The opinion on the call's permission.
    pub permission: PermissionDecision,
    /// Why that opinion.
    pub permission_reason: Option<String>,
    /// Messages for the transcript.
    pub system_messages: Vec<String>,
    /// Context for the model.
    pub additional_context: Vec<String>,
    /// What the tool should be called with instead.
    pub updated_input: Option<Value>,
    /// What the model should see as the tool's result instead.
    pub updated_output: Option<Value>,
    /// Keep the hook's own words out of the run's entries.
    pub suppress_output: bool,
}

impl HookResponse {
    /// No objection, nothing to add.
    pub fn passthrough() -> Self {
        Self::default()
    }

    /// What the event announces must not happen: the prompt is not submitted,
    /// the tool not run, the result not taken at face value, the turn not
    /// ended.
    pub fn block(reason: impl Into<String>) -> Self {
        Self {
            output: HookOutput {
                block_reason: Some(reason.into()),
                ..HookOutput::default()
            },
        }
    }

    /// The whole turn must end. No later hook of the event runs.
    pub fn stop(reason: impl Into<String>) -> Self {
        Self {
            output: HookOutput {
                stop_reason: Some(reason.into()),
                ..HookOutput::default()
            },
        }
    }

    /// Adds a message for the transcript.
    pub fn with_system_message(mut self, message: impl Into<String>) -> Self {
        self.output.system_messages.push(message.into());
        self
    }

    /// Adds context for the model.
    pub fn with_additional_context(mut self, context: impl Into<String>) -> Self {
        self.output.additional_context.push(context.into());
        self
    }

    /// Calls the tool with other arguments. `PreToolUse` only.
    pub fn with_updated_input(mut self, input: Value) -> Self {
        self.output.updated_input = Some(input);
        self
    }

    /// Shows the model another result: a string as text, `null` as no output,
    /// anything else as JSON. `PostToolUse` only.
    pub fn with_updated_output(mut self, output: Value) -> Self {
        self.output.updated_output = Some(output);
        self
    }

    /// Gives an opinion on the call's permission, with or without a reason.
    pub fn with_permission(
        mut self,
        decision: PermissionDecision,
        reason: Option<impl Into<String>>,
    ) -> Self {
        self.output.permission = decision;
        self.output.permission_reason = reason.map(Into::into);
        self
    }

    /// Keeps this hook's messages and context out of the run's entries in the
    /// event stream. They still take effect, and why it blocked or stopped
    /// stays visible.
    pub fn with_suppress_output(mut self, suppress: bool) -> Self {
        self.output.suppress_output = suppress;
        self
    }

    /// The answer as plain data.
    pub fn into_output(self) -> HookOutput {
        self.output
    }
}

/// What a handler may return: a [`HookResponse`], or an
/// `anyhow::Result<HookResponse>` so that `?` works. Sealed.
pub trait IntoHookResponse: sealed::Sealed {
    /// The answer, or why there is none.
    fn into_hook_response(self) -> anyhow::Result<HookResponse>;
}

impl IntoHookResponse for HookResponse {
    fn into_hook_response(self) -> anyhow::Result<HookResponse> {
        Ok(self)
    }
}

impl IntoHookResponse for anyhow::Result<HookResponse> {
    fn into_hook_response(self) -> anyhow::Result<HookResponse> {
        self
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::HookResponse {}
    impl Sealed for anyhow::Result<super::HookResponse> {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn permission_grows_in_strength() {
        use PermissionDecision::{Allow, Ask, Deny, Passthrough};
        assert!(Passthrough < Allow && Allow < Ask && Ask < Deny);
    }

    #[test]
    fn parts_add_up() {
        let output = HookResponse::block("no")
            .with_system_message("a")
            .with_system_message("b")
            .with_additional_context("c")
            .with_updated_input(json!({"x": 1}))
            .with_updated_output(json!("y"))
            .with_permission(PermissionDecision::Ask, Some("sure?"))
            .with_suppress_output(true)
            .into_output();
        assert_eq!(
            output,
            HookOutput {
                block_reason: Some("no".into()),
                stop_reason: None,
                permission: PermissionDecision::Ask,
                permission_reason: Some("sure?".into()),
                system_messages: vec!["a".into(), "b".into()],
                additional_context: vec!["c".into()],
                updated_input: Some(json!({"x": 1})),
                updated_output: Some(json!("y")),
                suppress_output: true,
            }
        );
    }
}
