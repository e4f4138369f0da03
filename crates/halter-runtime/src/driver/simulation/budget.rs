//! The ledger of the simulated world: limits so tight that calls run into
//! them, models that never use more than was reserved, and a log from which a
//! process that crashed goes on.

use super::Simulation;
use super::agenda::What;
use super::checks::Violation;
use super::dice::Dice;
use crate::budget::{
    AccountId, BudgetsInForce, Granted, HarnessBudget, Ledger, ReservationId, WorstCase,
};
use crate::engine::{Effect, EffectId, Input, SessionFacts};
use halter_protocol::{
    Budget, BudgetScope, Prices, SessionBudget, SessionEventPayload, SessionState, Spending,
    TurnId, Usage,
};
use std::collections::HashMap;

const PRICES: Prices = Prices {
    input: 3,
    cache_read: 1,
    cache_write: 4,
    output: 15,
};

/// Tokens of a request, of which models here never use more.
const INPUT: u64 = 1_000;

/// Tokens of an answer that nobody limits.
const OUTPUT: u64 = 4_000;

const NEVER_CANCELLED: EffectId = EffectId(u64::MAX);

/// What the harness of a schedule may spend.
pub(super) fn harness(dice: &mut Dice) -> HarnessBudget {
    match dice.chance(30) {
        false => HarnessBudget::default(),
        true => HarnessBudget {
            session: session(dice),
            harness: budget(dice, 4),
        },
    }
}

pub(super) fn session(dice: &mut Dice) -> SessionBudget {
    SessionBudget {
        session: budget(dice, 3),
        turn: budget(dice, 1),
    }
}

fn budget(dice: &mut Dice, turns: u64) -> Budget {
    let mut limit = |most: u64| dice.chance(30).then(|| dice.below(turns * most));
    Budget {
        tokens: limit(12_000),
        cost: limit(120_000),
        model_calls: limit(8),
        tool_calls: limit(8),
        wall_ms: limit(2_000),
    }
}

/// What a driver knows of budgets.
pub(super) struct Books {
    ledger: Ledger,
    harness: HarnessBudget,
    session: AccountId,
    turn: Option<(TurnId, AccountId)>,
    reserved: HashMap<EffectId, ReservationId>,
    limits: BudgetsInForce,
    changed: bool,
}

impl Books {
    pub fn open(facts: &SessionFacts, state: &SessionState) -> Self {
        let own = state.budget.unwrap_or(facts.blueprint.budget);
        let limits = facts.budget.of_session(own);
        let mut ledger = Ledger::new(limits.harness);
        let scope = BudgetScope::Session;
        let session = ledger.open(Ledger::HARNESS, scope, limits.session, state.spent);
        Self {
            ledger,
            harness: facts.budget,
            session,
            turn: None,
            reserved: HashMap::new(),
            limits,
            changed: state.budget.is_some(),
        }
    }

    /// The budgets of the harness, which a process that crashed starts with
    /// again.
    pub fn harness(&self) -> HarnessBudget {
        self.harness
    }

    fn account(&mut self, turn: Option<&TurnId>) -> AccountId {
        let Some(wanted) = turn else {
            return self.session;
        };
        match &self.turn {
            Some((known, account)) if known == wanted => *account,
            _ => {
                let limits = self.limits.turn;
                let (scope, spent) = (BudgetScope::Turn, Spending::default());
                let account = self.ledger.open(self.session, scope, limits, spent);
                self.turn = Some((wanted.clone(), account));
                account
            }
        }
    }
}

impl Simulation {
    /// Reserves and charges as a driver does.
    pub(super) fn keep_books(&mut self, effect: Effect) -> Result<(), Violation> {
        let books = &mut self.books;
        let answer = match effect {
            Effect::ReserveModelCall {
                id,
                turn_id,
                unbilled,
                ..
            } => {
                let account = books.account(Some(&turn_id));
                let reserved = books.ledger.reserve(account, model_call(), unbilled);
                let harness = books.ledger.standing(Ledger::HARNESS);
                let granted = reserved.map(|grant| {
                    books.reserved.insert(id, grant.reservation);
                    let lowered = grant.output_tokens < OUTPUT;
                    Granted {
                        input_tokens: INPUT,
                        prices: Some(PRICES),
                        output_limit: lowered.then_some(grant.output_tokens as u32),
                        harness,
                    }
                });
                self.report.refused_calls += usize::from(granted.is_err());
                (id, Input::ModelCallReserved { id, granted })
            }
            Effect::ReserveToolCall {
                id,
                turn_id,
                unbilled,
            } => {
                let account = books.account(Some(&turn_id));
                let reserved = books.ledger.reserve(account, WorstCase::ToolCall, unbilled);
                let granted = reserved.map(|grant| {
                    books.reserved.insert(id, grant.reservation);
                });
                self.report.refused_calls += usize::from(granted.is_err());
                (id, Input::ToolCallReserved { id, granted })
            }
            Effect::Charge {
                reservation,
                turn_id,
                charge,
            } => {
                let reserved = reservation.and_then(|id| books.reserved.remove(&id));
                match reserved {
                    Some(reserved) => books.ledger.settle(reserved, charge),
                    None if reservation.is_some() => {
                        return Err(self.violation("a reservation is settled once"));
                    }
                    None => {
                        let account = books.account(turn_id.as_ref());
                        books.ledger.charge(account, charge);
                    }
                }
                return Ok(());
            }
            Effect::SetBudget(budget) => {
                books.changed = true;
                books.limits = books.harness.of_session(budget);
                books.ledger.set_limits(books.session, books.limits.session);
                if let Some((_, turn)) = &books.turn {
                    books.ledger.set_limits(*turn, books.limits.turn);
                }
                return Ok(());
            }
            _ => return Ok(()),
        };
        let delay = self.dice.below(5);
        self.schedule_in(delay, What::Outcome(answer.0, answer.1));
        Ok(())
    }

    /// Pays for a summary, if there is room for it.
    pub(super) fn pay_summary(&mut self, usage: &Usage, delay: u64) {
        let books = &mut self.books;
        if usage.is_zero() || !books.limits.any() {
            return;
        }
        let account = match &books.turn {
            Some((_, turn)) if self.engine.live_turn().is_some() => *turn,
            _ => books.session,
        };
        let Ok(grant) = books
            .ledger
            .reserve(account, model_call(), Spending::default())
        else {
            return;
        };
        let charge = Spending::of_call(usage);
        books.ledger.settle(grant.reservation, charge);
        // Whoever cancels the compaction pays for it all the same.
        let spent = What::Outcome(NEVER_CANCELLED, Input::Spent { charge });
        self.schedule_in(delay, spent);
    }

    /// What is in the ledger is in the log, nothing stays reserved, and no
    /// limit was passed.
    pub(super) fn check_books(&mut self) -> Result<(), Violation> {
        let warned = |payload: &SessionEventPayload| {
            matches!(payload, SessionEventPayload::BudgetWarning(_))
        };
        let warnings = self.log.iter().filter(|it| warned(&it.payload)).count();
        self.report.budget_warnings += warnings;
        let books = &self.books;
        let reserved = books.ledger.reserved(Ledger::HARNESS);
        if !books.reserved.is_empty() || !reserved.is_zero() {
            return Err(self.violation("what was reserved returns"));
        }
        let known = books.ledger.spent(books.session);
        let logged = self.folded.spent;
        // What a store that fails loses was spent all the same.
        if self.report.crashes == 0 && !self.store_failed && known != logged {
            let promise = format!("the ledger is the log: {known:?}, {logged:?}");
            return Err(self.violation(promise));
        }
        let past = books.ledger.standing(books.session).into_iter();
        let harness = books.ledger.standing(Ledger::HARNESS);
        let passed = past.chain(harness).find(|it| {
            it.resource != halter_protocol::BudgetResource::WallTime && it.spent > it.limit
        });
        match passed.filter(|_| !books.changed) {
            Some(limit) => Err(self.violation(format!("no limit is passed: {limit}"))),
            None => Ok(()),
        }
    }
}

fn model_call() -> WorstCase {
    WorstCase::ModelCall {
        input_tokens: INPUT,
        output_tokens: OUTPUT,
        prices: Some(PRICES),
    }
}
