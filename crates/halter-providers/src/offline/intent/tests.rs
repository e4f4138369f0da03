use super::*;

fn read(paths: &[&str]) -> Intent {
    Intent::Read {
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
    }
}

fn list(pattern: &str) -> Intent {
    Intent::List {
        pattern: pattern.to_owned(),
    }
}

fn search(text: &str, glob: Option<&str>) -> Intent {
    Intent::Search {
        text: text.to_owned(),
        glob: glob.map(str::to_owned),
    }
}

fn explain(name: &str) -> Intent {
    Intent::Explain {
        name: name.to_owned(),
    }
}

fn run(command: &str) -> Intent {
    Intent::Run {
        command: command.to_owned(),
    }
}

fn write(path: &str, content: &str) -> Intent {
    Intent::Write {
        path: path.to_owned(),
        content: content.to_owned(),
    }
}

fn edit(path: &str, old: &str, new: &str) -> Intent {
    Intent::Edit {
        path: path.to_owned(),
        old: old.to_owned(),
        new: new.to_owned(),
    }
}

fn files(pattern: &str) -> Intent {
    Intent::Count(Countable::Files {
        pattern: pattern.to_owned(),
    })
}

fn occurrences(text: &str) -> Intent {
    Intent::Count(Countable::Occurrences {
        text: text.to_owned(),
    })
}

fn add(subject: &str) -> Intent {
    Intent::Task(TaskRequest::Add {
        subject: subject.to_owned(),
    })
}

fn check(table: &[(&str, Intent)]) {
    for (sentence, expected) in table {
        assert_eq!(&understand(sentence), expected, "{sentence}");
    }
}

#[test]
fn overviews() {
    for sentence in [
        "Summarize this repository",
        "summarise the repo, please",
        "Give me an overview of this project.",
        "What is this project about?",
        "Explain this codebase",
        "Can you describe the repository?",
        "summarize",
    ] {
        assert_eq!(understand(sentence), Intent::Summarize, "{sentence}");
    }
}

#[test]
fn files_to_show() {
    check(&[
        ("read Cargo.toml", read(&["Cargo.toml"])),
        (
            "Show me src/main.rs and README.md",
            read(&["src/main.rs", "README.md"]),
        ),
        ("please open `notes.txt`.", read(&["notes.txt"])),
        ("show the readme", read(&["README.md"])),
        ("summarize docs/design.md", read(&["docs/design.md"])),
        ("What is in config.json?", read(&["config.json"])),
        ("I wonder about main.py", read(&["main.py"])),
        ("read a.rs b.rs c.rs d.rs", read(&["a.rs", "b.rs", "c.rs"])),
    ]);
}

#[test]
fn files_to_list() {
    check(&[
        ("list files", list("**/*")),
        ("List all the files in this directory", list("**/*")),
        ("ls", list("**/*")),
        ("ls src/bin/", list("src/bin/**")),
        ("what files are there?", list("**/*")),
        ("find all rust files", list("**/*.rs")),
        ("list *.toml", list("**/*.toml")),
        ("show me the markdown files", list("**/*.md")),
        ("find files named build.rs", list("**/build.rs")),
        ("find src/*.rs", list("src/*.rs")),
        ("find Cargo.toml", list("**/Cargo.toml")),
        ("where is main.rs?", list("**/main.rs")),
    ]);
}

#[test]
fn texts_to_find() {
    check(&[
        ("find TODO", search("TODO", None)),
        (
            "search for `unsafe impl` in src/lib.rs",
            search("unsafe impl", Some("src/lib.rs")),
        ),
        ("grep max_turns in *.rs", search("max_turns", Some("*.rs"))),
        (
            "Search for the word halter in this repository",
            search("halter", None),
        ),
        ("where is max_turns?", search("max_turns", None)),
        ("look for \"hello world\"", search("hello world", None)),
    ]);
}

#[test]
fn names_to_explain() {
    check(&[
        ("what does parse_config do?", explain("parse_config")),
        ("what does `run()` do", explain("run")),
        ("Explain Engine", explain("Engine")),
        ("how does the scheduler work?", explain("scheduler")),
        ("where is Engine defined?", explain("Engine")),
        ("what is the Engine struct?", explain("Engine")),
    ]);
}

#[test]
fn things_to_count() {
    check(&[
        ("how many files are there?", files("**/*")),
        ("How many rust files are in this repo?", files("**/*.rs")),
        ("count the *.md files", files("**/*.md")),
        ("how many TODOs are there", occurrences("TODOs")),
        ("how many times does unwrap occur?", occurrences("unwrap")),
        (
            "how many lines does src/lib.rs have?",
            Intent::Count(Countable::Lines {
                path: "src/lib.rs".to_owned(),
            }),
        ),
    ]);
}

#[test]
fn commands_to_run() {
    check(&[
        ("run git status", run("git status")),
        ("Run `cargo test -p a` please", run("cargo test -p a")),
        ("execute the command ls -la", run("ls -la")),
        ("$ git log", run("git log")),
        ("could you run ls?", run("ls")),
    ]);
}

#[test]
fn files_to_change() {
    check(&[
        ("write hello to notes.txt", write("notes.txt", "hello")),
        (
            "Write \"a to b\" into out/x.md",
            write("out/x.md", "a to b"),
        ),
        (
            "create a file hello.txt with the text Hello there",
            write("hello.txt", "Hello there"),
        ),
        (
            "create notes.md containing `# Notes`",
            write("notes.md", "# Notes"),
        ),
        (
            "replace foo with bar in src/a.rs",
            edit("src/a.rs", "foo", "bar"),
        ),
        (
            "change \"old name\" to \"new name\" in README.md",
            edit("README.md", "old name", "new name"),
        ),
    ]);
}

#[test]
fn tasks() {
    check(&[
        ("add a task: buy milk", add("buy milk")),
        ("create a task to write tests", add("write tests")),
        ("todo: call home", add("call home")),
        ("list my tasks", Intent::Task(TaskRequest::List)),
        (
            "complete task 3",
            Intent::Task(TaskRequest::Complete { id: 3 }),
        ),
        (
            "mark task #2 as done",
            Intent::Task(TaskRequest::Complete { id: 2 }),
        ),
    ]);
}

#[test]
fn greetings_help_and_the_rest() {
    check(&[
        ("hello", Intent::Greet),
        ("Hi there!", Intent::Greet),
        ("what can you do?", Intent::Help),
        ("help", Intent::Help),
        ("", Intent::Unclear),
        ("prove the Riemann hypothesis", Intent::Unclear),
        ("why?", Intent::Unclear),
    ]);
}

#[test]
fn a_huge_request_is_read_up_to_the_limit() {
    let huge = format!("find {}", "x".repeat(OFFLINE_REQUEST_CHARS * 2));
    let Intent::Search { text, .. } = understand(&huge) else {
        panic!("a search");
    };
    assert_eq!(text.len(), OFFLINE_REQUEST_CHARS - "find ".len());
}

proptest::proptest! {
    #[test]
    fn any_sentence_is_understood_somehow(sentence in "\\PC{0,200}") {
        understand(&sentence);
    }

    #[test]
    fn sentences_of_known_words_are_understood_somehow(
        words in proptest::collection::vec(
            proptest::sample::select(vec![
                "find", "in", "to", "with", "write", "a.rs", "`", "\"x", "how many", "lines", "task",
                "what does", "do", "replace", "the", "*", "*.rs", "run", "?", "'", "“", "ü", "files",
            ]),
            0..12,
        )
    ) {
        understand(&words.join(" "));
    }
}
