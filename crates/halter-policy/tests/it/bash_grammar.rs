//! Command lines from a grammar of bash, with tricks among them.

/// A small generator of random numbers, so that a seed says it all.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % (bound as u64)).unwrap()
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    fn once_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }
}

/// Programs that are listed. `aa` and `bb` do nothing.
pub const LISTED: &str = "aa bb cat echo true false : [ test printf read export unset local \
     declare let set shopt trap cd find xargs env timeout command wait break continue mapfile \
     getopts head seq ls wc sort sed awk sleep nice git";

/// `zz` is not listed.
const PROGRAMS: &[&str] = &[
    "aa", "aa", "aa", "bb", "bb", "echo", "echo", "cat", "true", "false", ":", "printf", "head",
    "ls", "wc", "sort", "seq", "'aa'", "\"bb\"", "a\\a", "a''a", "$'aa'", "aa\\\n", "\\bb",
];
const TRICKS: &[&str] = &[
    "zz",
    "z''z",
    "$'zz'",
    "\\zz",
    "$x",
    "${x}",
    "$(echo zz)",
    "`echo zz`",
    "{zz,aa}",
    "z?",
    "./zz",
    "eval",
    "exec",
    ".",
    "command zz",
    "env zz",
    "$'\\x7az'",
    "\"$x\"",
    "zz\\\n",
    "$1",
    "${!q}",
];
const WRAPPERS: &[&str] = &[
    "env",
    "command",
    "timeout 1",
    "nice",
    "xargs",
    "xargs -n1",
    "env A=1",
    "command -p",
    "timeout -k 1 1",
    "env -i",
    "nice -n 1",
    "env -u A",
    "command --",
    "xargs -I{}",
];
const ARGUMENTS: &[&str] = &[
    "a",
    "b",
    "-n",
    "--",
    "'a b'",
    "\"a b\"",
    "a\\ b",
    "$v",
    "\"$v\"",
    "${v}",
    "\"${v}\"",
    "$w",
    "\"$w\"",
    "$o",
    "$n",
    "\"$n\"",
    "${n}",
    "$x",
    "\"$x\"",
    "$y",
    "*",
    "./*",
    "?",
    "[ab]",
    "~",
    "{a,b}",
    "{1..3}",
    "x{a,b}y",
    "$?",
    "$#",
    "$$",
    "\"$@\"",
    "$@",
    "$*",
    "\"${arr[@]}\"",
    "${arr[0]}",
    "${#arr[@]}",
    "${v:-a}",
    "${u:-a}",
    "${v%a}",
    "${v#a}",
    "${v/a/b}",
    "${v^^}",
    "${#v}",
    "${v:0:1}",
    "${v@Q}",
    "${v@P}",
    "${!q}",
    "${!arr[@]}",
    "$'a\\nb'",
    "$'a\\tb'",
    "\"`echo a`\"",
    "a=b",
    "'$(zz)'",
    "\"\\$(zz)\"",
    "'`zz`'",
    "\\$\\(zz\\)",
    "#",
    "a#b",
    "'#'",
    "!",
    "\"!\"",
    "{}",
    "''",
    "\"\"",
    "-v",
    "a[0]",
    "'a[$(zz)]'",
    "\"a[\\$(zz)]\"",
    "=",
    "+",
    "\\;",
    "$IFS",
    "${u:=5}",
    "${n:=5}",
    "$((1))",
    "<(aa)",
    "<(echo a)",
    "/dev/null",
    "$RANDOM",
    "$_",
    "$-",
    "\"$(echo a)\"",
];
const LITERALS: &[&str] = &["a", "b", "1", "'a b'", "x.y", "a/b", "\"c d\"", "0"];
const NAMES: &[&str] = &[
    "v", "w", "n", "u", "x", "k", "arr", "PATH", "OPTIND", "IFS", "BASH_ENV", "RANDOM",
];
const OPERATORS: &[&str] = &[
    "+", "-", "*", "<", ">", "==", "&&", "||", ",", "%", "<<", "?1:",
];

/// Builds one command line.
pub fn command_line(dice: &mut Dice) -> String {
    let mut text = script(dice, 3);
    if dice.once_in(4) {
        for _ in 0..=dice.below(2) {
            mutate(dice, &mut text);
        }
    }
    text
}

fn mutate(dice: &mut Dice, text: &mut String) {
    const SIGNS: &[&str] = &[
        "'",
        "\"",
        "\\",
        "`",
        "$",
        "(",
        ")",
        "{",
        "}",
        ";",
        "|",
        "&",
        "<",
        ">",
        "#",
        "\n",
        " ",
        "\\\n",
        "$(",
        "${",
        "$((",
        "))",
        "<<E\n",
        "\nE\n",
        "[",
        "]",
        "=",
        "!",
        "~",
        ",",
        "zz",
        "eval ",
        "\t",
        "))",
        "(( ",
        ";;",
        "$'",
        "\"'",
        "'\"",
        "*",
        "case a in a) ",
        ";; esac",
        "do ",
        "done",
    ];
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    let Some(&at) = places.get(dice.below(places.len().max(1))) else {
        return;
    };
    match dice.below(3) {
        0 => {
            text.remove(at);
        }
        _ => text.insert_str(at, dice.pick(SIGNS)),
    }
}

fn script(dice: &mut Dice, depth: usize) -> String {
    let mut text = chain(dice, depth);
    for _ in 0..dice.below(3) {
        text.push_str(dice.pick(&["; ", "\n", "; ", " & ", " # c\n", ";\n"]));
        text.push_str(&chain(dice, depth));
    }
    text
}

fn chain(dice: &mut Dice, depth: usize) -> String {
    let mut text = pipeline(dice, depth);
    if dice.once_in(3) {
        text.push_str(dice.pick(&[" && ", " || ", " &&\n"]));
        text.push_str(&pipeline(dice, depth));
    }
    text
}

fn pipeline(dice: &mut Dice, depth: usize) -> String {
    let mut text = dice.pick(&["", "", "", "", "! ", "time "]).to_owned();
    text.push_str(&command(dice, depth));
    if dice.once_in(4) {
        text.push_str(dice.pick(&[" | ", " |& ", "|"]));
        text.push_str(&command(dice, depth));
    }
    text
}

fn command(dice: &mut Dice, depth: usize) -> String {
    let mut text = match dice.below(if depth == 0 { 8 } else { 16 }) {
        0..=4 => simple(dice, depth),
        5 => assignment(dice, depth),
        6 => builtin(dice, depth),
        7 => format!("{} {}", dice.pick(WRAPPERS), simple(dice, depth)),
        8 => compound(dice, depth - 1),
        9 => compound(dice, depth - 1),
        10 => test(dice, depth - 1),
        11 => format!("(( {} ))", arithmetic(dice, 2)),
        12 => tool(dice, depth),
        _ => simple(dice, depth),
    };
    if dice.once_in(5) {
        text.push_str(&redirection(dice, depth));
    }
    text
}

fn simple(dice: &mut Dice, depth: usize) -> String {
    let mut text = if dice.once_in(12) {
        dice.pick(TRICKS).to_owned()
    } else {
        dice.pick(PROGRAMS).to_owned()
    };
    for _ in 0..dice.below(3) {
        text.push(' ');
        text.push_str(&word(dice, depth));
    }
    text
}

fn word(dice: &mut Dice, depth: usize) -> String {
    if depth == 0 {
        return dice.pick(ARGUMENTS).to_owned();
    }
    match dice.below(14) {
        0 => format!("$({})", script(dice, depth - 1)),
        1 => format!("\"$({})\"", chain(dice, depth - 1)),
        2 => format!("`{}`", simple(dice, 0)),
        3 => format!("$(({}))", arithmetic(dice, 2)),
        4 => format!("${{{}:-{}}}", dice.pick(NAMES), word(dice, depth - 1)),
        5 => format!(
            "\"a{}\"",
            dice.pick(&["$v", "$(aa)", "${v:-b}", "$n", "`aa`", "\\`"])
        ),
        6 => format!("<({})", chain(dice, depth - 1)),
        7 => format!("{{a,{}}}", dice.pick(ARGUMENTS)),
        _ => dice.pick(ARGUMENTS).to_owned(),
    }
}

fn arithmetic(dice: &mut Dice, depth: usize) -> String {
    let atom = match dice.below(9) {
        0 | 1 => dice.pick(&["1", "2", "0x1f", "10"]).to_owned(),
        2 => dice.pick(&["i", "n", "k", "v", "u"]).to_owned(),
        3 => format!(
            "${}",
            dice.pick(&["n", "v", "#", "?", "{n}", "{#v}", "1", "RANDOM"])
        ),
        4 => "i++".to_owned(),
        5 => format!("{}={}", dice.pick(&["i", "k", "PATH"]), dice.below(9)),
        6 => "arr[0]".to_owned(),
        7 => format!(
            "$({})",
            dice.pick(&["seq 1", "wc -l", "echo 'a[$(zz)]'", "cat a"])
        ),
        _ => "i".to_owned(),
    };
    if depth == 0 || dice.once_in(2) {
        return atom;
    }
    format!(
        "{atom}{}{}",
        dice.pick(OPERATORS),
        arithmetic(dice, depth - 1)
    )
}

fn assignment(dice: &mut Dice, depth: usize) -> String {
    let name = dice.pick(NAMES);
    let text = match dice.below(7) {
        0 => format!("{name}={}", dice.pick(LITERALS)),
        1 => format!("{name}={}", word(dice, depth)),
        2 => format!("{name}=({} {})", dice.pick(LITERALS), word(dice, depth)),
        3 => format!("{name}+={}", dice.pick(LITERALS)),
        4 => format!("{name}[{}]=1", arithmetic(dice, 1)),
        5 => format!("i={}; n=$((i+1))", dice.below(9)),
        _ => format!("{name}=$(({}))", arithmetic(dice, 1)),
    };
    match dice.below(3) {
        0 => format!("{text} {}", simple(dice, depth)),
        _ => text,
    }
}

fn builtin(dice: &mut Dice, depth: usize) -> String {
    let name = dice.pick(NAMES);
    match dice.below(16) {
        0 => format!("export {name}={}", dice.pick(LITERALS)),
        1 => format!(
            "declare {}{name}={}",
            dice.pick(&["", "-a ", "-x "]),
            word(dice, 0)
        ),
        2 => format!("read -r {name} <<< {}", word(dice, 0)),
        3 => format!("printf -v {name} %s {}", word(dice, 0)),
        4 => format!("unset {name}"),
        5 => format!("let {}", arithmetic(dice, 1)),
        6 => format!("trap '{}' EXIT", simple(dice, 0).replace('\'', "")),
        7 => format!(
            "set {}",
            dice.pick(&["-e", "-u", "-x", "-f", "-o pipefail", "-- a", "-a"])
        ),
        8 => format!("[ {} = {} ]", word(dice, 0), word(dice, 0)),
        9 => format!(
            "test {} {}",
            dice.pick(&["-n", "-z", "-f", "-v", "$v"]),
            word(dice, 0)
        ),
        10 => format!("mapfile -t {name} <<< a"),
        11 => format!("getopts ab {name}"),
        12 => format!("printf %s\\\\n {}", word(dice, depth)),
        13 => "cd .".to_owned(),
        14 => "wait".to_owned(),
        _ => format!(
            "shopt -s {}",
            dice.pick(&["nullglob", "extglob", "lastpipe", "dotglob"])
        ),
    }
}

/// Programs that can run others.
fn tool(dice: &mut Dice, depth: usize) -> String {
    match dice.below(14) {
        0 => format!(
            "find . -name a -exec {} {{}} \\;",
            dice.pick(&["aa", "zz", "bb -n", "$x"])
        ),
        1 => format!("find {} -type f", word(dice, 0)),
        2 => format!("find . {}", word(dice, 0)),
        3 => format!("echo a | xargs {}", simple(dice, 0)),
        4 => format!("sort {}", word(dice, 0)),
        5 => format!(
            "sed {} a",
            dice.pick(&[
                "p",
                "-n 1p",
                "'e zz'",
                "s/a/b/",
                "\"$v\"",
                "'s/a/zz/e'",
                "1d"
            ])
        ),
        6 => format!("sed -n {} a", word(dice, 0)),
        7 => format!(
            "awk {} a",
            dice.pick(&[
                "'{print $1}'",
                "'BEGIN{system(\"zz\")}'",
                "\"$v\"",
                "'NR==1'"
            ])
        ),
        8 => format!(
            "git {}",
            dice.pick(&["--version", "-c alias.q=!zz q", "$v", "rev-parse HEAD"])
        ),
        9 => format!(
            "env {} {}",
            dice.pick(&["A=1", "PATH=.", "-S zz", "-i"]),
            simple(dice, 0)
        ),
        10 => format!("timeout 1 {}", simple(dice, depth.min(1))),
        11 => format!("xargs -I{{}} {} <<< {}", simple(dice, 0), word(dice, 0)),
        12 => format!("command -v {}", word(dice, 0)),
        _ => format!("echo b | while read -r l; do {}; done", simple(dice, 0)),
    }
}

fn test(dice: &mut Dice, depth: usize) -> String {
    let one = match dice.below(6) {
        0 => format!("-f {}", word(dice, 0)),
        1 => format!("-v {}", word(dice, 0)),
        2 => format!("{} == {}", word(dice, depth), word(dice, 0)),
        3 => format!(
            "{} -eq {}",
            word(dice, 0),
            dice.pick(&["1", "$n", "n", "v"])
        ),
        4 => format!(
            "{} =~ {}",
            word(dice, 0),
            dice.pick(&["a", "^a$", "$v", "a.*"])
        ),
        _ => format!("-n {}", word(dice, 0)),
    };
    match dice.below(3) {
        0 => format!("[[ {one} && -n a ]]"),
        1 => format!("[[ ! ( {one} ) ]]"),
        _ => format!("[[ {one} ]]"),
    }
}

fn compound(dice: &mut Dice, depth: usize) -> String {
    let body = script(dice, depth);
    match dice.below(11) {
        0 => format!("( {body} )"),
        1 => format!("{{ {body}; }}"),
        2 => format!("if {}; then {body}; fi", chain(dice, depth)),
        3 => format!(
            "if {}; then {body}; else {}; fi",
            chain(dice, depth),
            script(dice, depth)
        ),
        4 => format!(
            "for {} in {} {}; do {body}; done",
            dice.pick(NAMES),
            word(dice, depth),
            word(dice, 0)
        ),
        5 => format!("for ((i={};i<2;i++)); do {body}; done", dice.below(3)),
        6 => format!("while false; do {body}; done"),
        7 => format!("until true; do {body}; done"),
        8 => format!(
            "case {} in {}) {body};; *) {};; esac",
            word(dice, 0),
            word(dice, 0),
            chain(dice, 0)
        ),
        9 => format!("fn() {{ {}; }}; fn {}", chain(dice, 0), word(dice, 0)),
        _ => format!(
            "i={}; while [ $i -lt 2 ]; do {}; i=$((i+1)); done",
            dice.below(3),
            chain(dice, 0)
        ),
    }
}

fn redirection(dice: &mut Dice, depth: usize) -> String {
    match dice.below(10) {
        0 => " > /dev/null".to_owned(),
        1 => " 2>&1".to_owned(),
        2 => " < a".to_owned(),
        3 => format!(" <<< {}", word(dice, depth)),
        4 => format!(
            " <<E\n{}\nE\n",
            dice.pick(&[
                "x",
                "$v",
                "$(aa)",
                "$(zz)",
                "`aa`",
                "${v:-$(aa)}",
                "\\$(zz)"
            ])
        ),
        5 => format!(
            " <<'E'\n{}\nE\n",
            dice.pick(&["x", "$(zz)", "`zz`", "'", "\""])
        ),
        6 => format!(" > {}", dice.pick(&["out", "\"$n\"", "$v", "o$n"])),
        7 => format!(" < <({})", simple(dice, 0)),
        8 => " >> out 2> err".to_owned(),
        _ => " &> out".to_owned(),
    }
}
