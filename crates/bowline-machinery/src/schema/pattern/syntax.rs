//! The syntax of Go's `regexp`, translated for the `regex` crate, which differs in details: in Go, classes and word
//! boundaries are ASCII, a brace can be literal, and brackets do not nest.

use super::class;

/// A syntax error, in Go's words.
pub(super) struct Error<'s> {
    pub(super) what: &'static str,
    /// The wrong part.
    pub(super) part: &'s str,
}

pub(super) fn error<'s, T>(what: &'static str, part: &'s str) -> Result<T, Error<'s>> {
    Err(Error { what, part })
}

/// Maximum product of nested repetition counts.
const MAX_REPEAT: u64 = 1000;

pub(super) fn translate(source: &str) -> Result<String, Error<'_>> {
    let mut reader = Reader {
        source,
        rest: source,
        out: String::with_capacity(source.len() + 8),
        groups: Vec::new(),
        operand: None,
        widest: 1,
        flags_at: None,
    };
    let mut last_repeat = None;
    while let Some(c) = reader.rest.chars().next() {
        let before = reader.rest;
        let mut repeat = None;
        match c {
            '(' => reader.open()?,
            ')' => reader.close()?,
            '|' => {
                reader.copy(1);
                reader.operand = None;
            }
            '^' | '$' | '.' => {
                reader.copy(1);
                reader.did_read(1);
            }
            '[' => {
                let (class, rest) = class::brackets(reader.rest)?;
                reader.out.push_str(&class);
                reader.rest = rest;
                reader.did_read(1);
            }
            '*' | '+' | '?' => {
                reader.rest = &reader.rest[1..];
                reader.repeat(before, last_repeat, &before[..1], None)?;
                repeat = Some(before);
            }
            '{' => match bounds(reader.rest) {
                Some((low, high, rest)) => {
                    reader.rest = rest;
                    let operator = &before[..before.len() - rest.len()];
                    if low > MAX_REPEAT || high.is_some_and(|high| high > MAX_REPEAT || low > high) {
                        return error("invalid repeat count", operator);
                    }
                    reader.repeat(before, last_repeat, operator, Some((low, high)))?;
                    repeat = Some(before);
                }
                None => reader.literal(c),
            },
            '\\' => reader.escape()?,
            c => reader.literal(c),
        }
        last_repeat = repeat;
    }
    if reader.groups.is_empty() { Ok(reader.out) } else { error("missing closing )", source) }
}

struct Reader<'s> {
    source: &'s str,
    rest: &'s str,
    out: String,
    /// The largest operand so far in each open group.
    groups: Vec<u64>,
    /// The operand of a repetition: the number of copies that it requires.
    operand: Option<u64>,
    widest: u64,
    /// The position of flags in `out`, if nothing follows them.
    flags_at: Option<usize>,
}

impl<'s> Reader<'s> {
    fn copy(&mut self, length: usize) {
        let (copied, rest) = self.rest.split_at(length);
        self.out.push_str(copied);
        self.rest = rest;
    }

    fn did_read(&mut self, width: u64) {
        self.operand = Some(width);
        self.flags_at = None;
        self.widest = self.widest.max(width);
    }

    fn literal(&mut self, c: char) {
        self.rest = &self.rest[c.len_utf8()..];
        self.emit(c);
    }

    fn emit(&mut self, c: char) {
        self.out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
        self.did_read(1);
    }

    fn open(&mut self) -> Result<(), Error<'s>> {
        if let Some(flags) = self.rest.strip_prefix("(?") {
            return self.flags(flags);
        }
        self.rest = &self.rest[1..];
        // No match reads a group, and each capturing group costs memory in each state.
        self.group("(?:");
        Ok(())
    }

    fn group(&mut self, opening: &str) {
        self.out.push_str(opening);
        self.groups.push(self.widest);
        self.widest = 1;
        self.operand = None;
        self.flags_at = None;
    }

    fn close(&mut self) -> Result<(), Error<'s>> {
        let Some(widest) = self.groups.pop() else { return error("unexpected )", self.source) };
        self.copy(1);
        let width = std::mem::replace(&mut self.widest, widest);
        self.did_read(width);
        Ok(())
    }

    /// A name or flags after `(?`.
    fn flags(&mut self, flags: &'s str) -> Result<(), Error<'s>> {
        if let Some(named) = flags.strip_prefix("P<").or_else(|| flags.strip_prefix('<')) {
            let Some((name, rest)) = named.split_once('>') else {
                return error("invalid named capture", self.rest);
            };
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                return error("invalid named capture", &self.rest[..self.rest.len() - rest.len()]);
            }
            self.rest = rest;
            self.group("(?:");
            return Ok(());
        }
        let (mut is_negative, mut has_flag) = (false, false);
        for (index, c) in flags.char_indices() {
            let rest = &flags[index + c.len_utf8()..];
            match c {
                'i' | 'm' | 's' | 'U' => has_flag = true,
                '-' if !is_negative => (is_negative, has_flag) = (true, false),
                ':' | ')' if !is_negative || has_flag => {
                    let flags = &flags[..index];
                    self.rest = rest;
                    if c == ':' {
                        self.group(&format!("(?{flags}:"));
                    } else if !flags.is_empty() {
                        self.flags_at.get_or_insert(self.out.len());
                        self.out.extend(["(?", flags, ")"]);
                    }
                    return Ok(());
                }
                _ => {
                    let part = &self.rest[..self.rest.len() - rest.len()];
                    return error("invalid or unsupported Perl syntax", part);
                }
            }
        }
        error("invalid or unsupported Perl syntax", self.rest)
    }

    /// Writes a repetition; `self.rest` is the text after its operator.
    fn repeat(
        &mut self,
        before: &'s str,
        last: Option<&'s str>,
        operator: &str,
        bounds: Option<(u64, Option<u64>)>,
    ) -> Result<(), Error<'s>> {
        let lazy = if let Some(rest) = self.rest.strip_prefix('?') {
            self.rest = rest;
            "?"
        } else {
            ""
        };
        if let Some(last) = last {
            return error("invalid nested repetition operator", &last[..last.len() - self.rest.len()]);
        }
        let part = &before[..before.len() - self.rest.len()];
        let Some(operand) = self.operand else {
            return error("missing argument to repetition operator", part);
        };
        let times = bounds.map_or(1, |(low, high)| high.unwrap_or(low).max(1));
        let width = operand * times;
        if times >= 2 && width > MAX_REPEAT {
            return error("invalid repeat count", part);
        }
        // Flags between an operand and its repetition do not count.
        let place = self.flags_at.take().unwrap_or(self.out.len());
        self.out.insert_str(place, &format!("{operator}{lazy}"));
        self.did_read(width);
        Ok(())
    }

    fn escape(&mut self) -> Result<(), Error<'s>> {
        let rest = &self.rest[1..];
        match rest.chars().next() {
            Some('A' | 'z') => self.copy(2),
            Some(c @ ('b' | 'B')) => {
                self.out.push_str(if c == 'b' { r"(?-u:\b)" } else { r"(?-u:\B)" });
                self.rest = &rest[1..];
            }
            Some('C') => return error("invalid escape sequence", &self.rest[..2]),
            Some('Q') => {
                let text = &rest[1..];
                let (text, behind) = text.split_once(r"\E").unwrap_or((text, ""));
                text.chars().for_each(|c| self.emit(c));
                self.rest = behind;
                return Ok(());
            }
            _ => {
                if let Some((class, rest)) = class::escaped(self.rest, false)? {
                    self.out.push_str(&class);
                    self.rest = rest;
                } else {
                    let (c, rest) = class::character(self.rest)?;
                    self.rest = rest;
                    self.emit(c);
                }
            }
        }
        self.did_read(1);
        Ok(())
    }
}

/// `{2}`, `{2,}` or `{2,3}`, and the rest of the text; anything else is a literal brace.
fn bounds(text: &str) -> Option<(u64, Option<u64>, &str)> {
    let (inside, rest) = text.strip_prefix('{')?.split_once('}')?;
    let number = |digits: &str| {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let has_zero_in_front = digits.len() > 1 && digits.starts_with('0');
        (is_number && !has_zero_in_front).then(|| digits.parse().unwrap_or(u64::MAX))
    };
    let (low, high) = match inside.split_once(',') {
        None => (number(inside)?, Some(number(inside)?)),
        Some((low, "")) => (number(low)?, None),
        Some((low, high)) => (number(low)?, Some(number(high)?)),
    };
    Some((low, high, rest))
}
