//! How a limit is told to people and models.

use super::Shortage;
use halter_protocol::{BudgetLeft, BudgetResource, BudgetScope, TurnError};

/// The error of a turn that came to a limit.
pub(crate) fn exceeded(shortage: &Shortage) -> TurnError {
    let Shortage {
        limit,
        reserved,
        needed,
    } = shortage;
    let (scope, resource) = (&limit.scope, &limit.resource);
    let (spent, most) = (resource.amount(limit.spent), resource.amount(limit.limit));
    let held = match *reserved {
        0 => String::new(),
        reserved => format!(", {} held for calls under way", resource.amount(reserved)),
    };
    let message = match resource {
        BudgetResource::Tokens | BudgetResource::Cost => format!(
            "the {scope}'s budget of {most} has no room for the next model call: {spent} \
             spent{held}, and it may take {}",
            resource.amount(*needed)
        ),
        _ => format!("the {scope}'s budget of {most} is used up: {spent} spent{held}"),
    };
    TurnError::new("budget_exceeded", message).with_hint(raise(limit))
}

/// What to do about a limit.
fn raise(limit: &BudgetLeft) -> String {
    let name = match limit.resource {
        BudgetResource::Cost => "usd",
        BudgetResource::WallTime => "wall_secs",
        _ => limit.resource.as_str(),
    };
    match limit.scope {
        BudgetScope::Session => {
            let flag = name.replace('_', "-");
            format!(
                "go on with a larger one, --budget-{flag} or budget.{name}, or start a new session"
            )
        }
        BudgetScope::Turn => format!("raise budget.turn.{name}, or ask for a smaller task"),
        _ => format!("raise budget.harness.{name}"),
    }
}

/// What the model is told when a limit comes near.
pub(crate) fn warning_for_model(limit: &BudgetLeft) -> String {
    format!(
        "Budget: {limit} are spent; {} are left. Finish what matters most, and say what is left \
         undone.",
        limit.resource.amount(limit.left())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(scope: BudgetScope, resource: BudgetResource) -> BudgetLeft {
        BudgetLeft {
            scope,
            resource,
            spent: 4_100_000_000,
            limit: 5_000_000_000,
        }
    }

    #[test]
    fn people_are_told_what_was_spent_and_what_to_raise() {
        let error = exceeded(&Shortage {
            limit: left(BudgetScope::Session, BudgetResource::Cost),
            reserved: 0,
            needed: 1_250_000_000,
        });
        assert_eq!(
            error.message,
            "the session's budget of $5.00 has no room for the next model call: $4.10 spent, and it \
             may take $1.25"
        );
        assert_eq!(
            error.hint.as_deref(),
            Some("go on with a larger one, --budget-usd or budget.usd, or start a new session")
        );
        let error = exceeded(&Shortage {
            limit: left(BudgetScope::Turn, BudgetResource::ToolCalls),
            reserved: 2,
            needed: 1,
        });
        assert_eq!(
            error.message,
            "the turn's budget of 5000000000 tool calls is used up: 4100000000 tool calls spent, \
             2 tool calls held for calls under way"
        );
        assert!(error.hint.unwrap().contains("budget.turn.tool_calls"));
    }

    #[test]
    fn the_model_is_told_what_is_left() {
        let told = warning_for_model(&left(BudgetScope::Session, BudgetResource::Cost));
        assert!(
            told.starts_with("Budget: $4.10 of the session's $5.00 are spent; $0.90 are left.")
        );
    }
}
