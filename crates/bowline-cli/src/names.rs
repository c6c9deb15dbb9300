//! The names that a user chooses: their rules, and the names that follow from them. The rules are functions for the command
//! line, which prints their message beside the argument.

mod reserved;

use bowline::machinery::{validate_dns1035_label, validate_dns1123_subdomain};

pub(crate) use reserved::{is_keyword, is_package_name};

/// A name of a project: of a folder, a package, a program and Kubernetes objects.
pub(crate) fn project(name: &str) -> Result<String, String> {
    check(name, &validate_dns1035_label(name), LABEL)?;
    if is_keyword(name) {
        return Err("it is a keyword of Rust".to_owned());
    }
    if let Some(reason) = reserved::reason_against_package(name) {
        return Err(reason);
    }
    Ok(name.to_owned())
}

/// A domain, with which the API groups of a project end.
pub(crate) fn domain(domain: &str) -> Result<String, String> {
    check(domain, &validate_dns1123_subdomain(domain), SUBDOMAIN)?;
    if is_protected(domain) {
        return Err("it is reserved for Kubernetes itself: use a domain of your own".to_owned());
    }
    Ok(domain.to_owned())
}

/// The first part of an API group, or the group of a built-in kind.
pub(crate) fn group(group: &str) -> Result<String, String> {
    check(group, &validate_dns1123_subdomain(group), SUBDOMAIN)?;
    Ok(group.to_owned())
}

/// A version of an API.
pub(crate) fn version(version: &str) -> Result<String, String> {
    if is_version(version) && version.len() <= 63 {
        return Ok(version.to_owned());
    }
    Err("a version is `v` and a number, then `alpha` or `beta` and a number if it is not stable: v1, v1alpha1, v2beta3"
        .to_owned())
}

/// A kind: the name of a Rust type, too.
pub(crate) fn kind(kind: &str) -> Result<String, String> {
    let is_camel = kind.starts_with(|first: char| first.is_ascii_uppercase())
        && kind.chars().all(|next| next.is_ascii_alphanumeric());
    if !is_camel {
        return Err(
            "a kind begins with a capital letter and has only letters and digits: Game, ChessGame".to_owned()
        );
    }
    check(kind, &validate_dns1035_label(&kind.to_lowercase()), LABEL)?;
    if reserved::is_type_in_scope(kind) {
        return Err(
            "the file of the kind needs this name for another type: choose a more special one".to_owned()
        );
    }
    Ok(kind.to_owned())
}

/// A plural: the name of a resource in URLs.
pub(crate) fn plural(plural: &str) -> Result<String, String> {
    check(plural, &validate_dns1035_label(plural), LABEL)?;
    Ok(plural.to_owned())
}

/// A name of a controller.
pub(crate) fn controller(name: &str) -> Result<String, String> {
    check(name, &validate_dns1035_label(name), LABEL)?;
    Ok(name.to_owned())
}

/// A licence expression of SPDX. Only its characters are checked.
pub(crate) fn license(license: &str) -> Result<String, String> {
    let is_expression = |next: char| next.is_ascii_alphanumeric() || ".+-() ".contains(next);
    if !license.trim().is_empty() && license.chars().all(is_expression) {
        return Ok(license.to_owned());
    }
    Err("a licence is an expression of SPDX: Apache-2.0, MIT, \"MIT OR Apache-2.0\"".to_owned())
}

/// The owner of a copyright: one line of text.
pub(crate) fn owner(owner: &str) -> Result<String, String> {
    if !owner.trim().is_empty() && !owner.chars().any(char::is_control) {
        return Ok(owner.trim().to_owned());
    }
    Err("the owner is one line of text".to_owned())
}

/// The API group of a project's kinds.
pub(crate) fn full_group(group: &str, domain: &str) -> Result<String, String> {
    let full = format!("{group}.{domain}");
    check(&full, &validate_dns1123_subdomain(&full), SUBDOMAIN)?;
    Ok(full)
}

/// The name of the lease of a project's replicas.
pub(crate) fn lease(name: &str, domain: &str) -> Result<String, String> {
    full_group(name, domain)
}

/// The plural that the derive macro of kube gives a kind.
pub(crate) fn default_plural(kind: &str) -> String {
    let word = kind.to_ascii_lowercase();
    if word.ends_with(['s', 'x', 'z']) || word.ends_with("ch") || word.ends_with("sh") {
        return format!("{word}es");
    }
    match word.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ => format!("{word}s"),
    }
}

/// `ChessGame` as `chess_game`, `HTTPRoute` as `http_route`.
pub(crate) fn snake_case(camel: &str) -> String {
    let letters: Vec<char> = camel.chars().collect();
    let mut snake = String::new();
    for (at, letter) in letters.iter().enumerate() {
        let previous = at.checked_sub(1).map(|before| letters[before]);
        let begins_word = letter.is_ascii_uppercase()
            && previous.is_some_and(|previous| {
                let next_is_small = letters.get(at + 1).is_some_and(char::is_ascii_lowercase);
                !previous.is_ascii_uppercase() || next_is_small
            });
        if begins_word {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

const LABEL: &str =
    "use lower-case letters, digits and '-', a letter first, at most 63 characters: chess-games";
const SUBDOMAIN: &str = "use lower-case letters, digits and '-', in parts with dots between them, at most 253 characters: example.com";

/// Kubernetes' rule decides; the message is shorter than its own.
fn check(name: &str, wrong: &[String], rule: &str) -> Result<(), String> {
    match wrong {
        [] => Ok(()),
        _ if name.is_empty() => Err(format!("it is empty: {rule}")),
        _ => Err(rule.to_owned()),
    }
}

/// Whether kube-apiserver takes CRDs of this group only with an approval of the Kubernetes project.
fn is_protected(domain: &str) -> bool {
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|own| domain.strip_suffix(own).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

fn is_version(version: &str) -> bool {
    let Some(rest) = version.strip_prefix('v') else { return false };
    match rest.find("alpha").map(|at| (at, 5)).or_else(|| rest.find("beta").map(|at| (at, 4))) {
        Some((at, length)) => is_number(&rest[..at]) && is_number(&rest[at + length..]),
        None => is_number(rest),
    }
}

fn is_number(text: &str) -> bool {
    !text.starts_with('0') && !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_kubernetes() {
        for good in ["v1", "v10", "v1alpha1", "v2beta30"] {
            assert_eq!(version(good).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "1",
            "v",
            "v0",
            "v01",
            "V1",
            "v1alpha",
            "v1alpha0",
            "valpha1",
            "v1gamma1",
            "v1.2",
            "v1beta1alpha1",
        ] {
            assert!(version(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_kind_is_a_type_that_clashes_with_no_other() {
        for good in ["Game", "ChessGame", "HTTPRoute", "K8sCluster", "Deployment"] {
            assert_eq!(kind(good).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "game",
            "Chess_Game",
            "Chess-Game",
            "Spïel",
            "1Game",
            "Result",
            "Context",
            "Self",
            "Vec",
            "TestEnv",
        ] {
            assert!(kind(bad).is_err(), "{bad}");
        }
        assert!(kind(&format!("G{}", "a".repeat(63))).is_err());
    }

    #[test]
    fn a_project_is_a_package_and_a_label() {
        for good in ["games", "chess-games", "g2"] {
            assert_eq!(project(good).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "Games",
            "chess_games",
            "2games",
            "-games",
            "games-",
            "a/b",
            "..",
            "test",
            "core",
            "std",
            "bowline",
            "tokio",
            "async",
            "fn",
            "gen",
            "build",
            "deps",
            "con",
            "proc-macro",
            "bowline-testing",
        ] {
            assert!(project(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn domains_of_kubernetes_are_refused() {
        for good in ["example.com", "local", "my-k8s.io", "tutorial.kubebuilder.io"] {
            assert_eq!(domain(good).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "Example.com",
            "example..com",
            "k8s.io",
            "games.k8s.io",
            "kubernetes.io",
            "a.kubernetes.io",
            "a b",
        ] {
            assert!(domain(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn plurals_are_those_of_the_derive_macro() {
        for (kind, plural) in [
            ("Game", "games"),
            ("ChessGame", "chessgames"),
            ("Proxy", "proxies"),
            ("Gateway", "gateways"),
            ("Bus", "buses"),
            ("Box", "boxes"),
            ("Quiz", "quizes"),
            ("Batch", "batches"),
            ("Mesh", "meshes"),
        ] {
            assert_eq!(default_plural(kind), plural);
        }
    }

    #[test]
    fn words_of_a_kind_are_found() {
        for (camel, snake) in [
            ("Game", "game"),
            ("ChessGame", "chess_game"),
            ("HTTPRoute", "http_route"),
            ("IPAddress", "ip_address"),
            ("K8sCluster", "k8s_cluster"),
            ("CSIDriver", "csi_driver"),
            ("GameV2", "game_v2"),
        ] {
            assert_eq!(snake_case(camel), snake);
        }
    }
}
