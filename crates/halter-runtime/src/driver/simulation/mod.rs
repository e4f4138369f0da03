//! Drives an engine through seeded chaos in virtual time.
//!
//! Nothing here runs for real: models, tools, hooks, the store and the clock
//! are a schedule drawn from a seed, so a failure is reproduced by its number.
//! The world misbehaves as the real one does: streams break, tools fail or
//! hang, hooks block, appends fail, processes crash, users cancel and steer at
//! any moment, subscribers are slow. After every schedule the promises of the
//! engine are checked.

mod agenda;
mod budget;
mod checks;
mod compaction;
mod dice;
mod effects;
mod recording;
mod world;

pub use checks::Violation;
pub use recording::{Recorded, Recording, record};

use crate::engine::{EffectId, Engine, Input};
use crate::hub::{Cursor, EventRing, Next};
use agenda::{Due, What};
use budget::Books;
use dice::Dice;
use halter_protocol::{
    Delivery, SessionEvent, SessionEventPayload, SessionState, Timestamp, TurnId, fold,
};
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use world::Mood;

/// What a schedule contains.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// Everything random follows from it.
    pub seed: u64,
    /// How many turns users submit.
    pub turns: usize,
    /// Whether appends may fail.
    pub store_faults: bool,
    /// Whether the process may crash and resume from its log.
    pub crashes: bool,
}

impl Schedule {
    /// A schedule of a few turns with every fault switched on.
    pub fn with_seed(seed: u64) -> Self {
        Self {
            seed,
            turns: 3,
            store_faults: true,
            crashes: true,
        }
    }
}

/// What happened in a schedule that kept every promise.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Events committed.
    pub events: usize,
    /// Turns that ended, by how: `completed`, a failure's code, or
    /// `store_failed`.
    pub endings: BTreeMap<String, usize>,
    /// Tools that ran.
    pub tools_run: usize,
    /// Approvals requested.
    pub approvals: usize,
    /// How they were resolved: by a choice of a person, or `withdrawn` or
    /// `interrupted`.
    pub resolutions: BTreeMap<String, usize>,
    /// Questions put.
    pub questions: usize,
    /// Rules saved for good.
    pub saved_rules: usize,
    /// Compactions, by tier.
    pub compactions: BTreeMap<String, usize>,
    /// Compactions that somebody asked for and heard of.
    pub answered_wishes: usize,
    /// Compactions that a crash, a cancel or a failing store broke off.
    pub broken_compactions: usize,
    /// Calls that a budget refused.
    pub refused_calls: usize,
    /// Limits that models were told to be near.
    pub budget_warnings: usize,
    /// Requests whose output limit a budget lowered.
    pub lowered_limits: usize,
    /// Crashes survived.
    pub crashes: usize,
    /// Best-effort events a slow subscriber missed.
    pub missed: u64,
}

/// Runs a schedule to its end and checks what came of it.
pub fn run(schedule: &Schedule) -> Result<Report, Violation> {
    Simulation::new(schedule).run()
}

struct Simulation {
    schedule: Schedule,
    dice: Dice,
    mood: Mood,
    engine: Engine,
    now: u64,
    order: u64,
    agenda: BinaryHeap<Due>,
    /// Appends not yet committed, in order; the store commits in order.
    appends: Vec<(EffectId, Vec<SessionEvent>)>,
    log: Vec<SessionEvent>,
    /// What the log folds to.
    folded: SessionState,
    ring: EventRing,
    subscriber: Subscriber,
    dead: HashSet<EffectId>,
    running: HashMap<EffectId, &'static str>,
    books: Books,
    store_failed: bool,
    /// Compactions that have not ended.
    compacting: HashSet<EffectId>,
    submitted: Vec<TurnId>,
    lost: HashSet<TurnId>,
    recorded: Recorded,
    report: Report,
}

struct Subscriber {
    cursor: Cursor,
    lossless: Vec<u64>,
    missed: u64,
}

/// A ring so small that a dawdling subscriber falls behind it, in events.
const TINY_RING: usize = 8;

/// No schedule needs more inputs than this, in number.
const MOST_INPUTS: usize = 20_000;

impl Simulation {
    fn new(schedule: &Schedule) -> Self {
        let mut dice = Dice::new(schedule.seed);
        let facts = world::facts(&mut dice);
        let books = Books::open(&facts, &SessionState::default());
        let mut ring = EventRing::new(0, TINY_RING);
        let subscriber = Subscriber {
            cursor: ring.subscribe(0),
            lossless: Vec::new(),
            missed: 0,
        };
        Self {
            schedule: schedule.clone(),
            recorded: vec![(
                Recording::start(&facts, &SessionState::default()),
                Vec::new(),
            )],
            engine: Engine::new(facts),
            mood: if dice.chance(3) {
                Mood::Stuck
            } else {
                Mood::Free
            },
            dice,
            now: 0,
            order: 0,
            agenda: BinaryHeap::new(),
            appends: Vec::new(),
            log: Vec::new(),
            folded: SessionState::default(),
            ring,
            subscriber,
            dead: HashSet::new(),
            running: HashMap::new(),
            books,
            store_failed: false,
            compacting: HashSet::new(),
            submitted: Vec::new(),
            lost: HashSet::new(),
            report: Report::default(),
        }
    }

    fn run(mut self) -> Result<Report, Violation> {
        self.plan();
        self.run_agenda()?;
        self.read_events(usize::MAX);
        self.check_end()?;
        self.report.events = self.log.len();
        self.report.missed = self.subscriber.missed;
        Ok(self.report)
    }

    fn run_agenda(&mut self) -> Result<(), Violation> {
        let mut inputs = 0;
        while let Some(due) = self.agenda.pop() {
            self.now = due.at;
            inputs += 1;
            if inputs > MOST_INPUTS {
                return Err(self.violation("the schedule does not come to an end"));
            }
            self.perform(due.what)?;
        }
        Ok(())
    }

    fn perform(&mut self, what: What) -> Result<(), Violation> {
        match what {
            What::Input(Input::Steer(message)) => {
                if self.engine.accepts_steer() {
                    self.feed(Input::Steer(message))?;
                }
            }
            What::Input(input) => self.feed(input)?,
            What::Outcome(id, input) => {
                // Late outcomes of dead effects still arrive, as in life.
                if !self.dead.contains(&id) || self.dice.chance(20) {
                    self.feed(input)?;
                }
            }
            What::Commit => self.commit_next()?,
            What::FailStore => self.fail_store()?,
            What::Crash => self.crash()?,
            What::Read => {
                let most = self.dice.below(20) as usize;
                self.read_events(most);
            }
            What::Quit => {
                let reason = "done".to_owned();
                self.feed(Input::Shutdown { reason })?;
            }
        }
        Ok(())
    }

    fn feed(&mut self, input: Input) -> Result<(), Violation> {
        let at = self.timestamp();
        if let Input::Compacted { id, .. } = &input {
            self.compacting.remove(id);
        }
        let effects = self.engine.handle(at, input.clone());
        if let Some((recording, wanted)) = self.recorded.last_mut() {
            recording.inputs.push((at, input));
            wanted.push(effects.clone());
        }
        for effect in effects {
            self.take_up(effect)?;
        }
        Ok(())
    }

    fn timestamp(&self) -> Timestamp {
        let millis = i64::try_from(self.now).unwrap_or(i64::MAX);
        Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    fn accept_append(&mut self, id: EffectId, events: Vec<halter_protocol::PendingEvent>) {
        let waiting: usize = self.appends.iter().map(|(_, events)| events.len()).sum();
        let mut sequence = (self.log.len() + waiting) as u64;
        let events = events
            .into_iter()
            .map(|event| {
                sequence += 1;
                event.into_committed(sequence)
            })
            .collect();
        self.appends.push((id, events));
        let delay = self.dice.below(10);
        self.schedule_in(delay, What::Commit);
    }

    fn commit_next(&mut self) -> Result<(), Violation> {
        if self.appends.is_empty() {
            return Ok(());
        }
        let (id, events) = self.appends.remove(0);
        for event in events {
            self.ring.publish(Arc::new(event.clone()));
            fold::apply_event(&mut self.folded, &event.payload);
            self.log.push(event);
        }
        self.feed(Input::Committed { id })?;
        self.check_state()
    }

    fn fail_store(&mut self) -> Result<(), Violation> {
        let Some((id, _)) = self.appends.first() else {
            return Ok(());
        };
        let id = *id;
        self.store_failed = true;
        self.appends.clear();
        let error = halter_protocol::TurnError::new("store_failed", "the disk is full");
        self.feed(Input::StoreFailed { id, error })
    }

    /// The process dies: what was committed stays, everything else is gone.
    fn crash(&mut self) -> Result<(), Violation> {
        self.report.crashes += 1;
        self.appends.clear();
        self.running.clear();
        self.report.broken_compactions += self.compacting.len();
        self.compacting.clear();
        let kept: Vec<Due> = std::mem::take(&mut self.agenda)
            .into_iter()
            .filter(|due| !matches!(due.what, What::Outcome(..) | What::Commit))
            .collect();
        self.agenda.extend(kept);
        let started = self.started_turns();
        let submitted_before: Vec<TurnId> = self
            .submitted
            .iter()
            .filter(|id| !started.contains(*id) && !self.is_still_planned(id))
            .cloned()
            .collect();
        self.lost.extend(submitted_before);
        let state = halter_protocol::fold::fold_events(self.log.iter().map(|e| &e.payload));
        let mut facts = world::facts(&mut self.dice);
        facts.budget = self.books.harness();
        let recording = Recording::start(&facts, &state);
        self.recorded.push((recording, Vec::new()));
        self.books = Books::open(&facts, &state);
        self.engine = Engine::with_state(facts, state);
        // Effect numbers start over in the new process; what the old one
        // called dead says nothing about the new ones.
        self.dead.clear();
        self.feed(Input::Resume)
    }

    fn is_still_planned(&self, turn_id: &TurnId) -> bool {
        self.agenda
            .iter()
            .any(|due| matches!(&due.what, What::Input(Input::Submit(turn)) if turn.id == *turn_id))
    }

    fn started_turns(&self) -> HashSet<TurnId> {
        self.log
            .iter()
            .filter_map(|event| match &event.payload {
                SessionEventPayload::TurnStarted { turn_id, .. } => Some(turn_id.clone()),
                _ => None,
            })
            .collect()
    }

    /// A subscriber that reads at most so many events and then dawdles.
    fn read_events(&mut self, most: usize) {
        let subscriber = &mut self.subscriber;
        for _ in 0..most {
            match self.ring.next(&mut subscriber.cursor) {
                Next::Event(event) => {
                    if event.delivery == Delivery::Lossless {
                        subscriber.lossless.push(event.sequence());
                    }
                }
                Next::CatchUp { after, through } => {
                    for sequence in after + 1..=through {
                        subscriber.lossless.push(sequence);
                        subscriber.cursor.caught_up(sequence);
                    }
                }
                Next::Lagged(missed) => subscriber.missed += missed,
                Next::Nothing => break,
            }
        }
    }
}

/// The longest a simulated tool may run before it is overdue.
pub(super) const LONGEST_TOOL_RUN: Duration = Duration::from_secs(200);
