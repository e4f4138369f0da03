//! Compound commands, functions and `[[ … ]]`.

use super::super::CommandRefusal;
use super::super::tree::{ArithmeticLoop, Arm, Compound, ReadCommand, Script, Test, Word};
use super::{Reader, ends_word, is_name};

impl Reader<'_> {
    /// The compound command or function that starts here, if one does.
    pub(super) fn compound(&mut self) -> Result<Option<ReadCommand>, CommandRefusal> {
        if self.looking_at("((") {
            let arithmetic = self.nested(Self::arithmetic_command)?;
            return self.with_redirects(arithmetic).map(Some);
        }
        if self.looking_at("(") {
            let subshell = self.subshell()?;
            return self.with_redirects(subshell).map(Some);
        }
        for word in ["coproc", "select"] {
            if self.at_word(word) {
                let mut refusal = self.refuse(format!("`{word}` is not accepted"));
                refusal.rule = "shell.construct";
                return Err(refusal);
            }
        }
        if self.at_word("[[") {
            let test = self.nested(Self::test_command)?;
            let redirects = self.redirects()?;
            return Ok(Some(ReadCommand::Test(test, redirects)));
        }
        if self.at_word("function") {
            self.at += "function".len();
            self.blanks()?;
            return self.function().map(Some);
        }
        if self.defines_function() {
            return self.function().map(Some);
        }
        let read: fn(&mut Self) -> Result<Compound, CommandRefusal> = if self.at_word("{") {
            Self::group
        } else if self.at_word("if") {
            Self::if_command
        } else if self.at_word("for") {
            Self::for_command
        } else if self.at_word("while") || self.at_word("until") {
            Self::while_command
        } else if self.at_word("case") {
            Self::case_command
        } else {
            return Ok(None);
        };
        let compound = self.nested(read)?;
        self.with_redirects(compound).map(Some)
    }

    fn with_redirects(&mut self, compound: Compound) -> Result<ReadCommand, CommandRefusal> {
        Ok(ReadCommand::Compound(compound, self.redirects()?))
    }

    /// Consumes a word that must come here.
    fn expect(&mut self, word: &str) -> Result<(), CommandRefusal> {
        self.lines()?;
        if self.at_word(word) {
            self.at += word.len();
            Ok(())
        } else {
            Err(self.refuse(format!("`{word}` is missing here")))
        }
    }

    /// Commands that must not be empty, up to one of the words.
    fn body(&mut self, closers: &[&str]) -> Result<Script, CommandRefusal> {
        let script = self.script(closers)?;
        if script.items.is_empty() {
            return Err(self.refuse("a command is missing here"));
        }
        Ok(script)
    }

    fn subshell(&mut self) -> Result<Compound, CommandRefusal> {
        self.next();
        let script = self.nested_script()?;
        if script.items.is_empty() {
            return Err(self.refuse("a command is missing here"));
        }
        Ok(Compound::Subshell(script))
    }

    fn group(&mut self) -> Result<Compound, CommandRefusal> {
        self.next();
        let script = self.body(&["}"])?;
        self.expect("}")?;
        Ok(Compound::Group(script))
    }

    fn arithmetic_command(&mut self) -> Result<Compound, CommandRefusal> {
        self.at += 2;
        let expression = self.arithmetic_until(")")?;
        if self.eat("))") {
            Ok(Compound::Arithmetic(expression))
        } else {
            Err(self.refuse("write `( (` for a subshell in a subshell"))
        }
    }

    fn if_command(&mut self) -> Result<Compound, CommandRefusal> {
        self.at += "if".len();
        let mut branches = Vec::new();
        loop {
            let condition = self.body(&["then"])?;
            self.expect("then")?;
            let body = self.body(&["elif", "else", "fi"])?;
            branches.push((condition, body));
            if !self.at_word("elif") {
                break;
            }
            self.at += "elif".len();
        }
        let otherwise = if self.at_word("else") {
            self.at += "else".len();
            Some(self.body(&["fi"])?)
        } else {
            None
        };
        self.expect("fi")?;
        Ok(Compound::If {
            branches,
            otherwise,
        })
    }

    fn do_group(&mut self) -> Result<Script, CommandRefusal> {
        self.expect("do")?;
        let body = self.body(&["done"])?;
        self.expect("done")?;
        Ok(body)
    }

    fn while_command(&mut self) -> Result<Compound, CommandRefusal> {
        let until = self.at_word("until");
        self.at += "while".len();
        let condition = self.body(&["do"])?;
        let body = self.do_group()?;
        Ok(Compound::While {
            until,
            condition,
            body,
        })
    }

    fn for_command(&mut self) -> Result<Compound, CommandRefusal> {
        self.at += "for".len();
        self.blanks()?;
        if self.eat("((") {
            return self.for_arithmetic();
        }
        let variable = self.plain_word()?;
        if !is_name(&variable) {
            return Err(self.refuse("the loop needs the name of a variable"));
        }
        self.lines()?;
        let mut words = None;
        if self.at_word("in") {
            self.at += "in".len();
            let mut values = Vec::new();
            loop {
                self.blanks()?;
                match self.peek() {
                    Some(';' | '\n' | '#') => break,
                    Some('<' | '>') if self.peek_second() == Some('(') => {
                        values.push(self.word()?);
                    }
                    None | Some('|' | '&' | '<' | '>' | '(' | ')') => {
                        return Err(self.refuse("the values of the loop end with `;` or a newline"));
                    }
                    Some(_) => values.push(self.word()?),
                }
            }
            words = Some(values);
        }
        self.blanks()?;
        self.eat(";");
        let body = self.do_group()?;
        Ok(Compound::For {
            variable,
            words,
            body,
        })
    }

    fn for_arithmetic(&mut self) -> Result<Compound, CommandRefusal> {
        let start = self.arithmetic_until(";)")?;
        let first = self.eat(";");
        let condition = self.arithmetic_until(";)")?;
        let second = self.eat(";");
        let step = self.arithmetic_until(")")?;
        if !(first && second && self.eat("))")) {
            return Err(self.refuse("write the loop as `for ((start; condition; step))`"));
        }
        self.blanks()?;
        self.eat(";");
        let body = self.do_group()?;
        Ok(Compound::ForArithmetic(Box::new(ArithmeticLoop {
            start,
            condition,
            step,
            body,
        })))
    }

    fn case_command(&mut self) -> Result<Compound, CommandRefusal> {
        self.at += "case".len();
        self.blanks()?;
        let subject = self.word()?;
        self.expect("in")?;
        let mut arms = Vec::new();
        loop {
            self.lines()?;
            if self.at_word("esac") {
                self.at += "esac".len();
                return Ok(Compound::Case { subject, arms });
            }
            arms.push(self.arm()?);
        }
    }

    fn arm(&mut self) -> Result<Arm, CommandRefusal> {
        self.eat("(");
        let mut patterns = Vec::new();
        loop {
            self.blanks()?;
            match self.peek() {
                None | Some('\n' | ';' | '&' | '<' | '>' | '(' | ')' | '|') => {
                    return Err(self.refuse("a pattern is missing here"));
                }
                Some(_) => patterns.push(self.word()?),
            }
            self.blanks()?;
            if !self.eat("|") {
                break;
            }
        }
        if !self.eat(")") {
            return Err(self.refuse("the pattern is not closed"));
        }
        let body = self.script(&["esac"])?;
        let end = [";;&", ";;", ";&"]
            .into_iter()
            .find(|end| self.eat(end))
            .unwrap_or("");
        if end.is_empty() && !self.at_word("esac") {
            return Err(self.refuse("end the commands of a pattern with `;;`"));
        }
        Ok(Arm {
            patterns,
            body,
            end,
        })
    }

    /// Whether `name()` stands here.
    fn defines_function(&self) -> bool {
        let rest = self.rest();
        let end = rest.find(ends_word).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let after = after.trim_start_matches([' ', '\t']);
        let closes = |after: &str| after.trim_start_matches([' ', '\t']).starts_with(')');
        !name.is_empty() && !name.contains('=') && after.strip_prefix('(').is_some_and(closes)
    }

    fn function(&mut self) -> Result<ReadCommand, CommandRefusal> {
        let start = self.at;
        let name = self.plain_word()?;
        let plain = name
            .chars()
            .all(|next| next.is_ascii_alphanumeric() || next == '_' || next == '-');
        let begins = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        if !plain || !begins {
            return Err(self.refuse_at(start, "name the function with letters, digits, `_`, `-`"));
        }
        self.blanks()?;
        if self.eat("(") {
            self.blanks()?;
            if !self.eat(")") {
                return Err(self.refuse("the parenthesis is not closed"));
            }
        }
        self.lines()?;
        let body = if self.at_word("{") {
            self.nested(Self::group)?
        } else if self.looking_at("(") && !self.looking_at("((") {
            self.subshell()?
        } else {
            return Err(self.refuse("put the body of a function into `{ …; }`"));
        };
        let redirects = self.redirects()?;
        Ok(ReadCommand::Function {
            name,
            body,
            redirects,
        })
    }

    /// A word without quotes or expansions.
    fn plain_word(&mut self) -> Result<String, CommandRefusal> {
        let rest = self.rest();
        let end = rest.find(ends_word).unwrap_or(rest.len());
        let word = rest.get(..end).unwrap_or_default();
        if word.is_empty() || word.contains(['$', '`', '\\', '\'', '"', '*', '?', '[', '{', '~']) {
            return Err(self.refuse("a plain word is needed here"));
        }
        self.at += end;
        Ok(word.to_owned())
    }

    fn test_command(&mut self) -> Result<Test, CommandRefusal> {
        self.at += "[[".len();
        let test = self.test_or()?;
        self.expect("]]")?;
        Ok(test)
    }

    fn test_or(&mut self) -> Result<Test, CommandRefusal> {
        let mut test = self.test_and()?;
        loop {
            self.lines()?;
            if !self.eat("||") {
                return Ok(test);
            }
            let right = self.test_and()?;
            test = Test::Or(Box::new(test), Box::new(right));
        }
    }

    fn test_and(&mut self) -> Result<Test, CommandRefusal> {
        let mut test = self.test_not()?;
        loop {
            self.lines()?;
            if !self.eat("&&") {
                return Ok(test);
            }
            let right = self.test_not()?;
            test = Test::And(Box::new(test), Box::new(right));
        }
    }

    fn test_not(&mut self) -> Result<Test, CommandRefusal> {
        self.lines()?;
        if self.at_word("!") {
            self.at += 1;
            let inner = self.nested(Self::test_not)?;
            return Ok(Test::Not(Box::new(inner)));
        }
        if self.eat("(") {
            let inner = self.nested(Self::test_or)?;
            self.lines()?;
            if !self.eat(")") {
                return Err(self.refuse("the parenthesis is not closed"));
            }
            return Ok(Test::Parenthesized(Box::new(inner)));
        }
        self.test_primary()
    }

    fn test_primary(&mut self) -> Result<Test, CommandRefusal> {
        let left = self.operand_word()?;
        self.blanks()?;
        let unary = left.raw.len() == 2 && left.raw.starts_with('-');
        if unary && !self.ends_test() {
            let operand = self.operand_word()?;
            return Ok(Test::Unary(left.raw, operand));
        }
        if self.ends_test() {
            return Ok(Test::Word(left));
        }
        let operator = match self.peek() {
            Some(sign @ ('<' | '>')) if self.peek_second() != Some('(') => {
                self.next();
                sign.to_string()
            }
            _ => self.operand_word()?.raw,
        };
        const OPERATORS: [&str; 15] = [
            "==", "=", "!=", "=~", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-ef",
            "-nt", "-ot",
        ];
        if !OPERATORS.contains(&operator.as_str()) {
            return Err(self.refuse(format!("`{operator}` is no comparison")));
        }
        self.blanks()?;
        let right = if operator == "=~" {
            self.pattern_word()?
        } else {
            self.operand_word()?
        };
        Ok(Test::Binary(left, operator, right))
    }

    fn ends_test(&self) -> bool {
        self.at_word("]]")
            || self.looking_at("&&")
            || self.looking_at("||")
            || self.looking_at(")")
            || self.looking_at("\n")
    }

    fn operand_word(&mut self) -> Result<Word, CommandRefusal> {
        match self.peek() {
            None | Some('\n' | ';' | '|' | '&' | '(' | ')') => {
                Err(self.refuse("a word is missing in the test"))
            }
            Some('<' | '>') => Err(self.refuse("a word is missing in the test")),
            Some(_) => self.word(),
        }
    }

    /// The right side of `=~`. A pattern with parentheses is put into a
    /// variable first.
    fn pattern_word(&mut self) -> Result<Word, CommandRefusal> {
        let word = self.operand_word()?;
        if self.looking_at("|") && !self.looking_at("||") {
            return Err(self.refuse("put the pattern into a variable first"));
        }
        Ok(word)
    }
}
