//! Our reading, written down.

use super::super::tree::{
    Arithmetic, ArithmeticLoop, Assigned, Assignment, Compound, HereBody, Index, Link, Operation,
    Piece, Pipeline, ReadCommand, Redirect, RedirectKind, Script, Simple, Test, Word,
};
use super::Form;

/// Writes a script down, and collects the substitutions in its words.
#[derive(Debug, Default)]
pub(super) struct Ours<'s> {
    pub(super) form: Form,
    pub(super) substitutions: Vec<&'s Script>,
}

impl<'s> Ours<'s> {
    pub(super) fn script(&mut self, script: &'s Script) {
        for item in &script.items {
            for (link, pipeline) in &item.chain {
                match link {
                    Link::First => {}
                    Link::And => self.form.mark("&&"),
                    Link::Or => self.form.mark("||"),
                }
                self.pipeline(pipeline);
            }
            self.form.mark(if item.background { "&" } else { ";" });
        }
    }

    fn pipeline(&mut self, pipeline: &'s Pipeline) {
        if pipeline.timed {
            self.form.mark("time");
        }
        if pipeline.negated {
            self.form.mark("!");
        }
        for command in &pipeline.commands {
            self.form.mark("|");
            self.command(command);
        }
    }

    fn command(&mut self, command: &'s ReadCommand) {
        match command {
            ReadCommand::Simple(simple) => self.simple(simple),
            ReadCommand::Compound(compound, redirects) => {
                self.compound(compound);
                self.redirects(redirects);
            }
            ReadCommand::Function {
                name,
                body,
                redirects,
            } => {
                self.form.mark("function");
                self.form.word(name);
                self.compound(body);
                self.redirects(redirects);
            }
            ReadCommand::Test(test, redirects) => {
                self.form.mark("[[");
                self.test(test);
                self.form.mark("]]");
                self.redirects(redirects);
            }
        }
    }

    fn simple(&mut self, simple: &'s Simple) {
        for assignment in &simple.assignments {
            self.assignment(assignment);
        }
        self.form.mark("words");
        for word in &simple.words {
            match word.pieces.as_slice() {
                [Piece::Process { output, script }] => {
                    self.form.mark(if *output { ">(" } else { "<(" });
                    self.script(script);
                    self.form.mark(")");
                }
                [Piece::Array(assignment)] => self.assignment(assignment),
                _ => self.word(word),
            }
        }
        self.redirects(&simple.redirects);
    }

    fn assignment(&mut self, assignment: &'s Assignment) {
        self.form.mark("assign");
        match &assignment.value {
            Assigned::Scalar(value) => {
                self.form.word(&assignment.raw);
                self.collect(&value.pieces);
            }
            Assigned::Array(elements) => {
                self.form.word(&assignment.name);
                for element in elements {
                    self.word(element);
                }
                self.form.mark(")");
            }
        }
        if let Some(index) = &assignment.index {
            self.index(index);
        }
    }

    fn index(&mut self, index: &'s Index) {
        match index {
            Index::All => {}
            Index::At(expression) => self.expansions(expression),
        }
    }

    fn word(&mut self, word: &'s Word) {
        self.form.word(&word.raw);
        self.collect(&word.pieces);
    }

    fn arithmetic(&mut self, expression: &'s Arithmetic) {
        self.form.arithmetic(&expression.raw);
        self.expansions(expression);
    }

    fn expansions(&mut self, expression: &'s Arithmetic) {
        self.collect(&expression.expansions);
    }

    /// Substitutions inside a word.
    fn collect(&mut self, pieces: &'s [Piece]) {
        for piece in pieces {
            match piece {
                Piece::Text(_)
                | Piece::Quoted(_)
                | Piece::Glob(_)
                | Piece::Tilde(_)
                | Piece::Range(_) => {}
                Piece::Braces(alternatives) => {
                    for alternative in alternatives {
                        self.collect(alternative);
                    }
                }
                Piece::Substitution { script, .. } | Piece::Process { script, .. } => {
                    self.substitutions.push(script);
                }
                Piece::Arithmetic(expression) => self.expansions(expression),
                Piece::Array(assignment) => match &assignment.value {
                    Assigned::Scalar(value) => self.collect(&value.pieces),
                    Assigned::Array(elements) => {
                        for element in elements {
                            self.collect(&element.pieces);
                        }
                    }
                },
                Piece::Parameter { parameter, .. } => {
                    if let Some(index) = &parameter.index {
                        self.index(index);
                    }
                    self.operation(&parameter.operation);
                }
            }
        }
    }

    fn operation(&mut self, operation: &'s Operation) {
        match operation {
            Operation::None | Operation::Length | Operation::Keys | Operation::Transform(_) => {}
            Operation::Alternative(word) | Operation::Assign(word) | Operation::Suffix(word) => {
                self.collect(&word.pieces);
            }
            Operation::Pattern(words) => {
                for word in words {
                    self.collect(&word.pieces);
                }
            }
            Operation::Substring(offset, length) => {
                self.expansions(offset);
                length.iter().for_each(|length| self.expansions(length));
            }
        }
    }

    fn redirects(&mut self, redirects: &'s [Redirect]) {
        for redirect in redirects {
            let stream = redirect
                .stream
                .map_or_else(String::new, |it| it.to_string());
            let sign = match &redirect.kind {
                RedirectKind::Read => "<",
                RedirectKind::Write => ">",
                RedirectKind::Append => ">>",
                RedirectKind::Clobber => ">|",
                RedirectKind::ReadWrite => "<>",
                RedirectKind::Both => "&>",
                RedirectKind::BothAppend => "&>>",
                RedirectKind::DuplicateInput => "<&",
                RedirectKind::DuplicateOutput => ">&",
                RedirectKind::HereString => "<<<",
                RedirectKind::HereDocument { .. } => "<<",
            };
            self.form.mark(&stream);
            self.form.mark(sign);
            match &redirect.kind {
                RedirectKind::HereDocument { strips_tabs, body } => {
                    self.form.mark(if *strips_tabs { "-" } else { "" });
                    match body {
                        HereBody::Literal(text) => {
                            self.form.mark("text");
                            self.form.word(text);
                        }
                        HereBody::Expanded(word) => {
                            self.form.mark("expanded");
                            self.word(word);
                        }
                    }
                }
                _ => match redirect.target.pieces.as_slice() {
                    [Piece::Process { output, script }] => {
                        self.form.mark(if *output { ">(" } else { "<(" });
                        self.script(script);
                        self.form.mark(")");
                    }
                    _ => self.word(&redirect.target),
                },
            }
        }
    }

    fn compound(&mut self, compound: &'s Compound) {
        match compound {
            Compound::Group(script) => self.enclosed("{", script, "}"),
            Compound::Subshell(script) => self.enclosed("(", script, ")"),
            Compound::For {
                variable,
                words,
                body,
            } => {
                self.form.mark("for");
                self.form.word(variable);
                match words {
                    None => self.form.mark("all"),
                    Some(words) => words.iter().for_each(|word| self.word(word)),
                }
                self.enclosed("do", body, "done");
            }
            Compound::ForArithmetic(clause) => {
                let ArithmeticLoop {
                    start,
                    condition,
                    step,
                    body,
                } = &**clause;
                self.form.mark("for((");
                for expression in [start, condition, step] {
                    self.arithmetic(expression);
                }
                self.enclosed("do", body, "done");
            }
            Compound::While {
                until,
                condition,
                body,
            } => {
                self.enclosed(if *until { "until" } else { "while" }, condition, "");
                self.enclosed("do", body, "done");
            }
            Compound::If {
                branches,
                otherwise,
            } => {
                for (condition, body) in branches {
                    self.enclosed("if", condition, "then");
                    self.script(body);
                }
                if let Some(otherwise) = otherwise {
                    self.enclosed("else", otherwise, "");
                }
                self.form.mark("fi");
            }
            Compound::Case { subject, arms } => {
                self.form.mark("case");
                self.word(subject);
                for arm in arms {
                    arm.patterns.iter().for_each(|pattern| self.word(pattern));
                    let end = if arm.end.is_empty() { ";;" } else { arm.end };
                    self.enclosed(")", &arm.body, end);
                }
                self.form.mark("esac");
            }
            Compound::Arithmetic(expression) => {
                self.form.mark("((");
                self.arithmetic(expression);
            }
        }
    }

    fn enclosed(&mut self, before: &str, script: &'s Script, after: &str) {
        self.form.mark(before);
        self.script(script);
        self.form.mark(after);
    }

    fn test(&mut self, test: &'s Test) {
        match test {
            Test::And(left, right) => {
                self.test(left);
                self.form.mark("&&");
                self.test(right);
            }
            Test::Or(left, right) => {
                self.test(left);
                self.form.mark("||");
                self.test(right);
            }
            Test::Not(inner) => {
                self.form.mark("!");
                self.test(inner);
            }
            Test::Parenthesized(inner) => {
                self.form.mark("(");
                self.test(inner);
                self.form.mark(")");
            }
            Test::Unary(_, word) | Test::Word(word) => {
                self.form.mark("unary");
                self.word(word);
            }
            Test::Binary(left, _, right) => {
                self.form.mark("binary");
                self.word(left);
                self.word(right);
            }
        }
    }
}
