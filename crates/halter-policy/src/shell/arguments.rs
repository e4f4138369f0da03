//! Options that make an otherwise harmless program run another.

use super::CommandRefusal;
use super::argument::Argument;
use super::programs::Programs;
use super::variables;

/// The options of a program that are refused.
pub(super) struct Options {
    /// Long options, with their dashes; abbreviations are refused as well.
    pub(super) long: &'static [&'static str],
    /// Letters of short options, also in a cluster such as `-xvI`.
    pub(super) short: &'static str,
    /// Letters that take a value, which ends a cluster.
    pub(super) valued: &'static str,
    /// Words refused by how they start, for programs with their own habits.
    pub(super) starts: &'static [&'static str],
}

pub(super) const NOTHING: Options = Options {
    long: &[],
    short: "",
    valued: "",
    starts: &[],
};

const RG: Options = Options {
    long: &["--pre", "--hostname-bin", "--search-zip"],
    short: "z",
    valued: "ABCdeEfgjmMrtT",
    ..NOTHING
};
const FD: Options = Options {
    long: &["--exec", "--exec-batch"],
    short: "xX",
    valued: "eEtdgjcSo",
    ..NOTHING
};
const SORT: Options = Options {
    long: &["--compress-program"],
    ..NOTHING
};
const SPLIT: Options = Options {
    long: &["--filter"],
    ..NOTHING
};
const INSTALL: Options = Options {
    long: &["--strip-program"],
    ..NOTHING
};
const WGET: Options = Options {
    long: &["--execute", "--use-askpass", "--config"],
    short: "e",
    valued: "oaiBtOTwQPUlADIRX",
    ..NOTHING
};
const BAT: Options = Options {
    long: &["--pager"],
    ..NOTHING
};
const GO: Options = Options {
    starts: &[
        "-exec",
        "--exec",
        "-toolexec",
        "--toolexec",
        "-vettool",
        "--vettool",
    ],
    ..NOTHING
};
const COMPILER: Options = Options {
    starts: &[
        "-wrapper",
        "-fplugin",
        "-fpass-plugin",
        "-fuse-ld",
        "--ld-path",
        "-Xclang",
        "-specs",
        "--specs",
        "-B",
        "@",
    ],
    ..NOTHING
};
const RUSTC: Options = Options {
    starts: &["-Clinker", "--codegen=linker", "linker=", "linker-"],
    ..NOTHING
};
const DIFF: Options = Options {
    long: &["--paginate"],
    short: "l",
    valued: "CUFIxXSWD",
    ..NOTHING
};
const FILE: Options = Options {
    long: &["--uncompress", "--uncompress-noreport"],
    short: "zZ",
    valued: "eFfmP",
    ..NOTHING
};
const CPIO: Options = Options {
    long: &["--rsh-command"],
    ..NOTHING
};
const ZIP: Options = Options {
    long: &["--unzip-command"],
    short: "T",
    ..NOTHING
};
const HG: Options = Options {
    long: &["--config", "--config-file", "--ssh", "--remotecmd"],
    short: "e",
    ..NOTHING
};
const MAKE: Options = Options {
    long: &["--eval"],
    short: "E",
    valued: "CfIjlOoW",
    ..NOTHING
};
const SVN: Options = Options {
    long: &[
        "--diff-cmd",
        "--diff3-cmd",
        "--editor-cmd",
        "--config-option",
        "--config-dir",
    ],
    ..NOTHING
};

pub(super) fn options_of(program: &str) -> Option<&'static Options> {
    Some(match program {
        "rg" => &RG,
        "fd" | "fdfind" => &FD,
        "sort" => &SORT,
        "split" => &SPLIT,
        "install" => &INSTALL,
        "wget" => &WGET,
        "bat" | "batcat" => &BAT,
        "go" => &GO,
        "cc" | "gcc" | "g++" | "c++" | "clang" | "clang++" => &COMPILER,
        "rustc" => &RUSTC,
        "diff" => &DIFF,
        "file" => &FILE,
        "cpio" => &CPIO,
        "zip" => &ZIP,
        "hg" => &HG,
        "svn" => &SVN,
        _ => return None,
    })
}

impl Options {
    /// Fails if one of the options is among the words. Words after `--` are
    /// looked at as well: whether `--` ends the options or is the value of one
    /// is the program's secret.
    pub(super) fn check(&self, words: &[Argument]) -> Result<(), CommandRefusal> {
        match words.iter().find(|word| self.refuses(&word.text)) {
            None => Ok(()),
            Some(word) => Err(runs_another(&word.text)),
        }
    }

    fn refuses(&self, word: &str) -> bool {
        if self.starts.iter().any(|start| word.starts_with(start)) {
            return true;
        }
        if word.starts_with("--") {
            return self.long.iter().any(|long| may_abbreviate(word, long));
        }
        let Some(letters) = word.strip_prefix('-') else {
            return false;
        };
        let flags = letters.find(|letter| self.valued.contains(letter));
        let flags = flags.and_then(|end| letters.get(..end)).unwrap_or(letters);
        flags.contains(|letter| self.short.contains(letter))
    }
}

/// Whether a word is a long option or an abbreviation of it, with or without a
/// value.
pub(super) fn may_abbreviate(word: &str, long: &str) -> bool {
    let name = word.split('=').next().unwrap_or(word);
    name.len() >= 3 && long.starts_with(name)
}

pub(super) fn runs_another(fragment: &str) -> CommandRefusal {
    CommandRefusal::new(
        fragment,
        "this runs another program or writes a file, so it is not accepted; leave it out, or run \
         that program itself",
    )
}

/// Whether a `--` before the word ends the options. One right after an option
/// might be that option's value, unless the option takes none.
pub(super) fn after_end_of_options(words: &[Argument], index: usize) -> bool {
    let before = words.get(..index).unwrap_or_default();
    let first_is_dashes = before.first().is_some_and(|first| first.text == "--");
    let ends = |word: &Argument| !word.text.starts_with('-') || takes_no_value(word);
    let follows_operand = before
        .windows(2)
        .any(|pair| matches!(pair, [word, dashes] if dashes.text == "--" && ends(word)));
    first_is_dashes || follows_operand
}

/// Whether no program takes the word after this option for its value.
fn takes_no_value(option: &Argument) -> bool {
    const FLAGS: [&str; 10] = [
        "--all",
        "--cached",
        "--follow",
        "--graph",
        "--name-only",
        "--name-status",
        "--oneline",
        "--patch",
        "--staged",
        "--stat",
    ];
    let number = option.text.strip_prefix('-').unwrap_or_default();
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let has_value = option.text.starts_with("--") && option.text.contains('=');
    option.is_literal() && (is_number || has_value || FLAGS.contains(&option.text.as_str()))
}

pub(super) fn check_tar(_: Programs<'_>, words: &[Argument]) -> Result<(), CommandRefusal> {
    const TAR: Options = Options {
        long: &[
            "--to-command",
            "--use-compress-program",
            "--checkpoint-action",
            "--rsh-command",
            "--rmt-command",
            "--info-script",
            "--new-volume-script",
        ],
        short: "IF",
        valued: "fbCTXgKNV",
        ..NOTHING
    };
    TAR.check(words)?;
    // The old style: the first word is a cluster without a dash.
    if let Some(first) = words.first()
        && !first.text.starts_with('-')
        && first.text.contains(['I', 'F'])
    {
        return Err(runs_another(&first.text));
    }
    refuse_remote(words)
}

pub(super) fn check_rsync(_: Programs<'_>, words: &[Argument]) -> Result<(), CommandRefusal> {
    const RSYNC: Options = Options {
        long: &[
            "--rsh",
            "--rsync-path",
            "--remote-option",
            "--daemon",
            "--config",
        ],
        short: "eM",
        valued: "BT",
        ..NOTHING
    };
    RSYNC.check(words)?;
    refuse_remote(words)
}

/// `host:file` starts a remote shell.
fn refuse_remote(words: &[Argument]) -> Result<(), CommandRefusal> {
    let remote = |word: &&Argument| {
        let host = word.text.split('/').next().unwrap_or_default();
        // What follows an open word could be the colon.
        let hidden = word.open && !word.plain && !word.text.contains('/');
        host.contains(':') || hidden
    };
    match words.iter().find(remote) {
        None => Ok(()),
        Some(word) => Err(CommandRefusal::new(
            &word.text,
            "files of another machine are reached by a remote shell, which is not accepted",
        )),
    }
}

/// A target runs what the project says, which listing `make` accepts; a
/// variable would let the command say it.
pub(super) fn check_make(_: Programs<'_>, words: &[Argument]) -> Result<(), CommandRefusal> {
    MAKE.check(words)?;
    if let Some(word) = words.iter().find(|word| reads_input(&word.text)) {
        return Err(CommandRefusal::new(
            &word.text,
            "rules that make reads from its input cannot be checked; write them into a file",
        ));
    }
    let sets = |word: &&Argument| {
        (word.text.contains('=') && !sets_number(word)) || (word.open && !word.plain)
    };
    match words.iter().find(sets) {
        None => Ok(()),
        Some(word) => Err(CommandRefusal::new(
            &word.text,
            "variables on make's command line can change what it runs, unless they are numbers; \
             set them in the makefile",
        )),
    }
}

/// `-f -`, also in a cluster of options, and files that are the input.
fn reads_input(text: &str) -> bool {
    let cluster = text.strip_prefix('-').filter(|it| !it.starts_with('-'));
    let valued = cluster.and_then(|it| it.find(|letter| MAKE.valued.contains(letter)));
    let value = cluster
        .zip(valued)
        .and_then(|(cluster, at)| cluster.get(at..));
    let file = value.and_then(|it| it.strip_prefix('f')).unwrap_or(text);
    file == "-" || is_stream(file)
}

/// `V=1`, which names no program.
fn sets_number(word: &Argument) -> bool {
    let Some((name, value)) = word.text.split_once('=') else {
        return false;
    };
    let number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    word.is_literal() && number && variables::refuse(name).is_none()
}

/// Whether a path leads to the devices or to `/proc`, whose files may be what a
/// program reads from a pipe.
pub(super) fn is_stream(path: &str) -> bool {
    let mut above = path.starts_with('/');
    let mut parts = Vec::new();
    for part in path.split('/').filter(|part| !["", "."].contains(part)) {
        if part == ".." {
            // Where a relative path starts is not known.
            above |= parts.pop().is_none();
        } else {
            parts.push(part);
        }
    }
    above
        && parts
            .first()
            .is_some_and(|first| ["dev", "proc"].contains(first))
}

#[cfg(test)]
mod tests {
    use super::{is_stream, reads_input};

    #[test]
    fn input_is_known_however_it_is_named() {
        for text in [
            "-",
            "-f-",
            "-sf-",
            "-kf/dev/stdin",
            "/dev/fd/0",
            "//dev/./stdin",
            "/proc/self/fd/0",
            "../../dev/stdin",
            "/x/../dev/stdin",
            "/dev",
        ] {
            assert!(reads_input(text), "{text}");
        }
        for text in [
            "all",
            "-j4",
            "-fbuild.mk",
            "dev/x.mk",
            "./dev",
            "-C",
            "--file",
            "/devel/x",
        ] {
            assert!(!reads_input(text), "{text}");
        }
        assert!(!is_stream(""));
    }
}
