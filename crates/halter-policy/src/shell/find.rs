//! `find`, which can run programs, delete and write files.

use super::Refusal;
use super::arguments::runs_another;
use super::programs::Programs;
use super::reader::Word;

pub(super) fn check(programs: Programs<'_>, words: &[Word]) -> Result<(), Refusal> {
    for (index, word) in words.iter().enumerate() {
        let after = words.get(index + 1..).unwrap_or_default();
        match word.text.as_str() {
            "-exec" | "-execdir" | "-ok" | "-okdir" => check_inner(programs, word, after)?,
            "-delete" if programs.lists("rm") => {}
            "-delete" => {
                return Err(Refusal::new(
                    "-delete",
                    "deleting is what `rm` does, and it is not allowed; add rm to policy.shell.allow",
                ));
            }
            text if text.starts_with("-fprint") || text == "-fls" => {
                return Err(runs_another(text));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The command of an action, up to `;` or `{} +`.
fn check_inner(programs: Programs<'_>, action: &Word, words: &[Word]) -> Result<(), Refusal> {
    let ends = |index: usize, word: &Word| {
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
        return Err(Refusal::new(
            &action.text,
            "the program it runs cannot be read; end it with `\\;` or `{} +`",
        ));
    };
    if program.text.contains("{}") {
        return Err(Refusal::new(
            &program.text,
            "the name of a program must be literal",
        ));
    }
    programs.check_inner(inner)
}
