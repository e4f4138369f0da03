//! What happens when: drawn at the start, and as effects are taken up.

use super::{Simulation, world};
use crate::engine::{EffectId, Input};
use halter_protocol::{NotificationItem, Turn, TurnId, UserMessage};
use serde_json::json;

pub(super) struct Due {
    pub at: u64,
    pub order: u64,
    pub what: What,
}

pub(super) enum What {
    Input(Input),
    Outcome(EffectId, Input),
    Commit,
    FailStore,
    Crash,
    Read,
    Quit,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Due {
    /// The heap hands out the earliest first.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl Simulation {
    /// Draws what users and the world do to the session.
    pub(super) fn plan(&mut self) {
        let warnings = Vec::new();
        self.schedule_at(
            0,
            What::Input(Input::Start {
                forked: None,
                warnings,
            }),
        );
        let mut at = 0;
        for number in 0..self.schedule.turns {
            at += self.dice.below(400);
            let mut message = UserMessage::text(format!("turn {number}"));
            if self.dice.chance(10) {
                message = message.with_part(world::picture(&mut self.dice));
            }
            let mut turn = Turn::new(message);
            turn.id = TurnId(format!("turn_{number}"));
            if self.dice.chance(10) {
                turn = turn.with_default_model("small");
            }
            if self.dice.chance(15) {
                turn = turn.with_response_schema(json!({"required": ["n"]}));
            }
            self.submitted.push(turn.id.clone());
            self.schedule_at(at, What::Input(Input::Submit(turn)));
        }
        for _ in 0..self.dice.below(4) {
            let when = self.dice.below(at + 600);
            let message = UserMessage::text("also this");
            self.schedule_at(when, What::Input(Input::Steer(message)));
        }
        for _ in 0..self.dice.below(3) {
            let when = self.dice.below(at + 600);
            let turn_id = self.dice.chance(30).then(|| {
                TurnId(format!(
                    "turn_{}",
                    self.dice.below(self.schedule.turns as u64)
                ))
            });
            let reason = "the user said so".to_owned();
            self.schedule_at(when, What::Input(Input::Cancel { turn_id, reason }));
        }
        if self.dice.chance(30) {
            let when = self.dice.below(at + 600);
            let item = NotificationItem {
                notification_type: "idle".into(),
                message: "still there?".into(),
            };
            self.schedule_at(when, What::Input(Input::Notify(item)));
        }
        for _ in 0..self.dice.below(2) {
            let when = self.dice.below(at + 600);
            let instructions = self.dice.chance(50).then(|| "the numbers".to_owned());
            self.schedule_at(when, What::Input(Input::Compact { instructions }));
        }
        if self.dice.chance(10) {
            let when = self.dice.below(at + 600);
            let budget = super::budget::session(&mut self.dice);
            self.schedule_at(when, What::Input(Input::SetBudget(budget)));
        }
        if self.schedule.crashes && self.dice.chance(25) {
            let when = self.dice.below(at + 600);
            self.schedule_at(when, What::Crash);
        }
        if self.schedule.store_faults && self.dice.chance(15) {
            let when = self.dice.below(at + 600);
            self.schedule_at(when, What::FailStore);
        }
        for _ in 0..self.dice.below(6) {
            let when = self.dice.below(at + 1_000);
            self.schedule_at(when, What::Read);
        }
        self.schedule_at(10_000_000, What::Quit);
    }

    pub(super) fn schedule_at(&mut self, at: u64, what: What) {
        self.order += 1;
        self.agenda.push(Due {
            at,
            order: self.order,
            what,
        });
    }

    pub(super) fn schedule_in(&mut self, delay: u64, what: What) {
        self.schedule_at(self.now + delay, what);
    }
}
