//! A session's calls before the ledger that all sessions share.

use super::{Owner, Running};
use crate::budget::{
    AccountId, Grant, Granted, ReservationId, SharedLedger, Shortage, WorstCase, exceeded,
    price_missing,
};
use crate::engine::{EffectId, Input};
use crate::error::HalterError;
use crate::limits::ASSUMED_OUTPUT_TOKENS;
use halter_protocol::{
    BudgetLeft, ModelId, ProviderError, ProviderErrorKind, Spending, TurnId, Usage,
};
use halter_providers::{AttemptBudget, ServedModel};
use std::sync::Arc;
use tokio::sync::mpsc;

impl Owner {
    /// Reserves the worst case of a model call. A model that cannot be resolved
    /// says so when it is asked.
    pub(super) fn reserve_model_call(
        &mut self,
        id: EffectId,
        turn_id: &TurnId,
        model: &ModelId,
        unbilled: Spending,
    ) -> Input {
        let granted = match self.services.models.resolve(model) {
            Ok(served) => self.reserve(id, turn_id, &served, unbilled),
            Err(_) => Ok(Granted::nothing()),
        };
        Input::ModelCallReserved { id, granted }
    }

    fn reserve(
        &mut self,
        id: EffectId,
        turn_id: &TurnId,
        served: &ServedModel,
        unbilled: Spending,
    ) -> Result<Granted, Shortage> {
        let manager = self.services.context_manager.clone();
        let input_tokens = self.with_context(served, |request| manager.size(request).tokens);
        let worst = worst_case(served, input_tokens);
        let grant = self.seat.reserve(Some(turn_id), worst, unbilled)?;
        self.reservations.insert(id, grant.reservation);
        let granted = granted(&grant, worst, self.seat.harness_standing());
        self.paid_attempts = Some(PaidAttempts {
            ledger: self.services.ledger.clone(),
            reservation: grant.reservation,
            granted: granted.clone(),
        });
        Ok(granted)
    }

    pub(super) fn reserve_tool_call(
        &mut self,
        id: EffectId,
        turn_id: &TurnId,
        unbilled: Spending,
    ) -> Input {
        let worst = WorstCase::ToolCall;
        let reserved = self.seat.reserve(Some(turn_id), worst, unbilled);
        let granted = reserved.map(|grant| {
            self.reservations.insert(id, grant.reservation);
        });
        Input::ToolCallReserved { id, granted }
    }

    pub(super) fn charge(
        &mut self,
        reservation: Option<EffectId>,
        turn_id: Option<&TurnId>,
        charge: Spending,
    ) {
        let reserved = reservation.and_then(|id| self.reservations.remove(&id));
        match reserved {
            Some(reservation) => self.seat.settle(reservation, charge),
            None => self.seat.charge(turn_id, charge),
        }
    }

    /// Who pays for what a model is asked beside the conversation; nobody asks
    /// if nothing has a limit.
    pub(super) fn side_account(
        &mut self,
        turn_id: Option<&TurnId>,
        running: &Running,
    ) -> Option<SideAccount> {
        let own = self.engine.state().budget.unwrap_or(self.blueprint.budget);
        if !self.services.ledger.budget().of_session(own).any() {
            return None;
        }
        let (ledger, account) = self.seat.share(turn_id);
        Some(SideAccount {
            ledger,
            account,
            sender: running.outcome_sender.clone(),
        })
    }

    /// Checks that the price of a model is known if money is limited.
    pub(super) fn check_price(&self, served: &ServedModel) -> Result<(), HalterError> {
        let own = self.engine.state().budget.unwrap_or(self.blueprint.budget);
        let limits = self.services.ledger.budget().of_session(own);
        match limits.limit_money() && !has_price(served) {
            true => Err(price_missing(&served.0)),
            false => Ok(()),
        }
    }
}

/// True if it is known what a model costs.
pub(crate) fn has_price((model, provider): &ServedModel) -> bool {
    provider.model_capabilities(model).prices.is_some()
}

/// What a request may come to at most.
pub(super) fn worst_case((model, provider): &ServedModel, input_tokens: u64) -> WorstCase {
    let known = provider.model_capabilities(model);
    let limit = model.max_output_tokens.or(known.output_limit);
    WorstCase::ModelCall {
        input_tokens,
        output_tokens: limit.map_or(ASSUMED_OUTPUT_TOKENS, u64::from),
        prices: known.prices,
    }
}

/// What the engine is told of a grant. An output limit is sent only if it is
/// lower than the one that holds anyway.
pub(super) fn granted(grant: &Grant, worst: WorstCase, harness: Vec<BudgetLeft>) -> Granted {
    let (input_tokens, wanted, prices) = match worst {
        WorstCase::ModelCall {
            input_tokens,
            output_tokens,
            prices,
        } => (input_tokens, output_tokens, prices),
        WorstCase::ToolCall => (0, 0, None),
    };
    let lowered = grant.output_tokens < wanted;
    Granted {
        input_tokens,
        prices,
        output_limit: lowered.then(|| u32::try_from(grant.output_tokens).unwrap_or(u32::MAX)),
        harness,
    }
}

/// Pays for the attempts at a call from what is reserved for it.
#[derive(Debug)]
pub(super) struct PaidAttempts {
    ledger: SharedLedger,
    reservation: ReservationId,
    granted: Granted,
}

impl AttemptBudget for PaidAttempts {
    fn allows_another(&self, lost: &Usage) -> bool {
        let lost = Spending {
            // They are one call, whoever repeats it.
            model_calls: 0,
            ..self.granted.charge(Some(*lost), 0)
        };
        self.ledger.extend(self.reservation, lost)
    }
}

/// The account that what is asked beside the conversation is charged to.
#[derive(Clone)]
pub(super) struct SideAccount {
    ledger: SharedLedger,
    account: AccountId,
    sender: mpsc::UnboundedSender<Input>,
}

impl SideAccount {
    /// Reserves the worst case of a call.
    ///
    /// # Errors
    /// If no room is left for it.
    pub fn reserve(&self, worst: WorstCase) -> Result<PaidCall<'_>, ProviderError> {
        let grant = self.ledger.reserve(self.account, worst);
        let grant = grant.map_err(|shortage| {
            ProviderError::new(exceeded(&shortage).message, ProviderErrorKind::Fatal)
        })?;
        Ok(PaidCall {
            account: self,
            reservation: grant.reservation,
            granted: granted(&grant, worst, Vec::new()),
            usage: None,
        })
    }
}

/// A call beside the engine's, charged when it is dropped: one that was given
/// up may have been paid for.
pub(super) struct PaidCall<'a> {
    account: &'a SideAccount,
    reservation: ReservationId,
    granted: Granted,
    usage: Option<Usage>,
}

impl PaidCall<'_> {
    /// The output limit of the request, if it has to be lower than usual.
    pub fn output_limit(&self) -> Option<u32> {
        self.granted.output_limit
    }

    /// Pays for further attempts.
    pub fn attempts(&self) -> Arc<dyn AttemptBudget> {
        Arc::new(PaidAttempts {
            ledger: self.account.ledger.clone(),
            reservation: self.reservation,
            granted: self.granted.clone(),
        })
    }

    /// The service said what it used.
    pub fn used(&mut self, usage: Usage) {
        self.usage = Some(usage);
    }
}

impl Drop for PaidCall<'_> {
    fn drop(&mut self) {
        let charge = self.granted.charge(self.usage, 0);
        self.account.ledger.settle(self.reservation, charge);
        let _ = self.account.sender.send(Input::Spent { charge });
    }
}
