//! What the simulated world makes of effects.

use super::agenda::What;
use super::checks::Violation;
use super::{Simulation, world};
use crate::engine::{Effect, Input, PersonAnswer, PersonRequest};
use halter_protocol::{ResolvedBy, SessionEvent};
use std::sync::Arc;

impl Simulation {
    pub(super) fn take_up(&mut self, effect: Effect) -> Result<(), Violation> {
        match effect {
            Effect::PrepareTurn { id, .. } => {
                let preparation = self.dice.preparation();
                let delay = self.dice.below(5);
                self.schedule_in(
                    delay,
                    What::Outcome(id, Input::Prepared { id, preparation }),
                );
            }
            Effect::PlanContext { id, .. } => {
                let too_large = self.dice.chance(12);
                let planned = Input::ContextPlanned { id, too_large };
                let delay = self.dice.below(3);
                self.schedule_in(delay, What::Outcome(id, planned));
            }
            Effect::Compact {
                id,
                model,
                reason,
                message_id,
                ..
            } => {
                self.check_request(&self.engine.state().messages)?;
                self.start_compaction(id, &model, reason, message_id);
            }
            Effect::CompactionOver {
                compaction,
                problem,
            } => {
                if compaction.is_some() && problem.is_some() {
                    return Err(self.violation("a compaction ends in one way"));
                }
                self.report.answered_wishes += 1;
            }
            Effect::ReserveModelCall { .. }
            | Effect::ReserveToolCall { .. }
            | Effect::Charge { .. }
            | Effect::SetBudget(_) => self.keep_books(effect)?,
            Effect::CallModel {
                id,
                messages,
                output_limit,
                ..
            } => {
                self.check_request(&messages)?;
                self.report.lowered_limits += usize::from(output_limit.is_some());
                let mut delay = 0;
                for input in world::answer(&mut self.dice, id, self.mood, output_limit) {
                    delay += self.dice.below(30);
                    self.schedule_in(delay, What::Outcome(id, input));
                }
            }
            Effect::CheckCall { id, call } => {
                let checked = world::check(&mut self.dice, id, &call);
                let delay = self.dice.below(5);
                self.schedule_in(delay, What::Outcome(id, checked));
            }
            Effect::Judge { id, call, .. } => {
                let verdict = Ok(world::judge(&mut self.dice, &call));
                let delay = self.dice.below(5);
                let diff = self.dice.chance(10).then(|| "+ a line".to_owned());
                let judged = Input::Judged { id, verdict, diff };
                self.schedule_in(delay, What::Outcome(id, judged));
            }
            Effect::Ask {
                id,
                request: PersonRequest::Questions(request),
            } => {
                self.check_questions(&request)?;
                self.report.questions += 1;
                let answers = 1 + usize::from(self.dice.chance(20));
                for _ in 0..answers {
                    if let Some((delay, responses)) = world::responses(&mut self.dice, &request) {
                        let question_id = request.question_id.clone();
                        let answer = PersonAnswer::Questions {
                            question_id,
                            responses,
                        };
                        let by = ResolvedBy::User;
                        self.schedule_in(delay, What::Outcome(id, Input::Answered { answer, by }));
                    }
                }
            }
            Effect::Reply { answer, .. } => self.check_reply(&answer)?,
            Effect::Ask {
                id,
                request: PersonRequest::Approval(request),
            } => {
                self.check_approval(&request)?;
                self.report.approvals += 1;
                // Now and then somebody else answers, too.
                let answers = 1 + usize::from(self.dice.chance(20));
                for _ in 0..answers {
                    if let Some((delay, answer)) = world::answer_to(&mut self.dice) {
                        let approval_id = request.approval_id.clone();
                        let input = Input::Answered {
                            answer: PersonAnswer::Approval {
                                approval_id,
                                answer,
                            },
                            by: ResolvedBy::User,
                        };
                        self.schedule_in(delay, What::Outcome(id, input));
                    }
                }
            }
            Effect::SaveRule { rule } => {
                self.check_saved_rule(&rule)?;
                self.report.saved_rules += 1;
            }
            Effect::RunTool { id, call } => {
                self.check_tool_start(&call)?;
                self.report.tools_run += 1;
                let tool = world::tool_named(call.name.as_str());
                self.running.insert(id, tool);
                for _ in 0..world::questions_of_a_call(&mut self.dice) {
                    let request = world::request_of_a_call(&mut self.dice, &call);
                    let delay = self.dice.below(200);
                    self.schedule_in(delay, What::Outcome(id, Input::ToolAsks { id, request }));
                }
                if let Some((delay, result)) = world::tool_run(&mut self.dice, tool) {
                    let remembered = world::remembered(&mut self.dice);
                    let input = Input::ToolFinished {
                        id,
                        result: result.map(Arc::new),
                        remembered,
                        note: world::note(&mut self.dice),
                    };
                    self.schedule_in(delay, What::Outcome(id, input));
                }
            }
            Effect::CancelTool { id } => {
                if self.running.get(&id) == Some(&"stubborn") {
                    return Err(self.violation("only what can be cancelled is told to stop"));
                }
                let input = Input::ToolFinished {
                    id,
                    result: Err(world::cancelled()),
                    remembered: Vec::new(),
                    note: None,
                };
                let delay = self.dice.below(100);
                self.schedule_in(delay, What::Outcome(id, input));
            }
            Effect::CancelModel { id } if self.compacting.remove(&id) => {
                self.report.broken_compactions += 1;
                self.dead.insert(id);
            }
            Effect::CancelModel { id }
            | Effect::AbandonTool { id }
            | Effect::CancelPreparation { id }
            | Effect::Withdraw { id } => {
                self.dead.insert(id);
            }
            // Hooks that were cancelled report their end all the same.
            Effect::CancelHooks { .. } => {}
            Effect::RunHooks { id, point, .. } => {
                let mut delay = 0;
                let at = self.timestamp();
                for input in world::hooks(&mut self.dice, id, &point, at) {
                    delay += self.dice.below(20);
                    self.schedule_in(delay, What::Outcome(id, input));
                }
            }
            Effect::Append { id, events, .. } => self.accept_append(id, events),
            Effect::Publish(payload) => {
                let event = SessionEvent::new_committed(
                    "ses_sim".into(),
                    self.ring.head(),
                    self.timestamp(),
                    payload,
                );
                self.ring.publish(Arc::new(event));
            }
            Effect::ArmTimer { id, after } => {
                let delay = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
                self.schedule_in(delay, What::Outcome(id, Input::Timer { id }));
            }
            Effect::TurnOver {
                turn_id,
                store_error,
            } => {
                if store_error.is_some() {
                    self.lost.insert(turn_id);
                }
            }
            Effect::TurnOpened { .. } | Effect::Closed => {}
        }
        Ok(())
    }
}
