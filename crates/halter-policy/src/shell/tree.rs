//! A command line as `reader` sees it.

/// Commands, one after the other.
#[derive(Debug, Clone, Default)]
pub(super) struct Script {
    pub(super) items: Vec<Item>,
    /// The text it was read from.
    pub(super) source: String,
}

/// Pipelines joined by `&&` and `||`.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) chain: Vec<(Link, Pipeline)>,
    pub(super) background: bool,
    /// It is the last of its line.
    pub(super) ends_line: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    First,
    And,
    Or,
}

#[derive(Debug, Clone)]
pub(super) struct Pipeline {
    pub(super) timed: bool,
    pub(super) negated: bool,
    pub(super) commands: Vec<ReadCommand>,
}

#[derive(Debug, Clone)]
pub(super) enum ReadCommand {
    Simple(Simple),
    Compound(Compound, Vec<Redirect>),
    Function {
        name: String,
        body: Compound,
        redirects: Vec<Redirect>,
    },
    Test(Test, Vec<Redirect>),
}

#[derive(Debug, Clone)]
pub(super) enum Compound {
    Group(Script),
    Subshell(Script),
    For {
        variable: String,
        /// `None`: the positional parameters.
        words: Option<Vec<Word>>,
        body: Script,
    },
    ForArithmetic(Box<ArithmeticLoop>),
    While {
        until: bool,
        condition: Script,
        body: Script,
    },
    If {
        branches: Vec<(Script, Script)>,
        otherwise: Option<Script>,
    },
    Case {
        subject: Word,
        arms: Vec<Arm>,
    },
    Arithmetic(Arithmetic),
}

/// `for ((start; condition; step))`.
#[derive(Debug, Clone)]
pub(super) struct ArithmeticLoop {
    pub(super) start: Arithmetic,
    pub(super) condition: Arithmetic,
    pub(super) step: Arithmetic,
    pub(super) body: Script,
}

/// One arm of a `case`.
#[derive(Debug, Clone)]
pub(super) struct Arm {
    pub(super) patterns: Vec<Word>,
    pub(super) body: Script,
    pub(super) end: &'static str,
}

/// What stands between `[[` and `]]`.
#[derive(Debug, Clone)]
pub(super) enum Test {
    And(Box<Test>, Box<Test>),
    Or(Box<Test>, Box<Test>),
    Not(Box<Test>),
    Parenthesized(Box<Test>),
    Unary(String, Word),
    Binary(Word, String, Word),
    /// A word alone, which asks whether it is empty.
    Word(Word),
}

/// Assignments, a program and its arguments; each may be missing.
#[derive(Debug, Clone, Default)]
pub(super) struct Simple {
    pub(super) assignments: Vec<Assignment>,
    pub(super) words: Vec<Word>,
    pub(super) redirects: Vec<Redirect>,
}

#[derive(Debug, Clone)]
pub(super) struct Assignment {
    pub(super) name: String,
    pub(super) index: Option<Index>,
    pub(super) append: bool,
    pub(super) value: Assigned,
    pub(super) raw: String,
}

#[derive(Debug, Clone)]
pub(super) enum Assigned {
    Scalar(Word),
    Array(Vec<Word>),
}

#[derive(Debug, Clone)]
pub(super) struct Redirect {
    /// The stream in front of the operator.
    pub(super) stream: Option<u32>,
    pub(super) kind: RedirectKind,
    /// The file, the stream, the here-string, or the end of a here-document.
    pub(super) target: Word,
}

#[derive(Debug, Clone)]
pub(super) enum RedirectKind {
    Read,
    Write,
    Append,
    Clobber,
    ReadWrite,
    Both,
    BothAppend,
    DuplicateInput,
    DuplicateOutput,
    HereString,
    HereDocument { strips_tabs: bool, body: HereBody },
}

#[derive(Debug, Clone)]
pub(super) enum HereBody {
    /// The delimiter was quoted, so the body is text.
    Literal(String),
    Expanded(Word),
}

/// A word as written, and what it is made of.
#[derive(Debug, Clone, Default)]
pub(super) struct Word {
    pub(super) raw: String,
    pub(super) pieces: Vec<Piece>,
}

#[derive(Debug, Clone)]
pub(super) enum Piece {
    /// Characters that stand for themselves.
    Text(String),
    /// Characters that were quoted or escaped.
    Quoted(String),
    /// `*`, `?` or `[` where file names are matched.
    Glob(char),
    /// `~` or `~name` at the start of a word.
    Tilde(String),
    /// `{a,b}`.
    Braces(Vec<Vec<Piece>>),
    /// `{1..9}` as written.
    Range(String),
    Parameter {
        parameter: Box<Parameter>,
        quoted: bool,
    },
    Substitution {
        script: Script,
        quoted: bool,
    },
    /// `<(…)` or `>(…)`.
    Process {
        output: bool,
        script: Script,
    },
    Arithmetic(Arithmetic),
    /// `name=(…)` after `declare` and the like.
    Array(Box<Assignment>),
}

#[derive(Debug, Clone)]
pub(super) struct Parameter {
    pub(super) name: ParameterName,
    pub(super) index: Option<Index>,
    pub(super) operation: Operation,
}

#[derive(Debug, Clone)]
pub(super) enum ParameterName {
    Variable(String),
    /// `$1`, `$@`, `$*`: what the caller gave.
    Positional,
    /// `$?`, `$#`, `$$`, `$!`: a number.
    Status,
    /// `$0`, `$-`, `$_`.
    Other,
}

/// What stands in the brackets behind a name.
#[derive(Debug, Clone)]
pub(super) enum Index {
    /// `[@]` or `[*]`.
    All,
    At(Arithmetic),
}

#[derive(Debug, Clone)]
pub(super) enum Operation {
    None,
    Length,
    /// `${!name[@]}`: the keys of an array.
    Keys,
    /// `${x:-word}` and its kin, which yield the word or the value.
    Alternative(Word),
    /// `${x:=word}`.
    Assign(Word),
    /// `${x%pattern}`.
    Suffix(Word),
    /// `${x#pattern}`, `${x/pattern/word}`, `${x^^}`.
    Pattern(Vec<Word>),
    Substring(Arithmetic, Option<Arithmetic>),
    /// `${x@Q}` and its kin.
    Transform(char),
}

/// An arithmetic expression: what it reads, sets and expands.
#[derive(Debug, Clone, Default)]
pub(super) struct Arithmetic {
    pub(super) raw: String,
    pub(super) reads: Vec<String>,
    pub(super) sets: Vec<String>,
    pub(super) expansions: Vec<Piece>,
}

impl Word {
    /// The text, if the word stands for exactly that.
    pub(super) fn literal(&self) -> Option<String> {
        literal(&self.pieces)
    }
}

pub(super) fn literal(pieces: &[Piece]) -> Option<String> {
    let mut text = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(part) | Piece::Quoted(part) => text.push_str(part),
            Piece::Glob(_)
            | Piece::Tilde(_)
            | Piece::Braces(_)
            | Piece::Range(_)
            | Piece::Parameter { .. }
            | Piece::Substitution { .. }
            | Piece::Process { .. }
            | Piece::Arithmetic(_)
            | Piece::Array(_) => return None,
        }
    }
    Some(text)
}
