//! The bash parser's reading, written down.

use brush_parser::ast::{
    AndOr, ArithmeticForClauseCommand, Assignment, AssignmentName, AssignmentValue, CaseItem,
    CaseItemPostAction, Command, CommandPrefixOrSuffixItem, CompoundCommand, CompoundList,
    CompoundListItem, ElseClause, ExtendedTestExpr, IoFileRedirectKind, IoFileRedirectTarget,
    IoHereDocument, IoRedirect, Pipeline, PipelineTimed, ProcessSubstitutionKind, Program,
    RedirectList, SeparatorOperator, SimpleCommand, SubshellCommand, UnexpandedArithmeticExpr,
};

use super::Form;

/// The whole program.
pub(super) fn written(program: &Program) -> String {
    let mut form = Form::default();
    for list in &program.complete_commands {
        form.list(list);
    }
    form.0
}

impl Form {
    fn list(&mut self, list: &CompoundList) {
        for CompoundListItem(and_or, separator) in &list.0 {
            self.pipeline(&and_or.first);
            for next in &and_or.additional {
                match next {
                    AndOr::And(pipeline) => {
                        self.mark("&&");
                        self.pipeline(pipeline);
                    }
                    AndOr::Or(pipeline) => {
                        self.mark("||");
                        self.pipeline(pipeline);
                    }
                }
            }
            self.mark(match separator {
                SeparatorOperator::Async => "&",
                SeparatorOperator::Sequence => ";",
            });
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline) {
        match &pipeline.timed {
            None => {}
            Some(PipelineTimed::Timed(_) | PipelineTimed::TimedWithPosixOutput(_)) => {
                self.mark("time");
            }
        }
        if pipeline.bang {
            self.mark("!");
        }
        for command in &pipeline.seq {
            self.mark("|");
            self.command(command);
        }
    }

    fn command(&mut self, command: &Command) {
        match command {
            Command::Simple(simple) => self.simple(simple),
            Command::Compound(compound, redirects) => {
                self.compound(compound);
                self.redirects(redirects.as_ref());
            }
            Command::Function(function) => {
                self.mark("function");
                self.word(&function.fname.value);
                self.compound(&function.body.0);
                self.redirects(function.body.1.as_ref());
            }
            Command::ExtendedTest(test, redirects) => {
                self.mark("[[");
                self.test(&test.expr);
                self.mark("]]");
                self.redirects(redirects.as_ref());
            }
        }
    }

    /// Assignments, then words, then redirections, whatever their order.
    fn simple(&mut self, command: &SimpleCommand) {
        let prefix = command.prefix.iter().flat_map(|prefix| &prefix.0);
        let suffix = command.suffix.iter().flat_map(|suffix| &suffix.0);
        for item in prefix.clone() {
            match item {
                CommandPrefixOrSuffixItem::AssignmentWord(assignment, word) => {
                    self.assignment(assignment, &word.value);
                }
                CommandPrefixOrSuffixItem::IoRedirect(_) => {}
                CommandPrefixOrSuffixItem::Word(_)
                | CommandPrefixOrSuffixItem::ProcessSubstitution(..) => self.mark("unknown"),
            }
        }
        self.mark("words");
        if let Some(program) = &command.word_or_name {
            self.word(&program.value);
        }
        for item in suffix.clone() {
            match item {
                CommandPrefixOrSuffixItem::Word(word) => self.word(&word.value),
                CommandPrefixOrSuffixItem::AssignmentWord(assignment, word) => {
                    match assignment.value {
                        AssignmentValue::Scalar(_) => self.word(&word.value),
                        AssignmentValue::Array(_) => self.assignment(assignment, &word.value),
                    }
                }
                CommandPrefixOrSuffixItem::ProcessSubstitution(kind, subshell) => {
                    self.process(kind, subshell);
                }
                CommandPrefixOrSuffixItem::IoRedirect(_) => {}
            }
        }
        for item in prefix.chain(suffix) {
            match item {
                CommandPrefixOrSuffixItem::IoRedirect(redirect) => self.redirect(redirect),
                CommandPrefixOrSuffixItem::Word(_)
                | CommandPrefixOrSuffixItem::AssignmentWord(..)
                | CommandPrefixOrSuffixItem::ProcessSubstitution(..) => {}
            }
        }
    }

    fn assignment(&mut self, assignment: &Assignment, raw: &str) {
        self.mark("assign");
        match &assignment.value {
            AssignmentValue::Scalar(_) => self.word(raw),
            AssignmentValue::Array(elements) => {
                match &assignment.name {
                    AssignmentName::VariableName(name) => self.word(name),
                    AssignmentName::ArrayElementName(..) => self.mark("unknown"),
                }
                for (key, element) in elements {
                    if key.is_some() {
                        self.mark("unknown");
                    }
                    self.word(&element.value);
                }
                self.mark(")");
            }
        }
    }

    fn process(&mut self, kind: &ProcessSubstitutionKind, subshell: &SubshellCommand) {
        self.mark(match kind {
            ProcessSubstitutionKind::Read => "<(",
            ProcessSubstitutionKind::Write => ">(",
        });
        self.list(&subshell.list);
        self.mark(")");
    }

    fn redirects(&mut self, redirects: Option<&RedirectList>) {
        for redirect in redirects.iter().flat_map(|redirects| &redirects.0) {
            self.redirect(redirect);
        }
    }

    fn redirect(&mut self, redirect: &IoRedirect) {
        let stream =
            |stream: &Option<i32>| stream.map_or_else(String::new, |stream| stream.to_string());
        match redirect {
            IoRedirect::File(number, kind, target) => {
                self.mark(&stream(number));
                self.mark(match kind {
                    IoFileRedirectKind::Read => "<",
                    IoFileRedirectKind::Write => ">",
                    IoFileRedirectKind::Append => ">>",
                    IoFileRedirectKind::ReadAndWrite => "<>",
                    IoFileRedirectKind::Clobber => ">|",
                    IoFileRedirectKind::DuplicateInput => "<&",
                    IoFileRedirectKind::DuplicateOutput => ">&",
                });
                match target {
                    IoFileRedirectTarget::Filename(word)
                    | IoFileRedirectTarget::Duplicate(word) => self.word(&word.value),
                    IoFileRedirectTarget::Fd(number) => self.word(&number.to_string()),
                    IoFileRedirectTarget::ProcessSubstitution(kind, subshell) => {
                        self.process(kind, subshell);
                    }
                }
            }
            IoRedirect::HereDocument(number, document) => {
                self.mark(&stream(number));
                self.mark("<<");
                self.here_document(document);
            }
            IoRedirect::HereString(number, word) => {
                self.mark(&stream(number));
                self.mark("<<<");
                self.word(&word.value);
            }
            IoRedirect::OutputAndError(word, append) => {
                self.mark("");
                self.mark(if *append { "&>>" } else { "&>" });
                self.word(&word.value);
            }
        }
    }

    fn here_document(&mut self, document: &IoHereDocument) {
        self.mark(if document.remove_tabs { "-" } else { "" });
        self.mark(if document.requires_expansion {
            "expanded"
        } else {
            "text"
        });
        self.word(&document.doc.value);
    }

    fn compound(&mut self, command: &CompoundCommand) {
        match command {
            CompoundCommand::Arithmetic(command) => {
                self.mark("((");
                self.arithmetic(&command.expr.value);
            }
            CompoundCommand::ArithmeticForClause(clause) => self.arithmetic_for(clause),
            CompoundCommand::BraceGroup(group) => self.enclosed("{", &group.list, "}"),
            CompoundCommand::Subshell(subshell) => self.enclosed("(", &subshell.list, ")"),
            CompoundCommand::ForClause(clause) => {
                self.mark("for");
                self.word(&clause.variable_name);
                match &clause.values {
                    None => self.mark("all"),
                    Some(values) => values.iter().for_each(|value| self.word(&value.value)),
                }
                self.enclosed("do", &clause.body.list, "done");
            }
            CompoundCommand::CaseClause(clause) => {
                self.mark("case");
                self.word(&clause.value.value);
                clause.cases.iter().for_each(|item| self.case_item(item));
                self.mark("esac");
            }
            CompoundCommand::IfClause(clause) => {
                self.enclosed("if", &clause.condition, "then");
                self.list(&clause.then);
                for clause in clause.elses.iter().flatten() {
                    self.else_clause(clause);
                }
                self.mark("fi");
            }
            CompoundCommand::WhileClause(clause) => {
                self.enclosed("while", &clause.0, "");
                self.enclosed("do", &clause.1.list, "done");
            }
            CompoundCommand::UntilClause(clause) => {
                self.enclosed("until", &clause.0, "");
                self.enclosed("do", &clause.1.list, "done");
            }
            CompoundCommand::Coprocess(coprocess) => {
                self.mark("coproc");
                self.command(&coprocess.body);
            }
        }
    }

    fn arithmetic_for(&mut self, clause: &ArithmeticForClauseCommand) {
        self.mark("for((");
        for part in [&clause.initializer, &clause.condition, &clause.updater] {
            let text = part
                .as_ref()
                .map_or("", |part: &UnexpandedArithmeticExpr| part.value.as_str());
            self.arithmetic(text);
        }
        self.enclosed("do", &clause.body.list, "done");
    }

    fn case_item(&mut self, item: &CaseItem) {
        for pattern in &item.patterns {
            self.word(&pattern.value);
        }
        self.mark(")");
        item.cmd.iter().for_each(|list| self.list(list));
        self.mark(match item.post_action {
            CaseItemPostAction::ExitCase => ";;",
            CaseItemPostAction::UnconditionallyExecuteNextCaseItem => ";&",
            CaseItemPostAction::ContinueEvaluatingCases => ";;&",
        });
    }

    fn else_clause(&mut self, clause: &ElseClause) {
        match &clause.condition {
            Some(condition) => {
                self.enclosed("if", condition, "then");
                self.list(&clause.body);
            }
            None => self.enclosed("else", &clause.body, ""),
        }
    }

    fn enclosed(&mut self, before: &str, list: &CompoundList, after: &str) {
        self.mark(before);
        self.list(list);
        self.mark(after);
    }

    fn test(&mut self, test: &ExtendedTestExpr) {
        match test {
            ExtendedTestExpr::And(left, right) => {
                self.test(left);
                self.mark("&&");
                self.test(right);
            }
            ExtendedTestExpr::Or(left, right) => {
                self.test(left);
                self.mark("||");
                self.test(right);
            }
            ExtendedTestExpr::Not(inner) => {
                self.mark("!");
                self.test(inner);
            }
            ExtendedTestExpr::Parenthesized(inner) => {
                self.mark("(");
                self.test(inner);
                self.mark(")");
            }
            ExtendedTestExpr::UnaryTest(_, word) => {
                self.mark("unary");
                self.word(&word.value);
            }
            ExtendedTestExpr::BinaryTest(_, left, right) => {
                self.mark("binary");
                self.word(&left.value);
                self.word(&right.value);
            }
        }
    }
}
