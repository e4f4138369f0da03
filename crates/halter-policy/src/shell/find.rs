//! `find`, which can run programs, delete and write files.

use super::CommandRefusal;
use super::argument::Argument;
use super::arguments::runs_another;
use super::known_programs::takes_any_operand;
use super::programs::Programs;

pub(super) fn check(programs: Programs<'_>, words: &[Argument]) -> Result<(), CommandRefusal> {
    for (index, word) in words.iter().enumerate() {
        let after = words.get(index + 1..).unwrap_or_default();
        match word.text.as_str() {
            "-exec" | "-ok" => check_inner(programs, word, after)?,
            "-execdir" | "-okdir" => {
                let start = programs.recorded();
                let outcome = check_inner(programs, word, after);
                programs.record_elsewhere(start);
                outcome?;
            }
            "-delete" if programs.lists("rm") => {}
            "-delete" => {
                return Err(CommandRefusal::new(
                    "-delete",
                    "deleting is what `rm` does, and it is not allowed; add rm to policy.shell.allow",
                ));
            }
            "-files0-from" => return Err(runs_another("-files0-from")),
            text if text.starts_with("-fprint") || text == "-fls" => {
                return Err(runs_another(text));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The command of an action, up to `;` or `{} +`.
fn check_inner(
    programs: Programs<'_>,
    action: &Argument,
    words: &[Argument],
) -> Result<(), CommandRefusal> {
    let ends = |index: usize, word: &Argument| {
        let before = index.checked_sub(1).and_then(|before| words.get(before));
        word.text == ";" || (word.text == "+" && before.is_some_and(|before| before.text == "{}"))
    };
    let end = words
        .iter()
        .enumerate()
        .find(|(index, word)| ends(*index, word));
    let inner = end
        .and_then(|(end, _)| words.get(..end))
        .unwrap_or_default();
    let Some(program) = inner.first() else {
        return Err(CommandRefusal::new(
            &action.text,
            "the program it runs cannot be read; end it with `\\;` or `{} +`",
        ));
    };
    if program.text.contains("{}") {
        return Err(CommandRefusal::new(
            &program.text,
            "the name of a program must be literal",
        ));
    }
    let arguments = inner.get(1..).unwrap_or_default();
    let inserts = arguments.iter().any(|word| word.text.contains("{}"));
    // sed's script cannot hold braces here, so what is inserted is a file.
    if inserts && program.text != "sed" && !takes_any_operand(program, arguments) {
        return Err(CommandRefusal::new(
            &program.text,
            "a file name inserted here could be taken for code; run it on files you name",
        ));
    }
    programs.check_inner(inner)
}
