//! Random trees of accounts, with calls that are retried, cancelled and lost
//! in a crash.

use super::*;
use crate::limits::{BUDGET_WARNING_PERCENT, LEAST_OUTPUT_TOKENS};
use halter_protocol::{BudgetResource, BudgetScope, UsageBuckets};
use proptest::prelude::*;
use std::collections::BTreeMap;

const PRICES: Prices = Prices {
    input: 3,
    cache_read: 1,
    cache_write: 4,
    output: 15,
};

fn call(input_tokens: u64, output_tokens: u64) -> WorstCase {
    WorstCase::ModelCall {
        input_tokens,
        output_tokens,
        prices: Some(PRICES),
    }
}

/// What happens to a tree of sessions.
#[derive(Debug, Clone)]
enum Step {
    /// A session is started below that of the given number.
    Open { parent: usize, limits: Budget },
    /// A session asks to make a call.
    Reserve { session: usize, worst: WorstCase },
    /// The call of that number ends; it used so many percent of what was
    /// reserved for it.
    Settle { call: usize, percent: u64 },
    /// An attempt of the call of that number failed after it used so many
    /// percent of what is reserved for an attempt, and is repeated if that fits.
    Retry { call: usize, percent: u64 },
    /// The call of that number is cancelled before it used anything.
    Cancel { call: usize },
    /// The process dies: what was settled is in the log, and all accounts are
    /// opened anew.
    Crash,
}

fn limits() -> impl Strategy<Value = Budget> {
    let limit = |most: u64| prop::option::of(0..most);
    (limit(40_000), limit(400_000), limit(20), limit(20)).prop_map(
        |(tokens, cost, model_calls, tool_calls)| Budget {
            tokens,
            cost,
            model_calls,
            tool_calls,
            wall_ms: None,
        },
    )
}

fn worst() -> impl Strategy<Value = WorstCase> {
    prop_oneof![
        3 => (0..3_000_u64, 1..8_000_u64).prop_map(|(input, output)| call(input, output)),
        1 => Just(WorstCase::ToolCall),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..8_usize, limits()).prop_map(|(parent, limits)| Step::Open { parent, limits }),
        6 => (0..8_usize, worst()).prop_map(|(session, worst)| Step::Reserve { session, worst }),
        5 => (0..8_usize, 0..=100_u64).prop_map(|(call, percent)| Step::Settle { call, percent }),
        3 => (0..8_usize, 0..=100_u64).prop_map(|(call, percent)| Step::Retry { call, percent }),
        2 => (0..8_usize).prop_map(|call| Step::Cancel { call }),
        1 => Just(Step::Crash),
    ]
}

/// The sessions of a harness as their logs have them, and their ledger.
struct Tree {
    ledger: Ledger,
    sessions: Vec<Session>,
    calls: Vec<Call>,
    harness: Spending,
}

struct Call {
    session: usize,
    grant: Grant,
    /// What is reserved for an attempt.
    attempt: Spending,
    /// What failed attempts used.
    lost: Spending,
}

struct Session {
    parent: Option<usize>,
    limits: Budget,
    account: AccountId,
    /// What its own calls came to, by its log.
    own: Spending,
    /// What its log says that it and those below it came to.
    logged: Spending,
}

fn part(of: Spending, percent: u64) -> Spending {
    let part = |amount: u64| amount * percent / 100;
    Spending {
        tokens: part(of.tokens),
        cost: part(of.cost),
        ..of
    }
}

impl Tree {
    fn new(limits: Budget) -> Self {
        Self {
            ledger: Ledger::new(limits),
            sessions: Vec::new(),
            calls: Vec::new(),
            harness: Spending::default(),
        }
    }

    fn open(&mut self, parent: usize, limits: Budget) {
        let above = self.sessions.get(parent).map(|it| it.account);
        let parent = above.map(|_| parent);
        let above = above.unwrap_or(Ledger::HARNESS);
        let spent = Spending::default();
        let account = self.ledger.open(above, BudgetScope::Session, limits, spent);
        self.sessions.push(Session {
            parent,
            limits,
            account,
            own: spent,
            logged: spent,
        });
    }

    fn reserve(&mut self, session: usize, worst: WorstCase) -> Result<(), TestCaseError> {
        let Some(account) = self.sessions.get(session).map(|it| it.account) else {
            return Ok(());
        };
        let before = self.ledger.reserved(account);
        match self.ledger.reserve(account, worst, Spending::default()) {
            Err(shortage) => prop_assert!(
                shortage.limit.left().saturating_sub(shortage.reserved) < shortage.needed
            ),
            Ok(grant) => {
                if let WorstCase::ModelCall { output_tokens, .. } = worst {
                    prop_assert!(grant.output_tokens <= output_tokens);
                    prop_assert!(grant.output_tokens >= output_tokens.min(LEAST_OUTPUT_TOKENS));
                }
                let reserved = self.ledger.reserved(account).minus(before);
                self.calls.push(Call {
                    session,
                    grant,
                    attempt: reserved,
                    lost: Spending::default(),
                });
            }
        }
        Ok(())
    }

    fn settle(&mut self, call: usize, spent: impl Fn(Spending) -> Spending) {
        if call >= self.calls.len() {
            return;
        }
        let Call {
            session,
            grant,
            attempt,
            lost,
        } = self.calls.remove(call);
        let spent = spent(attempt).plus(lost);
        self.ledger.settle(grant.reservation, spent);
        self.harness = self.harness.plus(spent);
        self.sessions[session].own = self.sessions[session].own.plus(spent);
        let mut above = Some(session);
        while let Some(number) = above {
            self.sessions[number].logged = self.sessions[number].logged.plus(spent);
            above = self.sessions[number].parent;
        }
    }

    fn retry(&mut self, number: usize, percent: u64) {
        let Some(call) = self.calls.get_mut(number) else {
            return;
        };
        let failed = Spending {
            model_calls: 0,
            tool_calls: 0,
            ..part(call.attempt, percent)
        };
        let lost = call.lost.plus(failed);
        match self.ledger.extend(call.grant.reservation, lost) {
            true => call.lost = lost,
            false => self.settle(number, |_| failed),
        }
    }

    fn crash(&mut self) {
        let limits = self.ledger.standing(Ledger::HARNESS);
        let mut harness = Budget::default();
        for limit in limits {
            match limit.resource {
                BudgetResource::Tokens => harness.tokens = Some(limit.limit),
                BudgetResource::Cost => harness.cost = Some(limit.limit),
                BudgetResource::ModelCalls => harness.model_calls = Some(limit.limit),
                _ => harness.tool_calls = Some(limit.limit),
            }
        }
        self.ledger = Ledger::new(harness);
        self.harness = Spending::default();
        self.calls.clear();
        for number in 0..self.sessions.len() {
            let parent = self.sessions[number].parent;
            let above = parent.map_or(Ledger::HARNESS, |it| self.sessions[it].account);
            let session = &self.sessions[number];
            let (limits, spent) = (session.limits, session.logged);
            let account = self.ledger.open(above, BudgetScope::Session, limits, spent);
            self.sessions[number].account = account;
        }
    }

    /// No limit is passed, nothing is reserved but for calls under way, and
    /// what sessions spent adds up to the last billionth.
    fn check(&self) -> Result<(), TestCaseError> {
        let mut reserved: BTreeMap<AccountId, Spending> = BTreeMap::new();
        for call in &self.calls {
            let mut above = Some(call.session);
            let amount = call.attempt.plus(call.lost);
            let harness = reserved.entry(Ledger::HARNESS).or_default();
            *harness = harness.plus(amount);
            while let Some(number) = above {
                let session = &self.sessions[number];
                let sum = reserved.entry(session.account).or_default();
                *sum = sum.plus(amount);
                above = session.parent;
            }
        }
        let all = self.sessions.iter().map(|it| it.account);
        for account in all.chain([Ledger::HARNESS]) {
            for limit in self.ledger.standing(account) {
                prop_assert!(limit.spent <= limit.limit, "{limit}");
            }
            let expected = reserved.get(&account).copied().unwrap_or_default();
            prop_assert_eq!(self.ledger.reserved(account), expected);
        }
        for (number, session) in self.sessions.iter().enumerate() {
            let below = self.sessions.iter().filter(|it| it.parent == Some(number));
            let below = below.map(|it| it.logged).fold(session.own, Spending::plus);
            prop_assert_eq!(self.ledger.spent(session.account), below);
        }
        prop_assert_eq!(self.ledger.spent(Ledger::HARNESS), self.harness);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Settled spend never exceeds a limit, reservations return, and what was
    /// attributed adds up, whatever is retried, cancelled or lost in a crash.
    #[test]
    fn no_tree_of_sessions_spends_more_than_its_limits(
        harness in limits(),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut tree = Tree::new(harness);
        for step in steps {
            match step {
                Step::Open { parent, limits } if tree.sessions.len() < 8 => tree.open(parent, limits),
                Step::Open { .. } => {}
                Step::Reserve { session, worst } => tree.reserve(session, worst)?,
                Step::Settle { call, percent } => tree.settle(call, |all| part(all, percent)),
                Step::Retry { call, percent } => tree.retry(call, percent),
                Step::Cancel { call } => tree.settle(call, |_| Spending::default()),
                Step::Crash => tree.crash(),
            }
            tree.check()?;
        }
        while !tree.calls.is_empty() {
            tree.settle(0, |all| all);
        }
        tree.check()?;
        prop_assert!(tree.ledger.reserved(Ledger::HARNESS).is_zero());
    }
}

#[test]
fn an_answer_is_shortened_before_it_is_refused() {
    let tokens = |limit| Budget {
        tokens: Some(limit),
        ..Budget::default()
    };
    let reserve = |limit| {
        let mut ledger = Ledger::new(tokens(limit));
        ledger.reserve(Ledger::HARNESS, call(1_000, 8_000), Spending::default())
    };
    assert_eq!(reserve(9_000).unwrap().output_tokens, 8_000);
    assert_eq!(reserve(8_999).unwrap().output_tokens, 7_999);
    let least = 1_000 + LEAST_OUTPUT_TOKENS;
    assert_eq!(reserve(least).unwrap().output_tokens, LEAST_OUTPUT_TOKENS);
    let shortage = reserve(least - 1).unwrap_err();
    assert_eq!((shortage.needed, shortage.limit.limit), (least, least - 1));
    // A model that never says that much is not held to it.
    let mut ledger = Ledger::new(tokens(1_100));
    let short = ledger.reserve(Ledger::HARNESS, call(1_000, 100), Spending::default());
    assert_eq!(short.unwrap().output_tokens, 100);
}

#[test]
fn money_shortens_an_answer_too() {
    let budget = Budget {
        cost: Some(4 * 1_000 + 15 * 2_000 + 14),
        ..Budget::default()
    };
    let mut ledger = Ledger::new(budget);
    let grant = ledger.reserve(Ledger::HARNESS, call(1_000, 8_000), Spending::default());
    assert_eq!(grant.unwrap().output_tokens, 2_000);
}

#[test]
fn what_is_reserved_is_not_there_for_others() {
    let budget = Budget {
        model_calls: Some(1),
        ..Budget::default()
    };
    let mut ledger = Ledger::new(budget);
    let none = Spending::default();
    let first = ledger.reserve(Ledger::HARNESS, call(1, 1), none).unwrap();
    let second = ledger.reserve(Ledger::HARNESS, call(1, 1), none);
    assert_eq!(second.unwrap_err().reserved, 1);
    ledger.release(first.reservation);
    assert!(ledger.reserve(Ledger::HARNESS, call(1, 1), none).is_ok());
}

#[test]
fn time_is_not_reserved_and_counts_once() {
    let budget = Budget {
        wall_ms: Some(1_000),
        ..Budget::default()
    };
    let mut ledger = Ledger::new(budget);
    let mut open = |parent| {
        let none = Spending::default();
        ledger.open(parent, BudgetScope::Session, Budget::default(), none)
    };
    let parent = open(Ledger::HARNESS);
    let child = open(parent);
    let wall = |wall_ms| Spending {
        wall_ms,
        ..Spending::default()
    };
    ledger.charge(child, wall(400));
    assert_eq!(ledger.spent(child), wall(400));
    assert!(ledger.spent(parent).is_zero() && ledger.spent(Ledger::HARNESS).is_zero());
    ledger.charge(parent, wall(999));
    assert!(ledger.reserve(parent, WorstCase::ToolCall, wall(0)).is_ok());
    let late = ledger.reserve(parent, WorstCase::ToolCall, wall(1));
    assert_eq!(late.unwrap_err().limit.spent, 1_000);
}

#[test]
fn what_a_service_does_not_say_is_estimated() {
    let granted = Granted {
        input_tokens: 1_000,
        prices: Some(PRICES),
        output_limit: None,
        harness: Vec::new(),
    };
    let estimated = granted.charge(None, 10);
    assert_eq!((estimated.tokens, estimated.cost), (1_010, 3_150));
    assert_eq!(granted.charge(Some(Usage::unknown()), 10), estimated);
    let usage = Usage::from(UsageBuckets {
        uncached_input: 100,
        cache_read: 800,
        output: 4,
        ..UsageBuckets::default()
    });
    // It was cut off: more was seen than the service had counted by then.
    let cut_off = granted.charge(Some(usage), 10);
    assert_eq!((cut_off.tokens, cut_off.cost), (910, 300 + 800 + 150));
}

#[test]
fn a_limit_is_near_at_four_fifths() {
    assert_eq!(BUDGET_WARNING_PERCENT, 80);
    assert!(is_near(1_000, 800) && !is_near(1_000, 799));
    assert!(is_near(u64::MAX, u64::MAX) && is_near(0, 0));
}
