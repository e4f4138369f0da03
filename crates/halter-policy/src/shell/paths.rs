//! Which of a program's arguments name files, and what it does with them.
//!
//! This is for the file policy, which says why something is refused; it need
//! not be complete, since the sandbox is the wall behind it.

mod git;

use super::argument::Argument;
use super::known_path::KnownPath;
use super::known_programs::family;
use super::parts::{PathAccess, PathUse};

use PathAccess::{Delete, List, Read, Write};

/// The files a command names.
pub(super) fn of(arguments: &[Argument]) -> Vec<PathUse> {
    let Some((program, rest)) = arguments.split_first() else {
        return Vec::new();
    };
    let uses = Uses {
        words: rest,
        found: Vec::new(),
        base: KnownPath::default(),
    };
    uses.of(family(&program.text))
}

struct Uses<'w> {
    words: &'w [Argument],
    found: Vec<PathUse>,
    /// Where the program goes before it opens the files named next; empty:
    /// nowhere.
    base: KnownPath,
}

impl<'w> Uses<'w> {
    fn of(mut self, program: &str) -> Vec<PathUse> {
        match program {
            "cat" | "tac" | "wc" | "nl" | "rev" | "stat" | "md5sum" | "sha1sum" | "sha256sum"
            | "sha512sum" | "cksum" | "od" | "hexdump" | "strings" | "base64" | "diff" | "cmp"
            | "comm" | "paste" | "join" | "column" | "fold" | "fmt" | "expand" | "readlink"
            | "bat" | "less" | "more" | "zcat" | "xzcat" | "bzcat" => {
                self.readers("");
            }
            "file" => {
                self.options(&[("-f", Read), ("--files-from", Read)]);
                self.readers("");
            }
            "date" => self.options(&[("-f", Read), ("--file", Read)]),
            "head" | "tail" => self.readers("nc"),
            "cut" => self.readers("dfbc"),
            "uniq" => self.reader_and_writer("fsw"),
            "xxd" => self.reader_and_writer("clgso"),
            "sort" => self.readers("ktSoT"),
            "ls" | "tree" | "du" | "dir" => {
                self.options(&[("--files0-from", Read), ("--exclude-from", Read)]);
                if program == "tree" {
                    self.options(&[("-o", Write)]);
                }
                self.all(List, "IwTLP");
            }
            "cd" if self.operands("").is_empty() => {
                let home = Argument {
                    path: KnownPath::home(),
                    home: true,
                    ..Argument::default()
                };
                self.add(&home, List);
            }
            "cd" | "pushd" => self.all(List, ""),
            "grep" | "egrep" | "fgrep" => self.searchers("efmABCdD"),
            "rg" | "ag" | "ack" => self.searchers("efgABCmdtTjMEr"),
            "sed" => self.sed(),
            "awk" | "gawk" | "mawk" | "nawk" | "jq" | "yq" => self.scripted("FvfI"),
            "find" => self.find(),
            "fd" | "fdfind" => self.scripted("eEtdjcSo"),
            "cp" | "install" | "rsync" => self.copy(Read),
            "mv" => self.copy(Delete),
            "ln" => self.copy(Read),
            "rm" | "rmdir" | "unlink" | "shred" => self.all(Delete, ""),
            "mkdir" => self.all(Write, "m"),
            "touch" => self.all(Write, "dtr"),
            "truncate" => self.all(Write, "sr"),
            "tee" | "mkfifo" | "gzip" | "gunzip" | "xz" | "unxz" | "bzip2" | "patch" => {
                self.all(Write, "");
            }
            "chmod" | "chown" | "chgrp" | "setfacl" => self.changed(),
            "dd" => self.dd(),
            "tar" | "bsdtar" => self.tar(),
            "zip" => self.zip(),
            "unzip" => self.unzip(),
            "curl" => self.curl(),
            "wget" => self.options(&[
                ("-O", Write),
                ("--output-document", Write),
                ("-P", Write),
                ("--directory-prefix", Write),
                ("-i", Read),
                ("--post-file", Read),
                ("--body-file", Read),
            ]),
            "cargo" => self.options(&[
                ("--target-dir", Write),
                ("--manifest-path", Read),
                ("--path", Read),
                ("--root", Write),
                ("-C", List),
            ]),
            "make" | "gmake" => self.options(&[
                ("-C", List),
                ("--directory", List),
                ("-f", Read),
                ("--file", Read),
                ("--makefile", Read),
            ]),
            "npm" | "pnpm" | "yarn" => self.options(&[("--prefix", Write), ("-C", List)]),
            "go" => self.options(&[("-C", List), ("-o", Write)]),
            "gcc" | "g++" | "cc" | "c++" | "clang" | "clang++" | "rustc" => {
                self.options(&[("-o", Write), ("--out-dir", Write)]);
            }
            "python" | "node" | "ruby" | "perl" | "php" | "lua" | "bash" | "sh" | "zsh"
            | "dash" => self.interpreter(),
            "git" => git::paths(&mut self),
            _ => {}
        }
        self.found
    }

    fn add(&mut self, word: &Argument, access: PathAccess) {
        // `-` is a stream.
        if word.text != "-" || word.open {
            let mut path = word.as_part();
            if self.base != KnownPath::default() {
                path.path = path.path.within(&self.base);
            }
            self.found.push(PathUse { path, access });
        }
    }

    /// A value attached to an option.
    fn add_text(&mut self, word: &Argument, text: &str, access: PathAccess) {
        let mut value = word.clone();
        value.text = text.to_owned();
        value.raw = text.to_owned();
        value.path = word.path.after(word.text.len() - text.len());
        self.add(&value, access);
    }

    /// The program works in this directory from here on.
    fn enter(&mut self, directory: &Argument) {
        self.add(directory, List);
        self.base = match self.base == KnownPath::default() {
            true => directory.path.clone(),
            false => directory.path.within(&self.base),
        };
    }

    /// Words that are no options and no values of these short options.
    fn operands(&self, valued: &str) -> Vec<&'w Argument> {
        let mut operands = Vec::new();
        let mut words = self.words.iter();
        let mut ended = false;
        while let Some(word) = words.next() {
            let text = word.text.as_str();
            if ended || !text.starts_with('-') || text == "-" {
                operands.push(word);
            } else if text == "--" {
                ended = true;
            } else if !text.starts_with("--") && text.ends_with(|last| valued.contains(last)) {
                words.next();
            }
        }
        operands
    }

    fn all(&mut self, access: PathAccess, valued: &str) {
        for word in self.operands(valued) {
            self.add(word, access);
        }
    }

    fn readers(&mut self, valued: &str) {
        self.options(&[
            ("--output", Write),
            ("--files0-from", Read),
            ("--from-file", Read),
        ]);
        if valued.contains('T') {
            self.options(&[("-o", Write), ("-T", Write)]);
        }
        self.all(Read, valued);
    }

    /// A file that is read, then one that is written.
    fn reader_and_writer(&mut self, valued: &str) {
        for (index, word) in self.operands(valued).into_iter().enumerate() {
            self.add(word, if index == 0 { Read } else { Write });
        }
    }

    fn searchers(&mut self, valued: &str) {
        self.options(&[
            ("-f", Read),
            ("--file", Read),
            ("--ignore-file", Read),
            ("--exclude-from", Read),
        ]);
        let words = self.words;
        for word in words {
            // `-f` with its file, also behind other letters.
            let cluster = word
                .text
                .strip_prefix('-')
                .filter(|it| !it.starts_with('-'));
            let at = cluster.and_then(|it| it.find(|letter| valued.contains(letter)));
            let value = cluster.zip(at).and_then(|(it, at)| it.get(at..));
            let file = value.and_then(|it| it.strip_prefix('f'));
            if let Some(file) = file.filter(|it| !it.is_empty()) {
                self.add_text(word, file, Read);
            }
        }
        let has = |short: char, long: &str| {
            self.words.iter().any(|word| {
                let text = word.text.as_str();
                text.starts_with(long)
                    || (text.starts_with('-') && !text.starts_with("--") && text.contains(short))
            })
        };
        let no_pattern = has('e', "--regexp") || has('f', "--file") || has('\0', "--files");
        let operands = self.operands(valued);
        let skipped = usize::from(!no_pattern);
        for word in operands.into_iter().skip(skipped) {
            self.add(word, Read);
        }
    }

    /// A script, then files.
    fn scripted(&mut self, valued: &str) {
        self.options(&[("-f", Read), ("--from-file", Read)]);
        for word in self.operands(valued).into_iter().skip(1) {
            // awk takes `name=value` between files.
            if !word.text.contains('=') {
                self.add(word, Read);
            }
        }
    }

    fn sed(&mut self) {
        let options = || {
            self.words
                .iter()
                .map(|word| word.text.as_str())
                .filter(|text| text.starts_with('-'))
        };
        let in_place = options().any(|text| {
            text.starts_with("--in-place") || (!text.starts_with("--") && text.contains('i'))
        });
        let given = options().any(|text| {
            text.starts_with("--expression") || (!text.starts_with("--") && text.ends_with('e'))
        });
        let access = if in_place { Write } else { Read };
        let operands = self.operands("e");
        for word in operands.into_iter().skip(usize::from(!given)) {
            self.add(word, access);
        }
    }

    fn find(&mut self) {
        let expression =
            |word: &&Argument| word.text.starts_with(['-', '(', '!']) && word.text.len() < 12;
        let deletes = self.words.iter().any(|word| word.text == "-delete");
        let access = if deletes { Delete } else { List };
        let words = self.words;
        for word in words.iter().take_while(|word| !expression(word)) {
            self.add(word, access);
        }
        self.options(&[("-newer", Read), ("-samefile", Read)]);
    }

    /// Sources, then where they go.
    fn copy(&mut self, sources: PathAccess) {
        let before = self.found.len();
        self.options(&[("-t", Write), ("--target-directory", Write)]);
        let into = self.found.len() > before;
        let mut operands = self.operands("tSmog");
        if !into && let Some(target) = operands.pop() {
            self.add(target, Write);
        }
        for word in operands {
            self.add(word, sources);
        }
    }

    /// A mode or an owner, then files.
    fn changed(&mut self) {
        for word in self.operands("").into_iter().skip(1) {
            self.add(word, Write);
        }
    }

    fn dd(&mut self) {
        let words = self.words;
        for word in words {
            for (start, access) in [("if=", Read), ("of=", Write)] {
                if let Some(path) = word.text.strip_prefix(start) {
                    self.add_text(word, path, access);
                }
            }
        }
    }

    fn tar(&mut self) {
        let words = self.words;
        let first = words.first().map_or("", |word| word.text.as_str());
        let cluster = first.strip_prefix('-').unwrap_or(first);
        let writes = |letter| {
            (!first.starts_with("--") && cluster.contains(letter))
                || words.iter().any(|word| word.text == format!("-{letter}"))
        };
        let creates = writes('c')
            || writes('r')
            || writes('u')
            || words.iter().any(|word| word.text == "--create");
        let (archive, members, place) = if creates {
            (Write, Read, List)
        } else {
            (Read, List, Write)
        };
        self.options(&[
            ("-f", archive),
            ("--file", archive),
            ("-C", place),
            ("--directory", place),
            ("-T", Read),
            ("-X", Read),
        ]);
        let named = words
            .iter()
            .any(|word| word.text == "-f" || word.text.starts_with("--file"));
        let mut operands = self.operands("fCTXbgKNV");
        if !first.starts_with('-') && !operands.is_empty() {
            operands.remove(0);
        }
        // `tar czf archive …`: the cluster takes the next word.
        if !named && cluster.contains('f') && !first.starts_with("--") {
            let file = if first.starts_with('-') {
                words.get(1)
            } else {
                (!operands.is_empty()).then(|| operands.remove(0))
            };
            if let Some(file) = file {
                self.add(file, archive);
            }
        }
        if creates {
            let place = words.iter().position(|word| word.text == "-C");
            if let Some(directory) = place.and_then(|at| words.get(at + 1)) {
                self.enter(directory);
            }
            for word in operands {
                self.add(word, members);
            }
        }
    }

    fn zip(&mut self) {
        for (index, word) in self.operands("bnti").into_iter().enumerate() {
            self.add(word, if index == 0 { Write } else { Read });
        }
    }

    fn curl(&mut self) {
        self.options(&[
            ("-o", Write),
            ("--output", Write),
            ("-T", Read),
            ("--upload-file", Read),
            ("-K", Read),
            ("--config", Read),
            ("--netrc-file", Read),
            ("-b", Read),
            ("-c", Write),
        ]);
        // `@file` and `name=@file` are sent.
        let words = self.words;
        for word in words {
            let value = word.text.strip_prefix("-d").unwrap_or(&word.text);
            let sent = value.strip_prefix('@').or_else(|| {
                let (_, file) = value.split_once("=@").or(value.split_once("=<"))?;
                Some(file.split(';').next().unwrap_or(file))
            });
            if let Some(file) = sent
                && word.text.ends_with(file)
            {
                self.add_text(word, file, Read);
            } else if let Some(file) = sent {
                // Its type follows.
                let mut path = KnownPath::default();
                path.push(file);
                let named = Argument {
                    text: file.to_owned(),
                    path,
                    ..word.clone()
                };
                self.add(&named, Read);
            }
        }
    }

    fn unzip(&mut self) {
        self.options(&[("-d", Write)]);
        if let Some(first) = self.operands("dxP").first() {
            self.add(first, Read);
        }
    }

    fn interpreter(&mut self) {
        let words = self.words;
        let code = words
            .iter()
            .any(|word| ["-c", "-e", "-m"].contains(&word.text.as_str()));
        if !code && let Some(script) = self.operands("").first() {
            self.add(script, Read);
        }
    }

    /// Values of options, attached or as the next word.
    fn options(&mut self, options: &[(&str, PathAccess)]) {
        let words = self.words;
        for (index, word) in words.iter().enumerate() {
            let text = word.text.as_str();
            for (option, access) in options {
                if text == *option && !word.open {
                    if let Some(value) = words.get(index + 1) {
                        self.add(value, *access);
                    }
                    continue;
                }
                let Some(rest) = text.strip_prefix(option) else {
                    continue;
                };
                let attached = match option.starts_with("--") {
                    true => rest.strip_prefix('='),
                    false => Some(rest),
                };
                // A single dash and several letters is a long option of some.
                if let Some(attached) = attached
                    && option.len() != 2
                    && option.starts_with("--")
                {
                    self.add_text(word, attached, *access);
                } else if option.len() == 2 && rest.starts_with(['/', '.']) {
                    self.add_text(word, rest, *access);
                }
            }
        }
    }
}
