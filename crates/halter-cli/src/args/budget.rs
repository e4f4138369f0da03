//! What a session may spend, on the command line.

use clap::Args;
use halter_protocol::{Budget, budget::dollars};

/// Limits of a session; those of a continued one are replaced.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Budget")]
pub struct BudgetArgs {
    /// Spend at most this many US dollars in the session
    #[arg(long, value_name = "USD", env = "HALTER_BUDGET_USD", value_parser = usd)]
    pub budget_usd: Option<u64>,
    /// Use at most this many tokens in the session, cached input included
    #[arg(long, value_name = "N", env = "HALTER_BUDGET_TOKENS")]
    pub budget_tokens: Option<u64>,
    /// Make at most this many model calls in the session
    #[arg(long, value_name = "N", env = "HALTER_BUDGET_MODEL_CALLS")]
    pub budget_model_calls: Option<u64>,
    /// Make at most this many tool calls in the session
    #[arg(long, value_name = "N", env = "HALTER_BUDGET_TOOL_CALLS")]
    pub budget_tool_calls: Option<u64>,
    /// Let turns of the session take at most this many seconds together
    #[arg(long, value_name = "SECONDS", env = "HALTER_BUDGET_WALL_SECS")]
    pub budget_wall_secs: Option<u64>,
}

/// US dollars in billionths of one.
fn usd(text: &str) -> Result<u64, String> {
    dollars(text).ok_or_else(|| "write US dollars as a decimal number, such as 2 or 0.50".into())
}

impl BudgetArgs {
    /// The limits.
    pub fn budget(&self) -> Budget {
        Budget {
            tokens: self.budget_tokens,
            cost: self.budget_usd,
            model_calls: self.budget_model_calls,
            tool_calls: self.budget_tool_calls,
            wall_ms: self.budget_wall_secs.map(|secs| secs.saturating_mul(1_000)),
        }
    }
}
