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
