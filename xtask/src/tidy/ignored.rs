//! Checks that an ignored test names the target that runs it.

use std::collections::BTreeMap;

use super::problem::Problem;
use super::token::Token::{self, Literal, Mark, Word};
use super::token::tokens;

const REMEDY: &str = "an ignored test names the target that runs it: `#[ignore = \"run by …\"]`";

pub(super) fn problems(files: &BTreeMap<&str, &str>) -> Vec<Problem> {
    let lines =
        files.iter().flat_map(|(file, text)| unexplained(text).into_iter().map(move |line| (file, line)));
    lines.map(|(file, line)| Problem::at(*file, line, REMEDY)).collect()
}

/// The lines of attributes that ignore a test without naming a target.
fn unexplained(text: &str) -> Vec<usize> {
    let (lines, tokens): (Vec<_>, Vec<_>) = tokens(text).into_iter().unzip();
    let starts = tokens.windows(2).enumerate().filter(|(_, pair)| *pair == [Mark('#'), Mark('[')]);
    starts
        .filter(|(at, _)| ignore(&tokens[at + 2..]).is_some_and(|reason| !is_explained(reason)))
        .map(|(at, _)| lines[at])
        .collect()
}

/// The tokens after `ignore` in an attribute, itself or under a `cfg_attr`. `None` if the attribute ignores nothing.
fn ignore<'a>(attribute: &'a [Token<'a>]) -> Option<&'a [Token<'a>]> {
    match attribute {
        [Word("ignore"), reason @ ..] => Some(reason),
        [Word("cfg_attr"), rest @ ..] => {
            let end = rest.iter().position(|token| *token == Mark(']')).unwrap_or(rest.len());
            let at = rest[..end].windows(2).position(|pair| pair == [Mark(','), Word("ignore")])?;
            Some(&rest[at + 2..])
        }
        _ => None,
    }
}

fn is_explained(reason: &[Token<'_>]) -> bool {
    match reason {
        [Mark('='), Literal(reason), ..] => {
            reason.strip_prefix("run by ").is_some_and(|target| !target.trim().is_empty())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::problem::printed;
    use super::*;

    #[test]
    fn an_ignored_test_that_names_no_target_is_reported() {
        let text = "#[test]\n#[ignore]\nfn a() {}\n#[ignore = \"slow\"]\nfn b() {}\n#[ignore = \"run by \"]\nfn c() {}";
        let found = printed(&problems(&BTreeMap::from([("a.rs", text)])));
        assert_eq!(found, [2, 4, 6].map(|line| format!("a.rs:{line}: {REMEDY}")));
    }

    #[test]
    fn a_test_that_is_ignored_under_a_condition_is_reported() {
        assert_eq!(unexplained("#[cfg_attr(not(feature = \"x\"), ignore)]"), [1]);
        assert_eq!(unexplained("#[cfg_attr(miri, ignore = \"run by cargo test\")]"), [0; 0]);
        assert_eq!(unexplained("#[cfg_attr(ignore, must_use)]"), [0; 0]);
    }

    #[test]
    fn a_test_that_names_its_target_is_fine() {
        assert_eq!(unexplained("#[ignore = \"run by cargo xtask parity\"]\nfn a() {}"), [0; 0]);
    }

    #[test]
    fn the_word_in_a_comment_or_a_string_ignores_nothing() {
        assert_eq!(unexplained("// #[ignore]\nconst A: &str = \"#[ignore]\";"), [0; 0]);
    }
}
