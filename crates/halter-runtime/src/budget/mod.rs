//! Budgets: what turns, sessions and a harness may spend.
//!
//! | module | holds |
//! |---|---|
//! | `ledger` | accounts in a tree, without I/O or a clock |
//! | `seat` | a session's place in the ledger that all sessions share |
//! | `wording` | how a limit is told to people and models |

mod ledger;
mod seat;
#[cfg(test)]
mod tests;
mod wording;

pub use ledger::{AccountId, Grant, Ledger, ReservationId, Shortage, WorstCase};
pub use seat::SharedLedger;
pub(crate) use seat::{LedgerSeat, price_missing};
pub(crate) use wording::{exceeded, warning_for_model};

use crate::limits::BUDGET_WARNING_PERCENT;
use halter_protocol::{Budget, BudgetLeft, Prices, SessionBudget, Spending, Usage};
use serde::{Deserialize, Serialize};

/// What holds for all sessions of a harness.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HarnessBudget {
    /// What a session may spend that says nothing else.
    pub session: SessionBudget,
    /// What all sessions together may spend while the harness lives.
    pub harness: Budget,
}

impl HarnessBudget {
    /// What is in force for a session with a budget of its own.
    pub fn of_session(&self, own: SessionBudget) -> BudgetsInForce {
        let own = own.or(self.session);
        BudgetsInForce {
            turn: own.turn,
            session: own.session,
            harness: self.harness,
        }
    }
}

/// The budgets that hold for a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BudgetsInForce {
    /// That of each turn.
    pub turn: Budget,
    /// That of the session.
    pub session: Budget,
    /// That of its harness.
    pub harness: Budget,
}

impl BudgetsInForce {
    /// True if anything has a limit.
    pub fn any(&self) -> bool {
        *self != Self::default()
    }

    /// True if a call of a tool may be one too many.
    pub fn limit_tools(&self) -> bool {
        let limits = |it: &Budget| it.tool_calls.is_some() || it.wall_ms.is_some();
        [self.turn, self.session, self.harness].iter().any(limits)
    }

    /// True if money is limited.
    pub fn limit_money(&self) -> bool {
        let limits = |it: &Budget| it.cost.is_some();
        [self.turn, self.session, self.harness].iter().any(limits)
    }
}

/// A model call that the ledger let through, as the engine knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// Tokens of the request, estimated.
    pub input_tokens: u64,
    /// What tokens cost, where that is known.
    pub prices: Option<Prices>,
    /// The output limit of the request, if it has to be lower than usual.
    pub output_limit: Option<u32>,
    /// How the limits of the harness stand.
    pub harness: Vec<BudgetLeft>,
}

impl Granted {
    /// A call for which nothing could be reserved, because it comes to nothing.
    pub(crate) fn nothing() -> Self {
        Self {
            input_tokens: 0,
            prices: None,
            output_limit: None,
            harness: Vec::new(),
        }
    }

    /// What a call is charged. What the service did not say is estimated:
    /// `output` is what was seen of the answer, in tokens.
    pub fn charge(&self, usage: Option<Usage>, output: u64) -> Spending {
        let known = usage.filter(|usage| usage.context_tokens() > 0);
        match known {
            Some(usage) => {
                let unseen = output.saturating_sub(usage.output_tokens);
                let charge = Spending::of_call(&usage);
                let priced = usage.cost.is_some();
                let cost = self.prices.map_or(0, |prices| match priced {
                    true => unseen.saturating_mul(prices.output),
                    false => {
                        let output = unseen.saturating_mul(prices.output);
                        prices.cost(&usage).total().saturating_add(output)
                    }
                });
                charge.plus(Spending {
                    tokens: unseen,
                    cost,
                    ..Spending::default()
                })
            }
            None => Spending {
                tokens: self.input_tokens.saturating_add(output),
                cost: self.prices.map_or(0, |prices| {
                    let input = self.input_tokens.saturating_mul(prices.input);
                    input.saturating_add(output.saturating_mul(prices.output))
                }),
                model_calls: 1,
                ..Spending::default()
            },
        }
    }
}

/// True if so much is spent of a limit that it is time to say so.
pub(crate) fn is_near(limit: u64, spent: u64) -> bool {
    let share = u128::from(limit) * u128::from(BUDGET_WARNING_PERCENT);
    u128::from(spent) * 100 >= share
}
