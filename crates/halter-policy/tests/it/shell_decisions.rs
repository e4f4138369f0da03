//! What is asked about, and what the file policy says of a command line.

use std::os::unix::fs::symlink;

use halter_policy::limits::{
    MAX_NAMED_FILES, MAX_PATTERN_DEPTH, MAX_PATTERN_LINKS, MAX_PATTERN_NAMES,
};
use halter_policy::shell::{ShellDecision, default_programs, git_environment};
use halter_policy::{Permissions, PolicySettings, ProgramList, ShellJudge};

use crate::support::{Session, judge};

fn rule(decision: &ShellDecision) -> (&'static str, &'static str) {
    match decision {
        ShellDecision::Allow => ("allow", ""),
        ShellDecision::Ask(why) => ("ask", why.rule),
        ShellDecision::Deny(why) => ("deny", why.rule),
    }
}

#[test]
fn forms_that_throw_work_away_are_asked_about_whatever_is_listed() {
    for list in ["git rm find dd truncate rsync timeout xargs", "*"] {
        let judge = judge(list);
        for (command, expected) in [
            ("git reset --hard", "git_reset_hard"),
            ("git -C sub reset --hard HEAD~1", "git_reset_hard"),
            ("git clean -fdx", "git_clean"),
            ("git push --force", "git_push_force"),
            ("git push -f origin main", "git_push_force"),
            ("git push --force-with-lease", "git_push_force"),
            ("git push origin +main", "git_push_force"),
            ("git push origin :topic", "git_push_force"),
            ("git checkout -- .", "git_checkout"),
            ("git checkout .", "git_checkout"),
            ("git restore src", "git_restore"),
            ("git branch -D topic", "git_branch_delete"),
            ("git stash clear", "git_stash"),
            ("rm -rf build", "rm"),
            ("rm -r build", "rm"),
            ("find . -name x -delete", "find_delete"),
            ("dd if=/dev/zero of=disk", "dd"),
            ("truncate -s 0 file", "truncate"),
            ("rsync -a --delete a/ b/", "rsync_delete"),
            ("timeout 5 rm -rf x", "rm"),
            ("find . -exec rm -rf {} \\;", "rm"),
            ("if git status; then git reset --hard; fi", "git_reset_hard"),
            ("git status $(git clean -fd)", "git_clean"),
        ] {
            let decision = judge.decide(command);
            let expected = format!("shell.destructive.{expected}");
            assert_eq!(rule(&decision), ("ask", &*expected), "{list}: {command}");
            assert!(judge.check(command).is_ok(), "asking is the caller's part");
        }
        for command in [
            "git reset HEAD~1",
            "git clean -n",
            "git push -u origin main",
            "git checkout main",
            "git checkout -b topic",
            "git restore --staged src",
            "git branch -d merged",
            "git stash pop",
            "rm file",
            "rm -f file",
            "find . -name x",
        ] {
            assert_eq!(rule(&judge.decide(command)), ("allow", ""), "{command}");
        }
    }
}

#[test]
fn the_built_in_list_asks_beyond_what_reads() {
    let judge = ShellJudge::new(ProgramList::Default);
    for command in [
        "git status",
        "cargo test",
        "cat README.md | head -5",
        "grep -rn TODO src | sort | uniq -c",
        "sed -n 1,5p f; awk '{print $1}' f; diff a b",
        "for f in src/*.rs; do wc -l \"$f\"; done",
        "if [ -f x ]; then echo yes; fi",
    ] {
        assert_eq!(rule(&judge.decide(command)), ("allow", ""), "{command}");
    }
    for command in [
        "make",
        "npm test",
        "node x.js",
        "python3 x.py",
        "pytest",
        "go build",
        "rm x",
        "curl https://x",
        "./script.sh",
        "ls; make",
        "timeout 5 make",
    ] {
        let expected = ("ask", "shell.unlisted");
        assert_eq!(rule(&judge.decide(command)), expected, "{command}");
    }
    assert_eq!(
        rule(&judge.decide("sed -i s/a/b/ f")),
        ("ask", "shell.in_place")
    );
    // What is never offered is denied at once.
    for command in ["eval ls", "PATH=. ls", "ls (", "$x", "make; eval ls"] {
        assert_eq!(rule(&judge.decide(command)).0, "deny", "{command}");
    }
    let seven = ["git", "cargo", "rg", "ls", "find", "true", "cd"];
    let names = default_programs();
    assert!(seven.iter().all(|name| names.iter().any(|it| it == name)));
}

#[test]
fn files_that_a_command_names_pass_the_door() {
    let session = Session::with(
        |_| PolicySettings {
            allowed_shell_commands: vec!["*".to_owned()].into(),
            ..PolicySettings::default()
        },
        |_| {},
    );
    std::fs::write(session.work(".env"), "key").unwrap();
    std::fs::write(session.work("plain"), "text").unwrap();
    std::fs::create_dir_all(session.work(".git/hooks")).unwrap();
    std::fs::create_dir(session.work("links")).unwrap();
    symlink("../../outside/secret", session.work("links/link")).unwrap();
    let outside = session.outside("secret").display().to_string();
    let decide = |command: &str| session.policy.decide_shell_command(command, None);
    for (command, expected) in [
        ("rg . .env".to_owned(), "sensitive_path"),
        ("cat ./.env".to_owned(), "sensitive_path"),
        ("grep -r key .e*".to_owned(), "sensitive_path"),
        ("cat < .env".to_owned(), "sensitive_path"),
        ("git grep --no-index key .env".to_owned(), "sensitive_path"),
        (
            "git diff --no-index /dev/null .env".to_owned(),
            "sensitive_path",
        ),
        ("true && (head .env)".to_owned(), "sensitive_path"),
        ("cp .env copy".to_owned(), "sensitive_path"),
        ("find . -exec cat .env \\;".to_owned(), "sensitive_path"),
        ("cat links/link".to_owned(), "symlink_escape"),
        (format!("cat {outside}"), "not_in_root"),
        (format!("echo x > {outside}"), "not_in_root"),
        (format!("tee {outside}"), "not_in_root"),
        ("cd / && ls".to_owned(), "not_in_root"),
        ("cp plain ../x".to_owned(), "parent_traversal"),
        (
            "echo x > .git/hooks/pre-commit".to_owned(),
            "sensitive_path",
        ),
        ("cp plain .git/config".to_owned(), "sensitive_path"),
        ("git apply --directory=.git p".to_owned(), "sensitive_path"),
    ] {
        let decision = decide(&command);
        assert_eq!(rule(&decision), ("deny", expected), "{command}");
    }
    for command in [
        "cat plain missing",
        "echo x > new; cat < plain > sub/new 2>/dev/null",
        "ls . src/*",
        "cat *",
        "echo x >&2",
        "cat /dev/null",
        "mkdir -p a/b && cd a/b && ls",
        "for f in *; do cat \"$f\"; done",
    ] {
        assert_eq!(rule(&decide(command)), ("allow", ""), "{command}");
    }
    assert_eq!(
        rule(&decide("echo x > \"$file\"")),
        ("ask", "shell.redirection_target")
    );
}

#[test]
fn git_is_told_to_run_nothing() {
    let variables = git_environment();
    let value = |name: &str| {
        let found = variables.iter().find(|(it, _)| it == name);
        found.map(|(_, value)| value.as_str()).unwrap()
    };
    let count: usize = value("GIT_CONFIG_COUNT").parse().unwrap();
    let settings: Vec<_> = (0..count)
        .map(|index| {
            let key = value(&format!("GIT_CONFIG_KEY_{index}"));
            (key, value(&format!("GIT_CONFIG_VALUE_{index}")))
        })
        .collect();
    assert!(settings.contains(&("core.fsmonitor", "false")));
    assert!(settings.contains(&("core.hooksPath", "/dev/null")));
    assert_eq!(value("GIT_PAGER"), "cat");
}

/// A session that may run everything, with `sub`, `.env` and `plain` in its
/// directory, at home outside of it.
fn place() -> Session {
    let session = Session::with(
        |root| PolicySettings {
            allowed_shell_commands: vec!["*".to_owned()].into(),
            permissions: Permissions {
                home: Some(root.join("outside")),
                ..Permissions::default()
            },
            ..PolicySettings::default()
        },
        |_| {},
    );
    std::fs::create_dir_all(session.work("sub/.ssh/deep")).unwrap();
    std::fs::write(session.work(".env"), "key").unwrap();
    std::fs::write(session.work("plain"), "text").unwrap();
    symlink("../../outside/secret", session.work("sub/link")).unwrap();
    symlink("sub/.ssh/deep", session.work("through")).unwrap();
    session
}

#[test]
fn files_are_looked_for_where_the_shell_is() {
    let session = place();
    for (directory, command, expected) in [
        ("outside", "cat secret", ("deny", "not_in_root")),
        ("outside", "cat ../work/plain", ("deny", "parent_traversal")),
        (
            "outside",
            "cd ../work && cat plain",
            ("deny", "parent_traversal"),
        ),
        ("work/sub", "cat ../plain", ("allow", "")),
        ("work/sub", "cat ../.env", ("deny", "sensitive_path")),
        (
            "work/sub",
            "cat ../../outside/secret",
            ("deny", "parent_traversal"),
        ),
        ("work/sub", "cd .. && cat .env", ("deny", "sensitive_path")),
    ] {
        let directory = session.root().join(directory);
        let decision = session
            .policy
            .decide_shell_command(command, Some(&directory));
        assert_eq!(rule(&decision), expected, "{directory:?}: {command}");
    }
    let relative = Some(std::path::Path::new("sub"));
    let decision = session
        .policy
        .decide_shell_command("cat ../plain", relative);
    assert_eq!(rule(&decision), ("allow", ""));
}

#[test]
fn cd_is_followed_through_a_line_and_asked_about_where_it_cannot_be() {
    let session = place();
    let decide = |command: &str| session.policy.decide_shell_command(command, None);
    for (command, expected) in [
        ("cd sub && cat ../.env", ("deny", "sensitive_path")),
        ("cd sub; cat link", ("deny", "symlink_escape")),
        ("cd sub && cat ../plain", ("allow", "")),
        ("cd sub || exit 1; cat ../plain", ("allow", "")),
        ("cd sub && cd - && cat plain", ("allow", "")),
        (
            "pushd sub && cat ../plain && popd && cat plain",
            ("allow", ""),
        ),
        ("(cd sub && cat ../plain); cat plain", ("allow", "")),
        ("for f in a b; do cat plain; done", ("allow", "")),
        ("f() { cat plain; }; f; cat plain", ("allow", "")),
        (
            "for d in sub; do (cd $d && cat ../plain); done",
            ("allow", ""),
        ),
        ("bash -c 'cat plain'", ("allow", "")),
        ("bash -c 'cat .env'", ("deny", "sensitive_path")),
        ("cat through/../config", ("deny", "sensitive_path")),
        (
            "git -C sub diff --no-index ../.env x",
            ("deny", "sensitive_path"),
        ),
        ("tar cf a.tar -C sub ../.env", ("deny", "sensitive_path")),
        ("cd sub; cat ../x", ("deny", "parent_traversal")),
        (
            "command cd sub && cat plain",
            ("ask", "shell.unknown_directory"),
        ),
        ("cd \"$x\" && cat plain", ("ask", "shell.unknown_directory")),
        ("cd \"$x\" && cat .env", ("deny", "sensitive_path")),
        ("cd \"$x\" && ls", ("allow", "")),
        (
            "for d in a b; do cd $d; cat plain; done",
            ("ask", "shell.unknown_directory"),
        ),
        (
            "f() { cat plain; }; cd sub && f",
            ("ask", "shell.unknown_directory"),
        ),
        (
            "f() { cd sub; }; f; cat plain",
            ("ask", "shell.unknown_directory"),
        ),
        ("trap 'cat plain' EXIT", ("ask", "shell.unknown_directory")),
    ] {
        assert_eq!(rule(&decide(command)), expected, "{command}");
    }
}

#[test]
fn home_directories_and_the_own_one_are_written_out() {
    let session = place();
    let decide = |command: &str| session.policy.decide_shell_command(command, None);
    for (command, expected) in [
        ("cat ~/secret", "not_in_root"),
        ("cat $HOME/secret", "not_in_root"),
        ("cat \"${HOME}/secret\"", "not_in_root"),
        ("cd && cat secret", "not_in_root"),
        ("cd; ls", "not_in_root"),
        ("cat $(pwd)/.env", "sensitive_path"),
        ("cat \"$d\"/.env", "sensitive_path"),
        (
            "cat $(git rev-parse --show-toplevel)/../.ssh/key",
            "sensitive_path",
        ),
        ("date -f .env", "sensitive_path"),
        ("file -f.env", "sensitive_path"),
        ("du --files0-from=.env", "sensitive_path"),
        ("git add .env", "sensitive_path"),
        ("cd ~ && ls", "not_in_root"),
        ("echo x > ~/secret", "not_in_root"),
        ("tar xf a.tar --directory=$HOME", "not_in_root"),
        ("cat ~root/x", "shell.home"),
        ("cat \"$PWD/.env\"", "sensitive_path"),
        ("cat ~+/.env", "sensitive_path"),
        ("cat /etc/$x", "not_in_root"),
        ("cat ../$x", "parent_traversal"),
    ] {
        assert_eq!(rule(&decide(command)), ("deny", expected), "{command}");
    }
    for command in [
        "cat \"$PWD/plain\"",
        "cat \"$f\"",
        "cat sub/$f",
        "echo ~root",
    ] {
        assert_eq!(rule(&decide(command)), ("allow", ""), "{command}");
    }
}

#[test]
fn a_pattern_stands_for_the_files_it_matches() {
    let session = place();
    let decide = |command: &str| session.policy.decide_shell_command(command, None);
    for (command, expected) in [
        ("cat .e*", "sensitive_path"),
        ("cat \".e\"*", "sensitive_path"),
        ("cat .[e]nv", "sensitive_path"),
        ("cat .??v", "sensitive_path"),
        ("cat .*", "sensitive_path"),
        ("cat s*/l*", "symlink_escape"),
        ("cat sub/*", "symlink_escape"),
        ("cat sub/.s*/x", "sensitive_path"),
        ("cd sub && cat ../.e*", "sensitive_path"),
        ("for f in .e*; do cat \"$f\"; done", "sensitive_path"),
        ("cat /etc/pass*", "not_in_root"),
        ("cat ~/s*", "not_in_root"),
    ] {
        assert_eq!(rule(&decide(command)), ("deny", expected), "{command}");
    }
    for command in ["cat p*", "ls -d s*", "cat .x*", "ls '.e*'"] {
        assert_eq!(rule(&decide(command)), ("allow", ""), "{command}");
    }
    std::fs::create_dir_all(session.work("deep/er/est")).unwrap();
    std::fs::write(session.work("deep/er/est/id_rsa"), "key").unwrap();
    assert_eq!(rule(&decide("cat deep/**")), ("deny", "sensitive_path"));
    assert_eq!(rule(&decide("cat deep/**/*.rs")), ("allow", ""));
    let long = format!("cat .{}", "*".repeat(500));
    assert_eq!(rule(&decide(&long)), ("deny", "sensitive_path"));
    std::fs::remove_file(session.work(".env")).unwrap();
    assert_eq!(rule(&decide("cat .e*")), ("allow", ""));
    std::fs::create_dir(session.work("many")).unwrap();
    for index in 0..=MAX_PATTERN_NAMES {
        std::fs::write(session.work(&format!("many/{index}")), "").unwrap();
    }
    let many = |count| rule(&decide(&format!("cat{}", " p".repeat(count))));
    assert_eq!(many(MAX_NAMED_FILES), ("allow", ""));
    assert_eq!(many(MAX_NAMED_FILES + 1), ("ask", "shell.too_many_files"));
    let wide = ("ask", "shell.pattern_too_wide");
    assert_eq!(rule(&decide(&format!("cat {}", "*".repeat(5000)))), wide);
    assert_eq!(rule(&decide("cat many/*")), wide);
    std::fs::create_dir(session.work("links")).unwrap();
    for index in 0..=MAX_PATTERN_LINKS {
        symlink("../plain", session.work(&format!("links/{index}"))).unwrap();
    }
    assert_eq!(rule(&decide("cat links/*")), wide);
    std::fs::remove_file(session.work("links/0")).unwrap();
    assert_eq!(rule(&decide("cat links/*")), ("allow", ""));
    let within = format!("tall{}", "/d".repeat(MAX_PATTERN_DEPTH - 1));
    std::fs::create_dir_all(session.work(&within)).unwrap();
    assert_eq!(rule(&decide("cat tall/**")), ("allow", ""));
    std::fs::create_dir_all(session.work(&format!("{within}/d"))).unwrap();
    assert_eq!(rule(&decide("cat tall/**")), wide);
}

#[test]
fn a_person_who_is_asked_about_a_program_decides_about_its_arguments() {
    let judge = ShellJudge::new(ProgramList::Default);
    for command in [
        "python3 -c 'import os'",
        "bash build.sh",
        "node -e 1",
        "sudo ls",
        "make CC=x",
        "npm test $x",
    ] {
        let expected = ("ask", "shell.unlisted");
        assert_eq!(rule(&judge.decide(command)), expected, "{command}");
    }
    for command in ["bash -c 'eval x'", "PATH=. make", "env LD_PRELOAD=x make"] {
        assert_eq!(rule(&judge.decide(command)).0, "deny", "{command}");
    }
}
