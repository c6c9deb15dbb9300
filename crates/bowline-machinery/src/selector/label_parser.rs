//! The grammar of label selectors and its errors.

use std::collections::BTreeSet;

use super::label::{LabelOperator, LabelRequirement, LabelSelectorError, invalid_key};
use crate::FieldPath;

/// The requirements in the order in which they were written.
pub(super) fn parse(text: &str) -> Result<Vec<LabelRequirement>, LabelSelectorError> {
    let mut parser = Parser { tokens: tokens(text), position: 0 };
    let mut requirements = Vec::new();
    loop {
        match parser.peek() {
            Token::Word(_) | Token::Mark("!") => {
                let requirement = parser.requirement().map_err(|error| {
                    LabelSelectorError::new(format!("unable to parse requirement: {error}"))
                })?;
                requirements.push(requirement);
            }
            Token::End => return Ok(requirements),
            Token::Mark(_) => return parser.unexpected("!, identifier, or 'end of string'"),
        }
        match parser.peek() {
            Token::End => return Ok(requirements),
            Token::Mark(",") => {
                parser.next();
                if !matches!(parser.peek(), Token::Word(_) | Token::Mark("!")) {
                    return parser.unexpected("identifier after ','");
                }
            }
            _ => return parser.unexpected("',' or 'end of string'"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// A key, a value, or `in` and `notin`, which are operators only behind a key.
    Word(&'a str),
    Mark(&'static str),
    End,
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::Word(text) | Self::Mark(text) => text,
            Self::End => "",
        }
    }
}

struct Parser<'a> {
    /// Without the end token, which repeats forever.
    tokens: Vec<Token<'a>>,
    position: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens.get(self.position).copied().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.position += 1;
        token
    }

    /// The error for the token that comes next.
    fn unexpected<T>(&self, expected: &str) -> Result<T, LabelSelectorError> {
        Err(LabelSelectorError::new(format!("found '{}', expected: {expected}", self.peek().text())))
    }

    fn requirement(&mut self) -> Result<LabelRequirement, LabelSelectorError> {
        let negated = self.peek() == Token::Mark("!");
        if negated {
            self.next();
        }
        let Token::Word(key) = self.peek() else { return self.unexpected("identifier") };
        self.next();
        if let Some(error) = invalid_key(key, &FieldPath::root()) {
            return Err(LabelSelectorError::new(error.to_string()));
        }
        if negated {
            return LabelRequirement::new(key, LabelOperator::DoesNotExist, Vec::new());
        }
        let operator = match self.peek() {
            Token::End | Token::Mark(",") => {
                return LabelRequirement::new(key, LabelOperator::Exists, Vec::new());
            }
            Token::Word("in") => LabelOperator::In,
            Token::Word("notin") => LabelOperator::NotIn,
            Token::Mark("=") => LabelOperator::Equals,
            Token::Mark("==") => LabelOperator::DoubleEquals,
            Token::Mark("!=") => LabelOperator::NotEquals,
            Token::Mark(">") => LabelOperator::GreaterThan,
            Token::Mark("<") => LabelOperator::LessThan,
            _ => return self.unexpected("in, notin, =, ==, !=, gt, lt"),
        };
        self.next();
        let values = match operator {
            LabelOperator::In | LabelOperator::NotIn => self.set()?,
            _ => BTreeSet::from([self.value()?]),
        };
        LabelRequirement::new(key, operator, values.into_iter().map(str::to_owned).collect())
    }

    /// The value of a comparison; may be empty.
    fn value(&mut self) -> Result<&'a str, LabelSelectorError> {
        match self.peek() {
            Token::End | Token::Mark(",") => Ok(""),
            Token::Word(value) => {
                self.next();
                Ok(value)
            }
            Token::Mark(_) => self.unexpected("identifier"),
        }
    }

    /// Values in parentheses. A comma without a value on one side adds the empty value.
    fn set(&mut self) -> Result<BTreeSet<&'a str>, LabelSelectorError> {
        if self.peek() != Token::Mark("(") {
            // The message of Kubernetes has no comma here.
            return Err(LabelSelectorError::new(format!("found '{}' expected: '('", self.peek().text())));
        }
        self.next();
        match self.peek() {
            Token::Word(_) | Token::Mark(",") => {}
            Token::Mark(")") => {
                self.next();
                return Ok(BTreeSet::from([""]));
            }
            _ => return self.unexpected("',', ')' or identifier"),
        }
        let mut values = BTreeSet::new();
        loop {
            match self.peek() {
                Token::Word(value) => {
                    self.next();
                    values.insert(value);
                    match self.peek() {
                        Token::Mark(",") => {}
                        Token::Mark(")") => break,
                        _ => return self.unexpected("',' or ')'"),
                    }
                }
                Token::Mark(",") => {
                    self.next();
                    let behind = self.peek();
                    if values.is_empty() || matches!(behind, Token::Mark("," | ")")) {
                        values.insert("");
                    }
                    if behind == Token::Mark(")") {
                        break;
                    }
                }
                _ => return self.unexpected("',', or identifier"),
            }
        }
        self.next();
        Ok(values)
    }
}

/// Splits a text into tokens. Operators are as long as possible; all else between operators and white space is a word.
/// A zero byte ends a word as white space does, and ends the text elsewhere.
fn tokens(text: &str) -> Vec<Token<'_>> {
    const MARKS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];
    const WHITE: [char; 4] = [' ', '\t', '\r', '\n'];
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(WHITE);
    while !rest.is_empty() && !rest.starts_with('\0') {
        if let Some(mark) = MARKS.iter().find(|mark| rest.starts_with(**mark)) {
            tokens.push(Token::Mark(mark));
            rest = &rest[mark.len()..];
            // A zero byte after an operator is skipped.
            rest = rest.strip_prefix('\0').unwrap_or(rest);
        } else {
            let is_end = |c: char| c == '\0' || WHITE.contains(&c) || "=!(),><".contains(c);
            let end = rest.find(is_end).unwrap_or(rest.len());
            tokens.push(Token::Word(&rest[..end]));
            rest = &rest[end..];
            rest = rest.strip_prefix('\0').unwrap_or(rest);
        }
        rest = rest.trim_start_matches(WHITE);
    }
    tokens
}
