//! What calls are charged to a turn and its session, and how a limit ends a
//! turn.
//!
//! The ledger, which other sessions share, lies with the driver: it is asked
//! before a call and told what was spent. What is spent is in the log, so that
//! the next process goes on with it.

use super::turn::{Ending, Phase};
use super::{Effect, EffectId, Engine, SystemNote};
use crate::budget::{BudgetsInForce, Granted, Shortage, exceeded, is_near, warning_for_model};
use halter_protocol::{
    BudgetLeft, BudgetScope, SessionBudget, SessionEventPayload, Spending, Timestamp, Usage,
};

/// What a turn has spent.
#[derive(Debug)]
pub(super) struct TurnAccount {
    spent: Spending,
    /// Up to when its time is charged.
    charged_until: Timestamp,
    /// Since when it waits for a person.
    waits_since: Option<Timestamp>,
}

impl TurnAccount {
    pub fn opened(at: Timestamp) -> Self {
        Self {
            spent: Spending::default(),
            charged_until: at,
            waits_since: None,
        }
    }

    /// The time that is not charged yet.
    fn unbilled(&self, at: Timestamp) -> Spending {
        let until = self.waits_since.unwrap_or(at);
        Spending {
            wall_ms: millis_between(self.charged_until, until),
            ..Spending::default()
        }
    }

    /// A person is asked: the time until the answer does not count.
    pub fn waits(&mut self, at: Timestamp) {
        self.waits_since.get_or_insert(at);
    }

    pub fn goes_on(&mut self, at: Timestamp) {
        if let Some(since) = self.waits_since.take() {
            let charged = self.unbilled(since).wall_ms;
            let earlier = i64::try_from(charged).unwrap_or(i64::MAX);
            let shifted = at.checked_sub(jiff::SignedDuration::from_millis(earlier));
            self.charged_until = shifted.unwrap_or(at);
        }
    }
}

fn millis_between(from: Timestamp, to: Timestamp) -> u64 {
    let millis = to.as_millisecond().saturating_sub(from.as_millisecond());
    u64::try_from(millis).unwrap_or(0)
}

/// A model call that was let through.
#[derive(Debug)]
pub(super) struct CallGrant {
    /// The effect that reserved it.
    pub reservation: EffectId,
    pub granted: Granted,
    /// The service failed before it said anything.
    pub came_to_nothing: bool,
}

impl Engine {
    /// What is in force.
    pub(super) fn budgets(&self) -> BudgetsInForce {
        let own = self.state.budget.unwrap_or(self.facts.blueprint.budget);
        self.facts.budget.of_session(own)
    }

    pub(super) fn set_budget(&mut self, budget: SessionBudget) {
        self.record(SessionEventPayload::BudgetChanged { budget });
        self.effects.push(Effect::SetBudget(budget));
    }

    pub(super) fn reserve_model_call(&mut self) {
        let id = self.next_effect();
        let at = self.at;
        let Some(turn) = &mut self.turn else { return };
        turn.phase = Phase::Reserving(id);
        self.effects.push(Effect::ReserveModelCall {
            id,
            turn_id: turn.id.clone(),
            model: turn.model.clone(),
            unbilled: turn.account.unbilled(at),
        });
    }

    pub(super) fn model_call_reserved(&mut self, id: EffectId, granted: Result<Granted, Shortage>) {
        let phase = self.turn.as_ref().map(|turn| &turn.phase);
        let is_awaited = matches!(phase, Some(Phase::Reserving(awaited)) if *awaited == id);
        match granted {
            Ok(_) if !is_awaited => self.release(id),
            Err(_) if !is_awaited => {}
            Ok(granted) => {
                self.tell_of_harness(&granted.harness);
                self.send_request(Some(CallGrant {
                    reservation: id,
                    granted,
                    came_to_nothing: false,
                }));
            }
            Err(shortage) => {
                let error = exceeded(&shortage);
                self.record(SessionEventPayload::BudgetExceeded(shortage.limit));
                self.finish_turn(Ending::failed(error));
            }
        }
    }

    /// Reserves a tool call of the live turn.
    pub(super) fn reserve_tool_call(&mut self) -> Option<EffectId> {
        let id = self.next_effect();
        let turn = self.turn.as_ref()?;
        self.effects.push(Effect::ReserveToolCall {
            id,
            turn_id: turn.id.clone(),
            unbilled: turn.account.unbilled(self.at),
        });
        Some(id)
    }

    pub(super) fn charge_tool_call(&mut self, reservation: EffectId) {
        let charge = Spending {
            tool_calls: 1,
            ..Spending::default()
        };
        self.charge(Some(reservation), charge);
    }

    /// Charges a model call: what its service said that it used, and an
    /// estimate of what it did not say.
    pub(super) fn charge_call(&mut self, call: Option<(CallGrant, u64)>, usage: Option<Usage>) {
        let Some((call, output)) = call else { return };
        let nothing_known = usage.is_none_or(|usage| usage.context_tokens() == 0);
        let charge = match call.came_to_nothing && nothing_known {
            true => Spending {
                model_calls: 1,
                ..Spending::default()
            },
            false => call.granted.charge(usage, output),
        };
        self.charge(Some(call.reservation), charge);
    }

    /// Gives back what was reserved for a model call that does not count, or
    /// whose charge cannot be recorded. What it is known to have used stays
    /// used.
    pub(super) fn release_call(&mut self) {
        let step = self.turn.as_mut().and_then(|turn| turn.step_mut());
        if let Some((call, _)) = step.and_then(|step| step.take_grant()) {
            self.release(call.reservation);
        }
    }

    /// Gives back what was reserved and is not needed.
    pub(super) fn release(&mut self, reservation: EffectId) {
        self.push_charge(Some(reservation), Spending::default());
    }

    /// Charges the time of the turn that is not charged yet.
    pub(super) fn charge_time(&mut self) {
        let account = self.turn.as_ref().map(|turn| &turn.account);
        let due = account.is_some_and(|it| it.unbilled(self.at).wall_ms > 0);
        if due && self.budgets().any() {
            self.charge(None, Spending::default());
        }
    }

    /// A summary was paid for; the ledger knows.
    pub(super) fn spent_elsewhere(&mut self, charge: Spending) {
        self.record_charge(charge);
    }

    /// Charges something and the time since the last charge to the live turn.
    fn charge(&mut self, reservation: Option<EffectId>, charge: Spending) {
        let at = self.at;
        let Some(turn) = &mut self.turn else {
            return self.push_charge(reservation, charge);
        };
        let charge = charge.plus(turn.account.unbilled(at));
        turn.account.charged_until = turn.account.waits_since.unwrap_or(at);
        self.push_charge(reservation, charge);
        self.record_charge(charge);
    }

    fn push_charge(&mut self, reservation: Option<EffectId>, charge: Spending) {
        let turn_id = self.turn.as_ref().map(|turn| turn.id.clone());
        self.effects.push(Effect::Charge {
            reservation,
            turn_id,
            charge,
        });
    }

    /// Records a charge, and says so if it brings a limit near.
    fn record_charge(&mut self, charge: Spending) {
        let before = self.standing();
        self.spent = self.spent.plus(charge);
        if let Some(turn) = &mut self.turn {
            turn.account.spent = turn.account.spent.plus(charge);
        }
        let limits = self.standing();
        self.record(SessionEventPayload::BudgetCharged {
            charge,
            limits: limits.clone(),
        });
        for (before, now) in before.into_iter().zip(limits) {
            if is_near(now.limit, now.spent) && !is_near(before.limit, before.spent) {
                self.warn_of(now);
            }
        }
    }

    /// How the limits of the turn and the session stand.
    fn standing(&self) -> Vec<BudgetLeft> {
        let budgets = self.budgets();
        let turn = self.turn.as_ref().map(|turn| turn.account.spent);
        let turn = turn
            .into_iter()
            .flat_map(|spent| BudgetLeft::of(&BudgetScope::Turn, &budgets.turn, &spent));
        let session = BudgetLeft::of(&BudgetScope::Session, &budgets.session, &self.spent);
        turn.chain(session).collect()
    }

    /// Says, once, which limits of the harness are near.
    fn tell_of_harness(&mut self, standing: &[BudgetLeft]) {
        for limit in standing {
            if is_near(limit.limit, limit.spent) && !self.told_of_harness.contains(&limit.resource)
            {
                self.told_of_harness.push(limit.resource.clone());
                self.warn_of(limit.clone());
            }
        }
    }

    /// Tells the user that a limit is near, and the model with its next
    /// messages.
    fn warn_of(&mut self, limit: BudgetLeft) {
        self.words.push(SystemNote::from(warning_for_model(&limit)));
        self.record(SessionEventPayload::BudgetWarning(limit));
    }
}
