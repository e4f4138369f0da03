use super::super::grammar::{self, PatchedFile};
use super::*;
use proptest::prelude::*;
use similar::{ChangeTag, TextDiff};

fn apply_text(text: &str, patch: &str) -> Result<(String, Vec<PlacedHunk>), HunkMismatch> {
    let parsed = grammar::parse(patch).unwrap();
    let [file] = parsed.files.as_slice() else {
        panic!("{patch}")
    };
    let PatchedFile::Update { hunks, .. } = &file.change else {
        panic!("{patch}")
    };
    apply(text, hunks)
}

fn update(hunks: &str) -> String {
    format!("*** Begin Patch\n*** Update File: a\n{hunks}*** End Patch\n")
}

fn problem(text: &str, hunks: &str) -> String {
    apply_text(text, &update(hunks)).unwrap_err().to_string()
}

#[test]
fn lines_that_look_alike_are_compared_so_often_and_no_more() {
    // Four comparisons find it.
    let (text, wanted) = ("a\na\nb\n", ["a", "b"]);
    for (before, found) in [
        (LINE_COMPARISONS - 4, Some((1, Tolerance::Exact))),
        (LINE_COMPARISONS - 3, None),
    ] {
        let file = FileLines::new(text);
        file.compared.set(before);
        assert_eq!(file.search(&wanted, 0), found);
        let told = file.missing(&wanted, 0, "its lines");
        assert_eq!(
            told.contains("quote fewer lines"),
            found.is_none(),
            "{told}"
        );
    }
}

#[test]
fn the_strictest_tolerance_that_fits_is_used_and_said() {
    let file = "  key: 1\nkey: 1  \nkey: 1\n";
    for (hunk, line, tolerance) in [
        ("-key: 1\n+x\n", 3, Tolerance::Exact),
        ("-key: 1 \n+x\n", 2, Tolerance::TrailingWhitespace),
        ("-\tkey: 1\n+x\n", 1, Tolerance::Whitespace),
        (
            "@@   key: 1\n-key: 1\t\n+x\n",
            2,
            Tolerance::TrailingWhitespace,
        ),
    ] {
        let (_, placed) = apply_text(file, &update(hunk)).unwrap();
        assert_eq!(placed, [PlacedHunk { line, tolerance }], "{hunk}");
    }
}

#[test]
fn a_kept_line_stays_as_the_file_has_it() {
    let (text, _) = apply_text("\tif x {\n\told\n", &update(" if x {\n-old\n+\tnew\n")).unwrap();
    assert_eq!(text, "\tif x {\n\tnew\n");
}

#[test]
fn what_does_not_match_is_shown_with_what_is_there() {
    let file = "fn one() {\n    let a = 1;\n}\n\nfn two() {\n    let b = 2;\n}\n";
    let near = problem(
        file,
        "@@\n fn two() {\n-    let c = 2;\n+    let c = 3;\n }\n",
    );
    assert!(
        near.contains("line 6 is `    let b = 2;`, where the hunk has `    let c = 2;`"),
        "{near}"
    );
    assert!(near.starts_with("hunk 1 (line 3 of the patch)"), "{near}");
    let early = problem(file, "@@ fn two() {\n-    let a = 1;\n");
    assert!(early.contains("at line 2, before the place"), "{early}");
    let none = problem(file, "-completely other\n");
    assert!(none.contains("nor anything like them"), "{none}");
    let end = problem(file, "-    let a = 1;\n*** End of File\n");
    assert!(end.contains("line 2, not at the end"), "{end}");
}

/// A patch that makes `b` of `a`, with as much context as its hunks need to be
/// found where they belong, as a careful author would write it.
fn patch_between(a: &str, b: &str, wanted_context: usize) -> String {
    let lines: Vec<&str> = a.lines().collect();
    (wanted_context..=wanted_context + lines.len())
        .find_map(|context| careful_hunks(a, b, &lines, context))
        .map(|hunks| update(&hunks))
        .unwrap()
}

fn careful_hunks(a: &str, b: &str, lines: &[&str], context: usize) -> Option<String> {
    let diff = TextDiff::from_lines(a, b);
    let mut text = String::new();
    let mut done = 0;
    for group in diff.grouped_ops(context) {
        let start = group.first()?.old_range().start;
        let end = group.last()?.old_range().end;
        let old = lines.get(start..end)?;
        let found = match old.is_empty() {
            true => Some(lines.len()),
            false => lines
                .get(done..)?
                .windows(old.len())
                .position(|window| window == old)
                .map(|at| done + at),
        };
        if found != Some(start) {
            return None;
        }
        done = end;
        text.push_str("@@\n");
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let mark = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            text.push(mark);
            text.push_str(change.value().trim_end_matches(['\r', '\n']));
            text.push('\n');
        }
    }
    Some(text)
}

/// An edit of a file: lines to leave, to remove and to put in.
#[derive(Debug, Clone)]
struct Edit {
    skip: usize,
    remove: usize,
    insert: Vec<String>,
}

fn line() -> impl Strategy<Value = String> {
    // Few different lines, so that they repeat; some with marks of the format.
    prop_oneof![
        6 => "[ab]{0,2}",
        2 => " {0,3}[a-c]{1,3} {0,1}",
        1 => prop::sample::select(vec!["*** End Patch", "@@ x", "+", "-", "\\", "é"])
            .prop_map(str::to_owned),
    ]
}

fn edit() -> impl Strategy<Value = Edit> {
    (0..6_usize, 0..4_usize, prop::collection::vec(line(), 0..4)).prop_map(
        |(skip, remove, insert)| Edit {
            skip,
            remove,
            insert,
        },
    )
}

fn edited(lines: &[String], edits: &[Edit]) -> Vec<String> {
    let mut rest = lines.iter();
    let mut result = Vec::new();
    for edit in edits {
        result.extend(rest.by_ref().take(edit.skip).cloned());
        rest.by_ref().take(edit.remove).for_each(drop);
        result.extend(edit.insert.iter().cloned());
    }
    result.extend(rest.cloned());
    result
}

fn file(lines: &[String], ending: &str, last: bool) -> String {
    let mut text: String = lines.iter().flat_map(|it| [it.as_str(), ending]).collect();
    if !last && !text.is_empty() {
        text.truncate(text.len() - ending.len());
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// apply(diff(a, b), a) = b, for any edit script; and with a line that the
    /// file does not have, nothing comes of it.
    #[test]
    fn a_patch_does_what_the_edits_it_was_made_of_did(
        lines in prop::collection::vec(line(), 0..30),
        edits in prop::collection::vec(edit(), 1..5),
        context in 0..4_usize,
        crlf in any::<bool>(),
        newline_at_end in any::<bool>(),
    ) {
        let after = edited(&lines, &edits);
        prop_assume!(after != lines);
        let ending = if crlf { "\r\n" } else { "\n" };
        // An empty line without an ending is no line, and a patch cannot say
        // that a file loses or gets the ending of its last one.
        let newline_at_end = newline_at_end
            || lines.is_empty()
            || [lines.last(), after.last()].contains(&Some(&String::new()));
        let patch = patch_between(&file(&lines, "\n", true), &file(&after, "\n", true), context);
        let a = file(&lines, ending, newline_at_end);
        // Where the file has no ending to follow, lines end as usual.
        let b = match a.contains('\n') {
            true => file(&after, ending, newline_at_end),
            false => file(&after, "\n", newline_at_end),
        };
        let (made, _) = apply_text(&a, &patch).unwrap();
        prop_assert_eq!(&made, &b);

        let spoiled = patch.replacen("*** End Patch", "@@\n not in any file\n+x\n*** End Patch", 1);
        if !patch.contains(" *** End Patch") && !patch.contains("+*** End Patch")
            && !patch.contains("-*** End Patch") {
            prop_assert!(apply_text(&a, &spoiled).is_err());
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "(\\*\\*\\* (Begin Patch|End Patch|Add File: a|Update File: b|Move to: c|Delete File: d|End of File)|@@( x)?|[ +-]?[ab]?|\n){0,20}") {
        if let Ok(patch) = grammar::parse(&format!("*** Begin Patch\n{text}")) {
            for file in patch.files {
                if let PatchedFile::Update { hunks, .. } = file.change {
                    let _ = apply("a\nb\n\na\n", &hunks);
                }
            }
        }
    }
}
