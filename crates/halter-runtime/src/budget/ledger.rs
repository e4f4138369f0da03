//! The ledger: accounts in a tree, what they may spend, what they have spent,
//! and what is reserved for calls under way.
//!
//! An account is charged with whatever is charged to those below it, so a
//! limit anywhere above a call holds for it. Before a call its worst case is
//! reserved in all of these accounts; afterwards the reservation returns and
//! what was really used is charged. As long as no call uses more than was
//! reserved for it, no account spends more than its limit.

use crate::limits::LEAST_OUTPUT_TOKENS;
use halter_protocol::{Budget, BudgetLeft, BudgetResource, BudgetScope, Prices, Spending};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Names an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(u64);

/// Names a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReservationId(u64);

/// What a call may come to at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorstCase {
    /// A request to a model.
    ModelCall {
        /// Tokens of the request, estimated.
        input_tokens: u64,
        /// Tokens that the answer may have.
        output_tokens: u64,
        /// What they cost, where that is known.
        prices: Option<Prices>,
    },
    /// A call of a tool.
    ToolCall,
}

/// A call may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// Names what was reserved.
    pub reservation: ReservationId,
    /// Tokens that the answer of a model may have: fewer than asked for if no
    /// more fit.
    pub output_tokens: u64,
}

/// A limit that a call does not fit into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortage {
    /// The limit, and what was spent of it.
    pub limit: BudgetLeft,
    /// What other calls under way have reserved.
    pub reserved: u64,
    /// The least that the call needs.
    pub needed: u64,
}

/// All accounts of a harness.
#[derive(Debug, Clone)]
pub struct Ledger {
    accounts: BTreeMap<AccountId, Account>,
    reservations: BTreeMap<ReservationId, ReservedAmount>,
    next: u64,
}

#[derive(Debug, Clone)]
struct Account {
    parent: Option<AccountId>,
    scope: BudgetScope,
    limits: Budget,
    spent: Spending,
    reserved: Spending,
}

#[derive(Debug, Clone)]
struct ReservedAmount {
    account: AccountId,
    amount: Spending,
    /// What of it is for attempts that failed.
    lost: Spending,
}

impl Ledger {
    /// The account of the harness itself.
    pub const HARNESS: AccountId = AccountId(0);

    /// A ledger whose harness may spend so much.
    pub fn new(limits: Budget) -> Self {
        let harness = Account {
            parent: None,
            scope: BudgetScope::Harness,
            limits,
            spent: Spending::default(),
            reserved: Spending::default(),
        };
        Self {
            accounts: BTreeMap::from([(Self::HARNESS, harness)]),
            reservations: BTreeMap::new(),
            next: 1,
        }
    }

    /// Opens an account below another. What it has `spent` already was spent
    /// earlier: it is charged to no other account again.
    pub fn open(
        &mut self,
        parent: AccountId,
        scope: BudgetScope,
        limits: Budget,
        spent: Spending,
    ) -> AccountId {
        let id = AccountId(self.number());
        let account = Account {
            parent: Some(parent),
            scope,
            limits,
            spent,
            reserved: Spending::default(),
        };
        self.accounts.insert(id, account);
        id
    }

    /// Gives an account other limits. What is spent stays spent.
    pub fn set_limits(&mut self, id: AccountId, limits: Budget) {
        if let Some(account) = self.accounts.get_mut(&id) {
            account.limits = limits;
        }
    }

    /// Closes an account. What was reserved for it returns; what it spent stays
    /// with those above it.
    pub fn close(&mut self, id: AccountId) {
        let own = self.reservations.iter().filter(|(_, it)| it.account == id);
        let own: Vec<ReservationId> = own.map(|(reservation, _)| *reservation).collect();
        own.into_iter().for_each(|it| self.release(it));
        let closed = self.accounts.remove(&id);
        // Those below it go on below the one above it: no limit above is lost.
        let above = closed.and_then(|it| it.parent);
        for account in self.accounts.values_mut() {
            if account.parent == Some(id) {
                account.parent = above;
            }
        }
    }

    /// Reserves the worst case of a call in an account and all above it.
    /// `unbilled` was spent meanwhile and is not charged yet.
    ///
    /// # Errors
    /// If it does not fit, even with the shortest answer that is worth asking
    /// for.
    pub fn reserve(
        &mut self,
        id: AccountId,
        worst: WorstCase,
        unbilled: Spending,
    ) -> Result<Grant, Shortage> {
        let (input, wanted) = match worst {
            WorstCase::ModelCall {
                input_tokens,
                output_tokens,
                ..
            } => (input_tokens, output_tokens),
            WorstCase::ToolCall => (0, 0),
        };
        let least = amount(worst, wanted.min(LEAST_OUTPUT_TOKENS));
        let chain = self.chain(id);
        for account in chain.iter().filter_map(|id| self.accounts.get(id)) {
            if let Some(shortage) = account.shortage(least, unbilled) {
                return Err(shortage);
            }
        }
        let fits = |account: &Account| account.output_that_fits(input, worst, unbilled);
        let accounts = chain.iter().filter_map(|id| self.accounts.get(id));
        let output_tokens = accounts.map(fits).fold(wanted, u64::min);
        let reserved = amount(worst, output_tokens);
        for id in chain {
            if let Some(account) = self.accounts.get_mut(&id) {
                account.reserved = account.reserved.plus(reserved);
            }
        }
        let reservation = ReservationId(self.number());
        self.reservations.insert(
            reservation,
            ReservedAmount {
                account: id,
                amount: reserved,
                lost: Spending::default(),
            },
        );
        Ok(Grant {
            reservation,
            output_tokens,
        })
    }

    /// Reserves more for a call whose failed attempts used `lost` together, so
    /// that another one has its worst case before it again. False if that does
    /// not fit.
    pub fn extend(&mut self, reservation: ReservationId, lost: Spending) -> bool {
        let Some(known) = self.reservations.get(&reservation) else {
            return true;
        };
        let (account, more) = (known.account, lost.minus(known.lost));
        let chain = self.chain(account);
        let accounts = chain.iter().filter_map(|id| self.accounts.get(id));
        let none = Spending::default();
        if accounts
            .map(|it| it.shortage(more, none))
            .any(|it| it.is_some())
        {
            return false;
        }
        for id in chain {
            if let Some(account) = self.accounts.get_mut(&id) {
                account.reserved = account.reserved.plus(more);
            }
        }
        if let Some(known) = self.reservations.get_mut(&reservation) {
            known.amount = known.amount.plus(more);
            known.lost = known.lost.plus(more);
        }
        true
    }

    /// Charges what a call used, and lets what was reserved for it return.
    pub fn settle(&mut self, reservation: ReservationId, spent: Spending) {
        let account = self.reservations.get(&reservation).map(|it| it.account);
        self.release(reservation);
        if let Some(account) = account {
            self.charge(account, spent);
        }
    }

    /// Lets what was reserved return.
    pub fn release(&mut self, reservation: ReservationId) {
        let Some(reservation) = self.reservations.remove(&reservation) else {
            return;
        };
        for id in self.chain(reservation.account) {
            if let Some(account) = self.accounts.get_mut(&id) {
                account.reserved = account.reserved.minus(reservation.amount);
            }
        }
    }

    /// Charges an account and all above it. The time of a session that another
    /// session waits for is that of the other already.
    pub fn charge(&mut self, id: AccountId, mut spent: Spending) {
        let mut sessions = 0;
        for id in self.chain(id) {
            let Some(account) = self.accounts.get_mut(&id) else {
                continue;
            };
            // The turn that another session was started in.
            let of_other = sessions > 0 && account.scope == BudgetScope::Turn;
            sessions += usize::from(account.scope == BudgetScope::Session);
            if sessions > 1 || of_other {
                spent.wall_ms = 0;
            }
            account.spent = account.spent.plus(spent);
        }
    }

    /// What an account has spent.
    pub fn spent(&self, id: AccountId) -> Spending {
        self.accounts
            .get(&id)
            .map(|it| it.spent)
            .unwrap_or_default()
    }

    /// What is reserved in an account.
    pub fn reserved(&self, id: AccountId) -> Spending {
        let account = self.accounts.get(&id);
        account.map(|it| it.reserved).unwrap_or_default()
    }

    /// How the limits of an account stand.
    pub fn standing(&self, id: AccountId) -> Vec<BudgetLeft> {
        let account = self.accounts.get(&id);
        account.map(Account::standing).unwrap_or_default()
    }

    /// How many accounts there are, that of the harness included.
    pub fn accounts(&self) -> usize {
        self.accounts.len()
    }

    /// The account and all above it.
    fn chain(&self, id: AccountId) -> Vec<AccountId> {
        let parent = |id: &AccountId| self.accounts.get(id)?.parent;
        std::iter::successors(Some(id), parent).collect()
    }

    fn number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }
}

impl Account {
    fn standing(&self) -> Vec<BudgetLeft> {
        BudgetLeft::of(&self.scope, &self.limits, &self.spent)
    }

    /// What is neither spent nor reserved.
    fn free(&self, limit: &BudgetLeft, unbilled: Spending) -> u64 {
        let resource = &limit.resource;
        limit
            .left()
            .saturating_sub(self.reserved.of(resource))
            .saturating_sub(unbilled.of(resource))
    }

    /// The first limit that does not leave `needed`. Time is not reserved: a
    /// call may start as long as some is left.
    fn shortage(&self, needed: Spending, unbilled: Spending) -> Option<Shortage> {
        self.standing().into_iter().find_map(|limit| {
            let needed = match limit.resource {
                BudgetResource::WallTime => 1,
                _ => needed.of(&limit.resource),
            };
            let is_short = self.free(&limit, unbilled) < needed;
            is_short.then(|| Shortage {
                reserved: self.reserved.of(&limit.resource),
                needed,
                limit: BudgetLeft {
                    spent: limit.spent.saturating_add(unbilled.of(&limit.resource)),
                    ..limit
                },
            })
        })
    }

    /// The longest answer that what is left pays for.
    fn output_that_fits(&self, input: u64, worst: WorstCase, unbilled: Spending) -> u64 {
        let mut most = u64::MAX;
        for limit in self.standing() {
            let free = self.free(&limit, unbilled);
            let fits = match (&limit.resource, worst) {
                (BudgetResource::Tokens, _) => free.saturating_sub(input),
                (
                    BudgetResource::Cost,
                    WorstCase::ModelCall {
                        prices: Some(prices),
                        ..
                    },
                ) => {
                    let input = amount(worst, 0).cost;
                    let left = free.saturating_sub(input);
                    left.checked_div(prices.output).unwrap_or(u64::MAX)
                }
                _ => u64::MAX,
            };
            most = most.min(fits);
        }
        most
    }
}

/// What a call comes to whose answer has so many tokens. All of the request may
/// have to be read afresh, or written to a cache.
fn amount(worst: WorstCase, output: u64) -> Spending {
    match worst {
        WorstCase::ToolCall => Spending {
            tool_calls: 1,
            ..Spending::default()
        },
        WorstCase::ModelCall {
            input_tokens,
            prices,
            ..
        } => {
            let cost = prices.map_or(0, |prices| {
                let dearest = prices.input.max(prices.cache_write).max(prices.cache_read);
                let input = input_tokens.saturating_mul(dearest);
                input.saturating_add(output.saturating_mul(prices.output))
            });
            Spending {
                tokens: input_tokens.saturating_add(output),
                cost,
                model_calls: 1,
                ..Spending::default()
            }
        }
    }
}
