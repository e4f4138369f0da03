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
    let verdict = if claim.value <= claim.limit {
        "holds"
    } else {
        "DOES NOT HOLD"
    };
    let line = format!(
        "{:<62} {:>9.2} {:<5} (at most {:.2}) {verdict}",
        claim.what, claim.value, claim.unit, claim.limit
    );
    // A closed pipe is the reader's choice.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Prints a remark.
pub fn remark(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
