//! A session's place in the ledger that all sessions of a harness share.

use super::{AccountId, Grant, HarnessBudget, Ledger, ReservationId, Shortage, WorstCase};
use crate::error::HalterError;
use halter_protocol::{
    Budget, BudgetLeft, BudgetScope, ResolvedModel, SessionBudget, SessionId, Spending, TurnId,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The ledger of a harness. Clones share it.
#[derive(Debug, Clone)]
pub struct SharedLedger {
    budget: HarnessBudget,
    inner: Arc<Mutex<Books>>,
}

#[derive(Debug)]
struct Books {
    ledger: Ledger,
    /// The accounts of sessions that live, for those that they start.
    sessions: HashMap<SessionId, AccountId>,
    /// Those of their turns.
    turns: HashMap<SessionId, AccountId>,
}

impl Default for SharedLedger {
    fn default() -> Self {
        Self::new(HarnessBudget::default())
    }
}

impl SharedLedger {
    /// A ledger for these budgets.
    pub fn new(budget: HarnessBudget) -> Self {
        Self {
            budget,
            inner: Arc::new(Mutex::new(Books {
                ledger: Ledger::new(budget.harness),
                sessions: HashMap::new(),
                turns: HashMap::new(),
            })),
        }
    }

    /// The budgets.
    pub fn budget(&self) -> &HarnessBudget {
        &self.budget
    }

    /// How the limits of the harness stand.
    pub fn standing(&self) -> Vec<BudgetLeft> {
        self.lock().ledger.standing(Ledger::HARNESS)
    }

    /// Gives a session its account, below that of the turn, or the session, that
    /// started it if that one lives here.
    pub(crate) fn seat(
        &self,
        session: &SessionId,
        parent: Option<&SessionId>,
        own: SessionBudget,
        spent: Spending,
    ) -> LedgerSeat {
        let limits = self.budget.of_session(own);
        let mut books = self.lock();
        let account_of = |parent: &SessionId| {
            let turn = books.turns.get(parent);
            turn.or_else(|| books.sessions.get(parent)).copied()
        };
        let parent = parent.and_then(account_of);
        let parent = parent.unwrap_or(Ledger::HARNESS);
        let account = books
            .ledger
            .open(parent, BudgetScope::Session, limits.session, spent);
        books.sessions.insert(session.clone(), account);
        drop(books);
        LedgerSeat {
            shared: self.clone(),
            session: session.clone(),
            account,
            turn_limits: limits.turn,
            turn: None,
        }
    }

    pub(crate) fn reserve(&self, account: AccountId, worst: WorstCase) -> Result<Grant, Shortage> {
        let unbilled = Spending::default();
        self.lock().ledger.reserve(account, worst, unbilled)
    }

    pub(crate) fn extend(&self, reservation: ReservationId, lost: Spending) -> bool {
        self.lock().ledger.extend(reservation, lost)
    }

    pub(crate) fn settle(&self, reservation: ReservationId, spent: Spending) {
        self.lock().ledger.settle(reservation, spent);
    }

    /// Consistent whenever the lock is free.
    fn lock(&self) -> MutexGuard<'_, Books> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The account of a session, closed when it is dropped.
#[derive(Debug)]
pub(crate) struct LedgerSeat {
    shared: SharedLedger,
    session: SessionId,
    account: AccountId,
    turn_limits: Budget,
    turn: Option<(TurnId, AccountId)>,
}

impl LedgerSeat {
    /// Another budget is in force.
    pub fn set_budget(&mut self, own: SessionBudget) {
        let limits = self.shared.budget.of_session(own);
        self.turn_limits = limits.turn;
        let mut books = self.shared.lock();
        books.ledger.set_limits(self.account, limits.session);
        if let Some((_, turn)) = &self.turn {
            books.ledger.set_limits(*turn, limits.turn);
        }
    }

    /// The account of a turn, or of the session outside of turns.
    pub fn account(&mut self, turn: Option<&TurnId>) -> AccountId {
        let Some(wanted) = turn else {
            return self.account;
        };
        match &self.turn {
            Some((known, account)) if known == wanted => *account,
            _ => {
                let mut books = self.shared.lock();
                if let Some((_, old)) = self.turn.take() {
                    books.ledger.close(old);
                }
                let spent = Spending::default();
                let scope = BudgetScope::Turn;
                let limits = self.turn_limits;
                let account = books.ledger.open(self.account, scope, limits, spent);
                books.turns.insert(self.session.clone(), account);
                self.turn = Some((wanted.clone(), account));
                account
            }
        }
    }

    /// A turn is over: sessions that it started and that still work are charged
    /// to the session from now on.
    pub fn turn_over(&mut self, over: &TurnId) {
        if self.turn.as_ref().is_some_and(|(turn, _)| turn == over)
            && let Some((_, account)) = self.turn.take()
        {
            let mut books = self.shared.lock();
            books.turns.remove(&self.session);
            books.ledger.close(account);
        }
    }

    /// Reserves the worst case of a call for a turn, or outside of turns.
    pub fn reserve(
        &mut self,
        turn: Option<&TurnId>,
        worst: WorstCase,
        unbilled: Spending,
    ) -> Result<Grant, Shortage> {
        let account = self.account(turn);
        self.shared.lock().ledger.reserve(account, worst, unbilled)
    }

    pub fn settle(&self, reservation: ReservationId, spent: Spending) {
        self.shared.settle(reservation, spent);
    }

    pub fn charge(&mut self, turn: Option<&TurnId>, spent: Spending) {
        let account = self.account(turn);
        self.shared.lock().ledger.charge(account, spent);
    }

    /// The ledger and the account of a turn, for a call beside the engine's.
    pub fn share(&mut self, turn: Option<&TurnId>) -> (SharedLedger, AccountId) {
        (self.shared.clone(), self.account(turn))
    }

    pub fn harness_standing(&self) -> Vec<BudgetLeft> {
        self.shared.standing()
    }
}

impl Drop for LedgerSeat {
    fn drop(&mut self) {
        let mut books = self.shared.lock();
        if let Some((_, turn)) = self.turn.take() {
            books.turns.remove(&self.session);
            books.ledger.close(turn);
        }
        books.ledger.close(self.account);
        if books.sessions.get(&self.session) == Some(&self.account) {
            books.sessions.remove(&self.session);
        }
    }
}

/// The error of a model without a known price where money is limited.
pub(crate) fn price_missing(model: &ResolvedModel) -> HalterError {
    let (provider, name) = (&model.provider, &model.model);
    let message =
        format!("money is limited and nobody knows what the model '{name}' of '{provider}' costs");
    let key = format!("providers.{provider}.models.\"{name}\".prices");
    HalterError::new("budget_needs_price", message).with_hint(format!(
        "set {key} = {{ input = …, output = … }}, in US dollars per million tokens, 0 if it is \
         free; or limit tokens instead"
    ))
}
