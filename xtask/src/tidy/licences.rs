//! Checks that all compiled code may be shipped under Apache-2.0. Owns the allow list and the parser of licence
//! expressions; it trusts the packages' metadata.

use super::problem::Problem;
use crate::metadata::Package;

const OWN: &str = "Apache-2.0";

/// Licences that only require attribution.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    // For data: the root certificates in kube's TLS.
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
];

pub(super) fn problems(members: &[&Package], outsiders: &[&Package]) -> Vec<Problem> {
    let own = members.iter().filter(|member| member.license.as_deref() != Some(OWN)).map(|member| {
        Problem::new(&member.manifest_path, format!("write `license.workspace = true`: Bowline is {OWN}"))
    });
    let others = outsiders.iter().filter_map(|package| {
        let Package { name, version, license, .. } = package;
        let complaint = match license {
            None => "states no licence".to_owned(),
            Some(text) => match Expression::parse(text) {
                Ok(expression) if expression.is_satisfied_by(ALLOWED) => return None,
                Ok(_) => format!("is under {text}, which xtask/src/tidy/licences.rs does not allow"),
                Err(reason) => format!("states the licence {text:?}, which cannot be read: {reason}"),
            },
        };
        Some(Problem::new("Cargo.lock", format!("{name} {version} {complaint}: do without the package")))
    });
    own.chain(others).collect()
}

/// An SPDX licence expression. `WITH` binds closest, then `AND`, then `OR`; the slash of older packages is an `OR`.
#[derive(Debug, PartialEq, Eq)]
enum Expression {
    /// A licence, with its exception if there is one.
    Licence(String),
    All(Vec<Expression>),
    Any(Vec<Expression>),
}

impl Expression {
    fn parse(text: &str) -> Result<Self, String> {
        let spaced = text.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
        let words: Vec<_> = spaced.split_whitespace().collect();
        let mut rest = &words[..];
        let expression = any(&mut rest)?;
        match rest.first() {
            None => Ok(expression),
            Some(word) => Err(format!("{word} is not expected")),
        }
    }

    fn is_satisfied_by(&self, allowed: &[&str]) -> bool {
        match self {
            Self::Licence(name) => allowed.contains(&name.as_str()),
            Self::All(parts) => parts.iter().all(|part| part.is_satisfied_by(allowed)),
            Self::Any(parts) => parts.iter().any(|part| part.is_satisfied_by(allowed)),
        }
    }
}

fn any(rest: &mut &[&str]) -> Result<Expression, String> {
    let mut parts = vec![all(rest)?];
    while took(rest, "OR") {
        parts.push(all(rest)?);
    }
    Ok(Expression::Any(parts))
}

fn all(rest: &mut &[&str]) -> Result<Expression, String> {
    let mut parts = vec![licence(rest)?];
    while took(rest, "AND") {
        parts.push(licence(rest)?);
    }
    Ok(Expression::All(parts))
}

fn licence(rest: &mut &[&str]) -> Result<Expression, String> {
    if took(rest, "(") {
        let inside = any(rest)?;
        return if took(rest, ")") { Ok(inside) } else { Err("a parenthesis is not closed".to_owned()) };
    }
    let name = name(rest)?;
    if took(rest, "WITH") {
        let exception = self::name(rest)?;
        return Ok(Expression::Licence(format!("{name} WITH {exception}")));
    }
    Ok(Expression::Licence(name.to_owned()))
}

fn name<'a>(rest: &mut &[&'a str]) -> Result<&'a str, String> {
    match rest.split_first() {
        Some((word, after)) if !["OR", "AND", "WITH", "(", ")"].contains(word) => {
            *rest = after;
            Ok(word)
        }
        Some((word, _)) => Err(format!("a licence is expected before {word}")),
        None => Err("a licence is expected at the end".to_owned()),
    }
}

fn took(rest: &mut &[&str], word: &str) -> bool {
    match rest.split_first() {
        Some((first, after)) if *first == word => {
            *rest = after;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::problem::printed;
    use super::*;

    fn is_allowed(text: &str) -> bool {
        Expression::parse(text).unwrap().is_satisfied_by(ALLOWED)
    }

    fn package(name: &str, license: Option<&str>) -> Package {
        Package {
            name: name.to_owned(),
            version: "1.2.3".to_owned(),
            license: license.map(str::to_owned),
            manifest_path: format!("crates/{name}/Cargo.toml"),
            ..Package::default()
        }
    }

    #[test]
    fn deny_toml_allows_the_same_licences() {
        let text = include_str!("../../../deny.toml");
        let (_, list) = text.split_once("[licenses]\nallow = [\n").unwrap();
        let (list, _) = list.split_once("]\n").unwrap();
        let listed: Vec<_> = list.lines().map(|line| line.trim().trim_matches([',', '"'])).collect();
        assert_eq!(listed, ALLOWED);
    }

    #[test]
    fn one_allowed_licence_of_several_is_enough() {
        assert!(is_allowed("MIT"));
        assert!(is_allowed("GPL-3.0-only OR MIT"));
        assert!(is_allowed("MIT OR Apache-2.0 OR LGPL-2.1-or-later"));
        assert!(is_allowed("GPL-2.0/MIT"));
        assert!(!is_allowed("GPL-2.0 / LGPL-2.1"));
        assert!(!is_allowed("GPL-3.0-only"));
    }

    #[test]
    fn all_licences_of_a_conjunction_must_be_allowed() {
        assert!(is_allowed("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(!is_allowed("(MIT OR Apache-2.0) AND OpenSSL"));
    }

    #[test]
    fn and_binds_closer_than_or() {
        assert!(is_allowed("MIT OR OpenSSL AND ISC"));
        assert!(is_allowed("OpenSSL AND ISC OR MIT"));
        assert!(!is_allowed("(MIT OR ISC) AND OpenSSL"));
        assert!(!is_allowed("OpenSSL AND (MIT OR ISC)"));
    }

    #[test]
    fn an_exception_is_part_of_its_licence() {
        assert!(is_allowed("Apache-2.0 WITH LLVM-exception"));
        assert!(is_allowed("Apache-2.0 WITH LLVM-exception OR GPL-2.0-only"));
        assert!(!is_allowed("MIT WITH LLVM-exception"));
        assert!(!is_allowed("Apache-2.0 WITH Classpath-exception-2.0"));
        assert!(!is_allowed("Apache-2.0+"));
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for text in [
            "",
            "MIT OR",
            "AND MIT",
            "(MIT",
            "MIT)",
            "MIT ISC",
            "MIT WITH",
            "()",
            "MIT WITH (ISC)",
            "MIT or ISC",
        ] {
            assert!(Expression::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_package_whose_licence_is_not_allowed_is_reported() {
        let (good, bad) = (package("good", Some("MIT")), package("bad", Some("AGPL-3.0-only")));
        let (silent, odd) = (package("silent", None), package("odd", Some("see LICENSE")));
        assert_eq!(
            printed(&problems(&[], &[&good, &bad, &silent, &odd])),
            [
                "Cargo.lock: bad 1.2.3 is under AGPL-3.0-only, which xtask/src/tidy/licences.rs does not allow: \
                 do without the package",
                "Cargo.lock: silent 1.2.3 states no licence: do without the package",
                "Cargo.lock: odd 1.2.3 states the licence \"see LICENSE\", which cannot be read: \
                 LICENSE is not expected: do without the package",
            ]
        );
    }

    #[test]
    fn a_member_under_another_licence_is_reported() {
        let (right, wrong) = (package("right", Some("Apache-2.0")), package("wrong", Some("MIT")));
        assert_eq!(
            printed(&problems(&[&right, &wrong, &package("silent", None)], &[])),
            ["wrong", "silent"].map(|name| format!(
                "crates/{name}/Cargo.toml: write `license.workspace = true`: Bowline is Apache-2.0"
            ))
        );
    }
}
