//! Files that git reaches outside of what it tracks.

use super::super::parts::PathAccess::{Delete, List, Read, Write};
use super::Uses;

pub(super) fn paths(uses: &mut Uses<'_>) {
    let words = uses.words;
    let mut rest = words;
    while let [first, after @ ..] = rest {
        match first.text.as_str() {
            "-C" => {
                if let Some(directory) = after.first() {
                    uses.enter(directory);
                }
                rest = after.get(1..).unwrap_or_default();
            }
            "--git-dir" | "--work-tree" => {
                if let Some(directory) = after.first() {
                    uses.add(directory, List);
                }
                rest = after.get(1..).unwrap_or_default();
            }
            option if option.starts_with('-') => rest = after,
            _ => break,
        }
    }
    let Some((subcommand, rest)) = rest.split_first() else {
        return;
    };
    uses.words = rest;
    let no_index = rest.iter().any(|word| word.text == "--no-index");
    uses.options(&[
        ("--output", Write),
        ("--output-directory", Write),
        ("--directory", Write),
        ("--template", Read),
        ("--reference", Read),
        ("--separate-git-dir", Write),
        ("--pathspec-from-file", Read),
        ("--file", Read),
        ("--contents", Read),
    ]);
    match subcommand.text.as_str() {
        "diff" if no_index => uses.all(Read, "USGlOIo"),
        "grep" if no_index => uses.searchers("efmABC"),
        "add" => uses.all(Read, ""),
        "diff" | "grep" | "log" | "show" | "blame" => tracked(uses),
        "apply" | "am" | "hash-object" => uses.all(Read, "pC"),
        "rm" => uses.all(Delete, ""),
        "mv" => uses.copy(Delete),
        "init" => uses.all(Write, "b"),
        "clone" => {
            if let Some(target) = uses.operands("bcjou").get(1) {
                uses.add(target, Write);
            }
        }
        "worktree" => {
            let adds = rest.first().is_some_and(|word| word.text == "add");
            if adds && let Some(target) = uses.operands("bB").get(1) {
                uses.add(target, Write);
            }
        }
        "archive" | "format-patch" => uses.options(&[("-o", Write)]),
        "bundle" => {
            let creates = rest.first().is_some_and(|word| word.text == "create");
            if let Some(file) = uses.operands("").get(1) {
                uses.add(file, if creates { Write } else { Read });
            }
        }
        "config" => uses.options(&[("-f", Write), ("--file", Write)]),
        "commit" | "tag" | "notes" | "merge" => uses.options(&[("-F", Read)]),
        _ => {}
    }
}

/// Paths behind `--`, which nothing else can be.
fn tracked(uses: &mut Uses<'_>) {
    let words = uses.words;
    let after = words.iter().position(|word| word.text == "--");
    let paths = after.and_then(|at| words.get(at + 1..)).unwrap_or_default();
    for word in paths {
        uses.add(word, Read);
    }
}
