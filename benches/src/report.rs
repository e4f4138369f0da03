//! Prints claims and whether they hold.

use std::io::Write;

/// One claim: a measured value that must not exceed a limit.
pub struct Claim<'a> {
    /// What is claimed.
    pub what: &'a str,
    /// What was measured.
    pub value: f64,
    /// What it may be at most.
    pub limit: f64,
    /// The unit of both.
    pub unit: &'a str,
}

/// Prints a claim on a line of its own. A bench never fails a build: the
/// machine may be busy.
pub fn print(claim: &Claim<'_>) {
    let holds = claim.value <= claim.limit;
    line(
        claim.what,
        claim.value,
        claim.unit,
        "at most",
        claim.limit,
        holds,
    );
}

/// One claim: a measured value that must reach a limit.
pub struct AtLeast<'a> {
    /// What is claimed.
    pub what: &'a str,
    /// What was measured.
    pub value: f64,
    /// What it must be at least.
    pub limit: f64,
    /// The unit of both.
    pub unit: &'a str,
}

impl AtLeast<'_> {
    /// Prints the claim on a line of its own.
    pub fn print(&self) {
        line(
            self.what,
            self.value,
            self.unit,
            "at least",
            self.limit,
            self.value >= self.limit,
        );
    }
}

/// One claim: a measured value that must reach a part of a floor, or must not
/// exceed a multiple of it.
pub struct Ratio<'a> {
    /// What is claimed.
    pub what: &'a str,
    /// What was measured, and the floor, each the middle of its rounds.
    pub measured: f64,
    /// The floor.
    pub floor: f64,
    /// The unit of both.
    pub unit: &'a str,
    /// The middle ratio of all rounds, in percent.
    pub percent: f64,
    /// What the ratio must be.
    pub goal: Goal,
}

/// A bound of a ratio, in percent.
#[derive(Debug, Clone, Copy)]
pub enum Goal {
    /// More is better.
    AtLeast(f64),
    /// Less is better.
    AtMost(f64),
}

impl Ratio<'_> {
    /// Prints the figures on a line of their own, and the claim on the next.
    pub fn print(&self) {
        remark(&format!(
            "{}: {:.1} {unit}, floor {:.1} {unit}",
            self.what,
            self.measured,
            self.floor,
            unit = self.unit
        ));
        let (bound, limit, holds) = match self.goal {
            Goal::AtLeast(limit) => ("at least", limit, self.percent >= limit),
            Goal::AtMost(limit) => ("at most", limit, self.percent <= limit),
        };
        line("  of the floor", self.percent, "%", bound, limit, holds);
    }
}

fn line(what: &str, value: f64, unit: &str, bound: &str, limit: f64, holds: bool) {
    let verdict = if holds { "holds" } else { "DOES NOT HOLD" };
    // A closed pipe is the reader's choice.
    let _ = writeln!(
        std::io::stdout(),
        "{what:<62} {value:>9.2} {unit:<5} ({bound} {limit:.2}) {verdict}"
    );
}

/// Prints a remark.
pub fn remark(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
