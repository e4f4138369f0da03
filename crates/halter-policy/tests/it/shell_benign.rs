//! Ordinary work that the judge must accept.

use crate::support::judge;

/// The default list, and what a user may add.
const COMMON: &str = "git cargo rg ls find true cd";
const MORE: &str = "git cargo rg ls find true cd cat echo head tail wc grep sort uniq sed awk xargs \
                    mkdir cp mv rm touch env timeout nice nohup command export unset set printf test [ \
                    make tar python3 node npm npx go diff tr cut date pwd basename sleep rsync \
                    cargo-nextest /usr/bin/id which stdbuf gcc jq false tee uv";

#[test]
fn the_default_list_is_enough_for_everyday_commands() {
    let judge = judge(COMMON);
    let mut refused = Vec::new();
    for command in [
        "",
        "  \n\t ",
        "# only a comment",
        "ls",
        "ls -la",
        "ls -la src tests",
        "ls *.rs",
        "ls src/*.rs tests/**/[a-z]?.rs",
        "ls ~",
        "ls ~/projects",
        "ls 'a file' \"another file\" a\\ third",
        "cd src && ls",
        "cd .. ; ls",
        "true || ls",
        "git status",
        "git status --short\ngit diff --stat",
        "git log --oneline -n 20 | rg fix",
        "git log --format='%h %s' --since='2 weeks ago'",
        "git diff HEAD~1 -- src/main.rs",
        "git show HEAD@{1}",
        "git stash list && git stash show stash@{0}",
        "git add src/lib.rs tests && git commit -m 'Add a thing'",
        "git commit -m \"Fix (a) and (b); don't stop & go\"",
        "git commit -m 'multi\nline\nmessage'",
        "git add ./*.rs",
        "git add -- *.rs",
        "git -C sub status",
        "git --no-pager log -3",
        "git branch -a",
        "git push -u origin main",
        "git push -o ci.skip origin HEAD:refs/heads/topic",
        "git remote add origin git@example.com:team/repo.git",
        "git clone --depth 1 https://example.com/x.git",
        "git config --get user.email",
        "git config --global --list",
        "git grep -n 'std::fs'",
        "git rebase main",
        "cargo build",
        "cargo test -p halter-policy --all-targets",
        "cargo test -- --nocapture --test-threads=1",
        "cargo +nightly fmt --check",
        "cargo -q check",
        "cargo clippy --all-targets -- -D warnings",
        "cargo run --release -- run \"Summarize this repository\"",
        "cargo tree -i serde 2>/dev/null",
        "cargo build 2>&1 | rg '^error'",
        "cargo check >/dev/null 2>&1 && true",
        "cargo check &> /dev/null",
        "ls missing 2> /dev/null || true",
        "rg -n 'fn main' src",
        "rg \"foo$\" -g '*.rs'",
        "rg 'a|b' | rg -v c",
        "rg -tzig pattern",
        "rg --pretty x",
        "rg '\\$HOME' .",
        "rg \"\\$HOME\" .",
        "rg '`code`' README.md",
        "find . -name '*.rs' -not -path './target/*'",
        "find . -type f -exec ls -l {} \\;",
        "find . -type f -exec rg -l pattern {} +",
        "find . \\( -name a -o -name b \\) -print",
        "find ./src -maxdepth 2 -type d | rg policy",
        "git status \\\n  --short",
        "ls |\nrg x &&\nls",
        "ls # a trailing comment",
        "ls; ls;",
        "'ls' -l",
        "\"ls\" -l",
        "l\\s",
    ] {
        if let Err(error) = judge.check(command) {
            refused.push(format!("{command:?}: {error}"));
        }
    }
    assert!(refused.is_empty(), "refused: {refused:#?}");
}

#[test]
fn listed_programs_keep_their_harmless_uses() {
    let judge = judge(MORE);
    let mut refused = Vec::new();
    for command in [
        "echo hello world",
        "echo 'a;b|c&d>e' \"(x)\" {} a=b",
        "echo it\\'s",
        "cat README.md | head -n 20 | tail -5",
        "cat a b | sort -u | uniq -c | sort -rn",
        "wc -l src/*.rs",
        "grep -rn TODO src | wc -l",
        "sed -n '1,20p' src/lib.rs",
        "sed -n '/start/,/end/p' file",
        "sed 's/foo/bar/g' file",
        "sed -E 's|a(b)|\\1|;3d' file",
        "sed -e '$d' -e 's/x/y/' file",
        "awk '{print $1}' file",
        "awk -F: '$3 >= 10 || NR == 1 {print $1, $2}' file",
        "ls | xargs -n 1 basename",
        "ls | xargs -I{} cp {} /tmp/target",
        "rg -l foo | xargs rg bar --",
        "rg -l0 foo | xargs -0 wc -l",
        "mkdir -p a/b && cp x a/b && mv a/b/x y && rm y",
        "env",
        "env -i ls",
        "timeout 5 cargo test",
        "timeout -k 1 --signal=KILL 5s ls",
        "nice -n 10 cargo build",
        "nohup cargo build",
        "stdbuf -oL cargo test",
        "command -v rg",
        "command ls",
        "export FOO=bar RUST_LOG=debug",
        "export FOO",
        "unset FOO",
        "set -euo pipefail",
        "set -o pipefail; ls",
        "printf '%s\\n' a b",
        "test -f Cargo.toml && ls",
        "[ -d src ] && ls src",
        "make build -j4",
        "make -C sub test",
        "tar czf out.tgz src",
        "tar -xvf in.tar -C dir",
        "python3 script.py --flag",
        "python3 -m pytest -x tests",
        "python3 --version",
        "node build.js",
        "npm test",
        "npm run build -- -c prod",
        "go test ./...",
        "gcc -O2 -c main.c",
        "rsync -av src/ dst/",
        "find . -name '*.tmp' -delete",
        "find . -type f -execdir touch {} \\;",
        "cargo nextest run",
        "/usr/bin/id",
        "/usr/bin/id -u",
        "jq '.a | .b' file.json",
        "ls | tee /dev/null",
        "sort < /dev/null",
        "date +%s; pwd",
        "true && false || echo done",
        "node --test tests",
        "find . -name '*.rs' -exec sed -n 1p {} \\;",
        "find . -name '*.rs' -exec git log --oneline -- {} \\;",
        "git ls-files | xargs git blame HEAD --",
        "uv run ls",
        "uv sync",
    ] {
        if let Err(error) = judge.check(command) {
            refused.push(format!("{command:?}: {error}"));
        }
    }
    assert!(refused.is_empty(), "refused: {refused:#?}");
}
