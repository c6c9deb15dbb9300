//! Mail addresses, as Go parses them: RFC 5322, with or without a name in front.

use super::net;

/// Whether a text is one address.
pub(super) fn is_address(text: &str) -> bool {
    let mut reader = Reader { rest: text };
    reader.address().is_some() && reader.comments().is_some() && reader.rest.is_empty()
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn address(&mut self) -> Option<()> {
        self.space();
        let start = self.rest;
        if self.plain().is_some() {
            return Some(());
        }
        self.rest = start;
        if !self.rest.starts_with('<') {
            self.phrase()?;
        }
        self.space();
        if self.take(':') {
            return self.group();
        }
        self.angle()
    }

    fn angle(&mut self) -> Option<()> {
        let is_open = self.take('<');
        (is_open && self.plain().is_some() && self.take('>')).then_some(())
    }

    /// A group is valid if it contains one address.
    fn group(&mut self) -> Option<()> {
        self.space();
        self.address()?;
        self.comments()?;
        let is_closed = self.take(';');
        self.comments()?;
        is_closed.then_some(())
    }

    /// `name@domain`
    fn plain(&mut self) -> Option<()> {
        self.space();
        if self.rest.starts_with('"') {
            if self.quoted()? == 0 {
                return None;
            }
        } else {
            self.atom(false)?;
        }
        if !self.take('@') {
            return None;
        }
        self.space();
        if self.take('[') {
            let (address, behind) = self.rest.split_once(']')?;
            self.rest = behind;
            return net::is_ip(address).then_some(());
        }
        self.atom(false)
    }

    fn phrase(&mut self) -> Option<()> {
        let mut words = 0;
        loop {
            if words > 0 {
                self.comments()?;
            }
            self.space();
            let start = self.rest;
            let word = if start.starts_with('"') { self.quoted().map(|_| ()) } else { self.atom(true) };
            if word.is_none() {
                self.rest = start;
                return (words > 0).then_some(());
            }
            words += 1;
        }
    }

    /// The length of the text between the quotes.
    fn quoted(&mut self) -> Option<usize> {
        let mut length = 0;
        let mut is_escaped = false;
        for (index, c) in self.rest.char_indices().skip(1) {
            match c {
                _ if !is_visible(c) && c != ' ' && c != '\t' => return None,
                _ if is_escaped => {
                    is_escaped = false;
                    length += 1;
                }
                '"' => {
                    self.rest = &self.rest[index + 1..];
                    return Some(length);
                }
                '\\' => is_escaped = true,
                _ => length += 1,
            }
        }
        None
    }

    fn atom(&mut self, is_lenient: bool) -> Option<()> {
        let is_part = |c: char| is_visible(c) && !"()<>[]:;@\\,\"".contains(c);
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (atom, rest) = self.rest.split_at(end);
        self.rest = rest;
        let has_stray_dot = atom.starts_with('.') || atom.ends_with('.') || atom.contains("..");
        (!atom.is_empty() && (is_lenient || !has_stray_dot)).then_some(())
    }

    fn comments(&mut self) -> Option<()> {
        self.space();
        while self.take('(') {
            let mut depth = 1;
            while depth > 0 {
                let c = self.rest.chars().next()?;
                self.rest = &self.rest[c.len_utf8()..];
                match c {
                    '\\' => {
                        let escaped = self.rest.chars().next()?;
                        self.rest = &self.rest[escaped.len_utf8()..];
                    }
                    '(' => depth += 1,
                    ')' => depth -= 1,
                    _ => {}
                }
            }
            self.space();
        }
        Some(())
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn take(&mut self, c: char) -> bool {
        let behind = self.rest.strip_prefix(c);
        self.rest = behind.unwrap_or(self.rest);
        behind.is_some()
    }
}

fn is_visible(c: char) -> bool {
    c.is_ascii_graphic() || !c.is_ascii()
}
