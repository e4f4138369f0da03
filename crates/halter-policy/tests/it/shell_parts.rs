//! Command lines taken apart.

use halter_policy::shell::{CommandPart, PathAccess, parts};

fn read(command: &str) -> Vec<CommandPart> {
    parts(command).unwrap().parts
}

fn lines(command: &str) -> Vec<String> {
    let parts = read(command);
    let commands = parts.iter().filter(|part| !part.words.is_empty());
    commands.map(CommandPart::line).collect()
}

fn paths(command: &str) -> Vec<(String, PathAccess)> {
    let parts = read(command);
    let uses = parts.iter().flat_map(|part| &part.paths);
    uses.map(|used| (used.path.text.clone(), used.access))
        .collect()
}

#[test]
fn every_command_of_a_line_is_a_part() {
    let line = "cd a && f() { ls \"$(date)\"; }; for x in b; do echo $x | cat; done";
    assert_eq!(
        lines(line),
        ["cd a", "date", "ls \"$(date)\"", "echo b", "cat"]
    );
}

#[test]
fn wrappers_are_looked_through() {
    let parts = read("timeout 5 nice -n 1 git push");
    let seen: Vec<_> = parts
        .iter()
        .map(|part| (part.line(), part.wrappers.clone()))
        .collect();
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(
        seen,
        [
            ("timeout 5 nice -n 1 git push".to_owned(), owned(&[])),
            ("nice -n 1 git push".to_owned(), owned(&["timeout"])),
            ("git push".to_owned(), owned(&["timeout", "nice"])),
        ]
    );
    assert_eq!(
        lines("find . -exec rm {} \\;"),
        ["find . -exec rm {} ;", "rm {}"]
    );
}

#[test]
fn assignments_redirections_and_words_say_what_is_literal() {
    let parts = read("A=1 B=$x make 'a b' \"$c\" *.rs > out 2>> \"$log\" < in");
    let part = &parts[0];
    let assigned: Vec<_> = part
        .assignments
        .iter()
        .map(|it| (it.name.as_str(), it.value.text.as_str(), it.value.literal))
        .collect();
    assert_eq!(assigned, [("A", "1", true), ("B", "$x", false)]);
    let words: Vec<_> = part
        .words
        .iter()
        .map(|word| (word.text.as_str(), word.literal))
        .collect();
    assert_eq!(
        words,
        [
            ("make", true),
            ("a b", true),
            ("\"$c\"", false),
            ("*.rs", false)
        ]
    );
    let files: Vec<_> = part
        .redirections
        .iter()
        .map(|it| (it.target.text.as_str(), it.target.literal, it.access))
        .collect();
    assert_eq!(
        files,
        [
            ("out", true, PathAccess::Write),
            ("\"$log\"", false, PathAccess::Write),
            ("in", true, PathAccess::Read)
        ]
    );
}

#[test]
fn what_is_not_understood_is_said() {
    let parts = read("git -c alias.x=!rm x; ls");
    assert!(parts[0].unclear.is_some());
    assert_eq!(parts[1].unclear, None);
    for line in ["eval ls", "$x y", "ls (", "ls \u{0}", "echo $((x))"] {
        let expected = !line.starts_with("eval");
        assert_eq!(parts_fail(line), expected, "{line}");
    }
    // `eval` is a program by name here; the judge refuses it.
    assert!(read("eval ls")[0].unclear.is_some());
}

fn parts_fail(line: &str) -> bool {
    parts(line).is_err()
}

#[test]
fn directories_follow_cd() {
    let directories = |line: &str| read(line).pop().unwrap().directories;
    assert_eq!(directories("ls"), [""]);
    assert_eq!(directories("cd a && cd b && ls"), ["a/b"]);
    assert_eq!(directories("cd /x && ls"), ["/x"]);
    // It may have failed.
    assert_eq!(directories("cd a; ls"), ["a", ""]);
    assert_eq!(directories("(cd a); ls"), [""]);
    assert!(directories("cd $x && ls").is_empty());
}

#[test]
fn files_that_arguments_name_are_found() {
    use PathAccess::{Delete, List, Read, Write};
    let mut wrong = Vec::new();
    for (line, expected) in [
        ("cat -n a b", vec![("a", Read), ("b", Read)]),
        ("head -n 5 a", vec![("a", Read)]),
        ("ls -l a", vec![("a", List)]),
        ("cd a", vec![("a", List)]),
        ("rg -n x a b", vec![("a", Read), ("b", Read)]),
        ("rg -e x a", vec![("a", Read)]),
        ("grep -rn x .", vec![(".", Read)]),
        ("grep -f pats a", vec![("pats", Read), ("a", Read)]),
        ("sed -n 1p a", vec![("a", Read)]),
        ("sed -i s/a/b/ a", vec![("a", Write)]),
        ("sed -i -e s/a/b/ a", vec![("a", Write)]),
        ("awk '{print}' a", vec![("a", Read)]),
        ("find a b -name c", vec![("a", List), ("b", List)]),
        ("find a -delete", vec![("a", Delete)]),
        ("cp -r a b", vec![("b", Write), ("a", Read)]),
        ("cp -t d a b", vec![("d", Write), ("a", Read), ("b", Read)]),
        ("mv a b", vec![("b", Write), ("a", Delete)]),
        ("rm -rf a", vec![("a", Delete)]),
        ("mkdir -p a/b", vec![("a/b", Write)]),
        ("touch a", vec![("a", Write)]),
        ("tee -a a", vec![("a", Write)]),
        ("ln -s a b", vec![("b", Write), ("a", Read)]),
        ("chmod +x a", vec![("a", Write)]),
        ("dd if=a of=b", vec![("a", Read), ("b", Write)]),
        ("tar czf a.tgz b", vec![("a.tgz", Write), ("b", Read)]),
        ("tar -xf a.tgz -C b", vec![("b", Write), ("a.tgz", Read)]),
        ("sort -o b a", vec![("b", Write), ("a", Read)]),
        ("git -C a status", vec![("a", List)]),
        ("git diff --no-index a b", vec![("a", Read), ("b", Read)]),
        ("git grep --no-index x a", vec![("a", Read)]),
        ("git apply --directory=a p", vec![("a", Write), ("p", Read)]),
        ("git clone https://x/y d", vec![("d", Write)]),
        ("git log -- a", vec![("a", Read)]),
        ("cargo build --target-dir t", vec![("t", Write)]),
        ("curl -o a https://x", vec![("a", Write)]),
        ("python3 a.py b", vec![("a.py", Read)]),
        ("make -C a", vec![("a", List)]),
        ("cat - < /dev/null", vec![]),
    ] {
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(path, access)| (path.to_owned(), access))
            .collect();
        if paths(line) != expected {
            wrong.push((line, paths(line)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn readers_that_write_their_second_file_are_known() {
    use PathAccess::{Read, Write};
    let expected = |program: &str| {
        let uses = paths(&format!("{program} in out"));
        assert_eq!(
            uses,
            [("in".to_owned(), Read), ("out".to_owned(), Write)],
            "{program}"
        );
    };
    expected("uniq -c -f 2");
    expected("xxd -r -p -s 4");
    let tree = paths("tree -o out src");
    assert!(tree.contains(&("out".to_owned(), Write)), "{tree:?}");
}

#[test]
fn files_in_values_of_options_are_known() {
    use PathAccess::{Read, Write};
    for (command, path, access) in [
        ("curl -d @a http://x", "a", Read),
        ("curl -d@a http://x", "a", Read),
        ("curl --data-binary @a http://x", "a", Read),
        ("curl --json=@a http://x", "a", Read),
        ("curl -F f=@a http://x", "a", Read),
        ("curl -F 'f=@a;type=text/plain' http://x", "a", Read),
        ("grep -fa x", "a", Read),
        ("rg -nfa x", "a", Read),
        ("git blame --contents a f", "a", Read),
        ("git bundle create a HEAD", "a", Write),
        ("git bundle verify a", "a", Read),
    ] {
        let found = paths(command);
        assert!(
            found.contains(&(path.to_owned(), access)),
            "{command}: {found:?}"
        );
    }
    assert_eq!(paths("curl -u a@b http://c@d/?e=f"), []);
}

#[test]
fn where_find_runs_a_command_is_not_known_with_execdir() {
    let directories = |command: &str| {
        let parts = read(command);
        parts.last().map(|part| part.directories.clone())
    };
    let known = Some(vec![String::new()]);
    assert_eq!(directories("find a -exec cat ../x \\;"), known);
    assert_eq!(directories("find a -execdir cat {} \\;"), known);
    assert_eq!(directories("find a -execdir cat ../x \\;"), Some(vec![]));
    assert_eq!(directories("find a -okdir cat x {} \\;"), Some(vec![]));
}
