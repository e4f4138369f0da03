//! What may be spent, and what was.

use crate::open_enum::open_enum;
use crate::usage::Usage;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What may be spent. What is absent is without a limit.
///
/// ```
/// use halter_protocol::{Budget, BudgetResource};
///
/// let budget = Budget { tokens: Some(100_000), ..Budget::default() }.with_dollars("2.50");
/// assert_eq!(budget.limit(&BudgetResource::Cost), Some(2_500_000_000));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Budget {
    /// Tokens of requests, cached ones included, and of answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money, in billionths of a US dollar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
    /// Requests to models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u64>,
    /// Calls of tools that ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Time that turns take, in milliseconds. Waiting for a person does not
    /// count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
}

impl Budget {
    /// True if nothing has a limit.
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }

    /// The limit of a resource.
    pub fn limit(&self, resource: &BudgetResource) -> Option<u64> {
        match resource {
            BudgetResource::Tokens => self.tokens,
            BudgetResource::Cost => self.cost,
            BudgetResource::ModelCalls => self.model_calls,
            BudgetResource::ToolCalls => self.tool_calls,
            BudgetResource::WallTime => self.wall_ms,
            BudgetResource::Unknown(_) => None,
        }
    }

    /// This budget, and of what it leaves open, the other.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.or(other.tokens),
            cost: self.cost.or(other.cost),
            model_calls: self.model_calls.or(other.model_calls),
            tool_calls: self.tool_calls.or(other.tool_calls),
            wall_ms: self.wall_ms.or(other.wall_ms),
        }
    }

    /// Limits money to so many US dollars, written as a decimal number. Text
    /// that is none sets no limit; see [`dollars`] to find out.
    #[must_use]
    pub fn with_dollars(mut self, text: &str) -> Self {
        self.cost = dollars(text);
        self
    }
}

/// A decimal number of US dollars in billionths of one; none if it is no such
/// number, or has more than nine decimals. No digit goes through a float.
///
/// ```
/// use halter_protocol::budget::dollars;
///
/// assert_eq!(dollars("2"), Some(2_000_000_000));
/// assert_eq!(dollars("0.000000001"), Some(1));
/// assert_eq!((dollars("-1"), dollars("1e3"), dollars(".")), (None, None, None));
/// ```
pub fn dollars(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 9 || (whole.is_empty() && part.is_empty()) {
        return None;
    }
    let number = |text: &str| match text {
        "" => Some(0_u64),
        text => text.parse().ok(),
    };
    let whole = number(whole)?.checked_mul(1_000_000_000)?;
    whole.checked_add(number(&format!("{part:0<9}"))?)
}

/// The budget of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SessionBudget {
    /// What the session may spend in all its turns, with the sessions it
    /// starts.
    #[serde(skip_serializing_if = "Budget::is_unlimited")]
    pub session: Budget,
    /// What each of its turns may spend.
    #[serde(skip_serializing_if = "Budget::is_unlimited")]
    pub turn: Budget,
}

impl SessionBudget {
    /// True if nothing has a limit.
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }

    /// This budget, and of what it leaves open, the other.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            session: self.session.or(other.session),
            turn: self.turn.or(other.turn),
        }
    }
}

/// What was spent, of each resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Spending {
    /// Tokens of requests, cached ones included, and of answers.
    #[serde(skip_serializing_if = "is_zero")]
    pub tokens: u64,
    /// Money, in billionths of a US dollar.
    #[serde(skip_serializing_if = "is_zero")]
    pub cost: u64,
    /// Requests to models.
    #[serde(skip_serializing_if = "is_zero")]
    pub model_calls: u64,
    /// Calls of tools that ran.
    #[serde(skip_serializing_if = "is_zero")]
    pub tool_calls: u64,
    /// Time that turns took, in milliseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub wall_ms: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Spending {
    /// What a model call used. Where no price is known, it cost nothing that
    /// could be counted.
    pub fn of_call(usage: &Usage) -> Self {
        Self {
            tokens: usage.context_tokens(),
            cost: usage.cost.map_or(0, |cost| cost.total()),
            model_calls: 1,
            ..Self::default()
        }
    }

    /// True if nothing was spent.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// How much of a resource.
    pub fn of(&self, resource: &BudgetResource) -> u64 {
        match resource {
            BudgetResource::Tokens => self.tokens,
            BudgetResource::Cost => self.cost,
            BudgetResource::ModelCalls => self.model_calls,
            BudgetResource::ToolCalls => self.tool_calls,
            BudgetResource::WallTime => self.wall_ms,
            BudgetResource::Unknown(_) => 0,
        }
    }

    /// Both together, never overflowing.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    /// What is left of this without the other.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.with(other, u64::saturating_sub)
    }

    fn with(self, other: Self, both: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            tokens: both(self.tokens, other.tokens),
            cost: both(self.cost, other.cost),
            model_calls: both(self.model_calls, other.model_calls),
            tool_calls: both(self.tool_calls, other.tool_calls),
            wall_ms: both(self.wall_ms, other.wall_ms),
        }
    }
}

open_enum! {
    /// What a budget limits.
    pub enum BudgetResource {
        /// Tokens.
        Tokens = "tokens",
        /// Money, in billionths of a US dollar.
        Cost = "cost",
        /// Requests to models.
        ModelCalls = "model_calls",
        /// Calls of tools.
        ToolCalls = "tool_calls",
        /// Time, in milliseconds.
        WallTime = "wall_time",
    }
}

impl BudgetResource {
    /// Every resource, in the order they are documented.
    pub const ALL: [Self; 5] = [
        Self::Tokens,
        Self::Cost,
        Self::ModelCalls,
        Self::ToolCalls,
        Self::WallTime,
    ];

    /// So much of it, in words.
    pub fn amount(&self, amount: u64) -> String {
        let counted = |thing: &str| match amount {
            1 => format!("1 {thing}"),
            amount => format!("{amount} {thing}s"),
        };
        match self {
            Self::Tokens => counted("token"),
            Self::Cost => format!("${}", decimal(amount)),
            Self::ModelCalls => counted("model call"),
            Self::ToolCalls => counted("tool call"),
            Self::WallTime => format!("{} s", amount / 1_000),
            Self::Unknown(name) => format!("{amount} {name}"),
        }
    }
}

/// Billionths as a number with at least two and at most four decimals.
fn decimal(billionths: u64) -> String {
    let rounded = billionths.saturating_add(50_000) / 100_000;
    let text = format!("{}.{:04}", rounded / 10_000, rounded % 10_000);
    match text.strip_suffix("00") {
        Some(short) => short.to_owned(),
        None => text,
    }
}

open_enum! {
    /// Whose budget it is.
    pub enum BudgetScope {
        /// That of one turn.
        Turn = "turn",
        /// That of a session, with the sessions it starts.
        Session = "session",
        /// That of all sessions of a harness, as long as its process lives.
        Harness = "harness",
    }
}

/// How a limit stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct BudgetLeft {
    /// Whose limit it is.
    pub scope: BudgetScope,
    /// What it limits.
    pub resource: BudgetResource,
    /// What was spent; more than the limit if a call used more than was
    /// foreseen.
    pub spent: u64,
    /// The limit.
    pub limit: u64,
}

impl BudgetLeft {
    /// What is left.
    pub fn left(&self) -> u64 {
        self.limit.saturating_sub(self.spent)
    }

    /// How the limits of a budget stand.
    pub fn of(scope: &BudgetScope, budget: &Budget, spent: &Spending) -> Vec<Self> {
        let resources = BudgetResource::ALL.into_iter();
        let limited = resources.filter_map(|resource| {
            Some(Self {
                scope: scope.clone(),
                limit: budget.limit(&resource)?,
                spent: spent.of(&resource),
                resource,
            })
        });
        limited.collect()
    }
}

impl std::fmt::Display for BudgetLeft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let spent = self.resource.amount(self.spent);
        let limit = self.resource.amount(self.limit);
        write!(f, "{spent} of the {}'s {limit}", self.scope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_read_to_the_last_digit() {
        for (text, billionths) in [
            ("2", Some(2_000_000_000)),
            ("0.1", Some(100_000_000)),
            (".5", Some(500_000_000)),
            ("3.", Some(3_000_000_000)),
            ("0.0000000001", None),
            ("99999999999", None),
            ("two", None),
            ("", None),
            ("+1", None),
        ] {
            assert_eq!(dollars(text), billionths, "{text}");
        }
    }

    #[test]
    fn amounts_have_their_unit() {
        let shown = |resource: BudgetResource, amount| resource.amount(amount);
        assert_eq!(shown(BudgetResource::Cost, 2_000_000_000), "$2.00");
        assert_eq!(shown(BudgetResource::Cost, 1_234_567), "$0.0012");
        assert_eq!(shown(BudgetResource::WallTime, 61_500), "61 s");
        assert_eq!(shown(BudgetResource::ToolCalls, 1), "1 tool call");
        let left = BudgetLeft {
            scope: BudgetScope::Session,
            resource: BudgetResource::Tokens,
            spent: 900,
            limit: 1_000,
        };
        assert_eq!(left.to_string(), "900 tokens of the session's 1000 tokens");
        assert_eq!(left.left(), 100);
    }

    #[test]
    fn what_a_budget_leaves_open_comes_from_the_other() {
        let own = Budget {
            tokens: Some(1),
            ..Budget::default()
        };
        let other = Budget {
            tokens: Some(2),
            tool_calls: Some(3),
            ..Budget::default()
        };
        let both = own.or(other);
        assert_eq!(
            (both.tokens, both.tool_calls, both.cost),
            (Some(1), Some(3), None)
        );
        assert_eq!(
            serde_json::to_string(&both).unwrap(),
            r#"{"tokens":1,"tool_calls":3}"#
        );
    }
}
