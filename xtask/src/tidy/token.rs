//! Splits Rust text into words, string literals and marks, so that declarations are found outside of comments and
//! strings. It is not a parser, and accepts invalid code.

/// One token. Comments and white space are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A keyword, a name or a number; a raw name without its `r#`.
    Word(&'a str),
    /// Text between the quotes of a string or character literal, escapes as written.
    Literal(&'a str),
    /// Any other character.
    Mark(char),
}

/// The tokens of a text, each with its line; the first line is 1.
pub(super) fn tokens(text: &str) -> Vec<(usize, Token<'_>)> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        let (length, token) = next(rest, first);
        found.extend(token.map(|token| (line, token)));
        let (passed, after) = rest.split_at(length);
        line += passed.matches('\n').count();
        rest = after;
    }
    found
}

/// The length of the first part of `rest`, and its token.
fn next(rest: &str, first: char) -> (usize, Option<Token<'_>>) {
    if rest.starts_with("//") {
        (rest.find('\n').unwrap_or(rest.len()), None)
    } else if rest.starts_with("/*") {
        (block_comment(rest), None)
    } else if first.is_whitespace() {
        (first.len_utf8(), None)
    } else if first == '"' {
        let (inside, length) = quoted(rest, b'"');
        (length, Some(Token::Literal(inside)))
    } else if first == '\'' && is_character(rest) {
        let (inside, length) = quoted(rest, b'\'');
        (length, Some(Token::Literal(inside)))
    } else if is_word(first) {
        word(rest)
    } else {
        (first.len_utf8(), Some(Token::Mark(first)))
    }
}

fn is_word(character: char) -> bool {
    character == '_' || character.is_alphanumeric()
}

fn word(rest: &str) -> (usize, Option<Token<'_>>) {
    let length = rest.find(|character| !is_word(character)).unwrap_or(rest.len());
    let (word, after) = rest.split_at(length);
    if matches!(word, "r" | "br" | "cr") {
        let hashes = after.len() - after.trim_start_matches('#').len();
        if after[hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let inside = &after[hashes + 1..];
            let inside = &inside[..inside.find(&end).unwrap_or(inside.len())];
            let whole = length + hashes + 1 + inside.len() + end.len();
            return (whole.min(rest.len()), Some(Token::Literal(inside)));
        }
        if word == "r" && hashes == 1 && after[1..].starts_with(is_word) {
            let name = &after[1..];
            let name = &name[..name.find(|character| !is_word(character)).unwrap_or(name.len())];
            return (length + 1 + name.len(), Some(Token::Word(name)));
        }
    }
    (length, Some(Token::Word(word)))
}

/// The length of a block comment, and of those inside it.
fn block_comment(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        match &rest.as_bytes()[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                at += 2;
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    rest.len()
}

/// Text between two quotes, and the length including them.
fn quoted(rest: &str, quote: u8) -> (&str, usize) {
    let mut escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(1) {
        if escaped {
            escaped = false;
        } else if byte == b'\\' {
            escaped = true;
        } else if byte == quote {
            return (&rest[1..at], at + 1);
        }
    }
    (&rest[1..], rest.len())
}

/// Whether a single quote begins a character and not a lifetime.
fn is_character(rest: &str) -> bool {
    let mut characters = rest.chars().skip(1);
    match characters.next() {
        Some('\\') => true,
        Some(_) => characters.next() == Some('\''),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::Token::{Literal, Mark, Word};
    use super::*;

    fn without_lines(text: &str) -> Vec<Token<'_>> {
        tokens(text).into_iter().map(|(_, token)| token).collect()
    }

    #[test]
    fn comments_are_no_tokens() {
        let text = "a // mod b;\n/* mod c; /* mod d; */ mod e; */ f /// g\n//! h";
        assert_eq!(tokens(text), [(1, Word("a")), (2, Word("f"))]);
    }

    #[test]
    fn the_inside_of_a_literal_is_one_token() {
        assert_eq!(without_lines(r#""a \" // b" c"#), [Literal(r#"a \" // b"#), Word("c")]);
        assert_eq!(without_lines(r##"r#"a " b"# br"\" c"##), [Literal("a \" b"), Literal("\\"), Word("c")]);
        assert_eq!(without_lines("b\"a\""), [Word("b"), Literal("a")]);
    }

    #[test]
    fn a_character_is_told_from_a_lifetime() {
        assert_eq!(without_lines("'\"' '\\'' 'é'"), [Literal("\""), Literal("\\'"), Literal("é")]);
        assert_eq!(without_lines("&'a str"), [Mark('&'), Mark('\''), Word("a"), Word("str")]);
    }

    #[test]
    fn a_raw_name_is_its_name() {
        assert_eq!(without_lines("mod r#async;"), [Word("mod"), Word("async"), Mark(';')]);
    }

    #[test]
    fn a_text_that_ends_inside_a_token_is_read_to_its_end() {
        for text in ["\"a", "r#\"a", "/* a", "'", "'\\", "r#", "// a", "\"\\"] {
            tokens(text);
        }
    }

    #[test]
    fn lines_are_counted_through_literals_and_comments() {
        assert_eq!(tokens("/*\n*/ \"\n\"\na"), [(2, Literal("\n")), (4, Word("a"))]);
    }
}
