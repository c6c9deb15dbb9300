//! Names that follow the rules of DNS.

use super::{framed, is_lower_alphanumeric, longer_than, mismatch};

const LABEL_LIMIT: usize = 63;
const SUBDOMAIN_LIMIT: usize = 253;

/// A lowercase label of RFC 1123: `123-abc`, at most 63 bytes.
#[must_use]
pub fn validate_dns1123_label(value: &str) -> Vec<String> {
    let mut wrong = too_long(value, LABEL_LIMIT);
    if !is_label(value) {
        wrong.push(if is_subdomain(value) {
            "must not contain dots".to_owned()
        } else {
            mismatch(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                 start and end with an alphanumeric character",
                "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
                &["my-name", "123-abc"],
            )
        });
    }
    wrong
}

/// Lowercase labels of RFC 1123 with dots between them: `example.com`, at most 253 bytes.
#[must_use]
pub fn validate_dns1123_subdomain(value: &str) -> Vec<String> {
    let mut wrong = too_long(value, SUBDOMAIN_LIMIT);
    wrong.extend(subdomain_mismatch(value));
    wrong
}

/// A label of RFC 1035, which starts with a letter: `abc-123`, at most 63 bytes.
#[must_use]
pub fn validate_dns1035_label(value: &str) -> Vec<String> {
    let mut wrong = too_long(value, LABEL_LIMIT);
    if !is_label(value) || value.starts_with(|first: char| first.is_ascii_digit()) {
        wrong.push(mismatch(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    wrong
}

/// A subdomain of RFC 1123 with the prefix `*.`, as a host of an Ingress: at most 253 bytes.
#[must_use]
pub fn validate_wildcard_dns1123_subdomain(value: &str) -> Vec<String> {
    let mut wrong = too_long(value, SUBDOMAIN_LIMIT);
    if !value.strip_prefix("*.").is_some_and(is_subdomain) {
        wrong.push(mismatch(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must \
             consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
            &["*.example.com"],
        ));
    }
    wrong
}

/// The syntax error of a subdomain; its length is not checked.
pub(super) fn subdomain_mismatch(value: &str) -> Option<String> {
    (!is_subdomain(value)).then(|| {
        mismatch(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
             must start and end with an alphanumeric character",
            r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
            &["example.com"],
        )
    })
}

fn too_long(value: &str, limit: usize) -> Vec<String> {
    if value.len() > limit { vec![longer_than(limit)] } else { Vec::new() }
}

fn is_label(value: &str) -> bool {
    framed(value, is_lower_alphanumeric, |byte| is_lower_alphanumeric(byte) || byte == b'-')
}

fn is_subdomain(value: &str) -> bool {
    value.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
                         must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex \
                         used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

    #[test]
    fn a_label_is_lower_case_letters_digits_and_dashes_inside() {
        for right in ["a", "0", "a-b", "a--b", "1-2", &"a".repeat(63)] {
            assert_eq!(validate_dns1123_label(right), [""; 0], "{right}");
        }
        for wrong in ["", "-", "a-", "-a", "A", "a_b", "ä", "a b", "a.", ".a", "a..b", "a\n"] {
            assert_eq!(validate_dns1123_label(wrong), [LABEL], "{wrong}");
        }
        assert_eq!(validate_dns1123_label("a.b"), ["must not contain dots"]);
        assert_eq!(validate_dns1123_label(&"a".repeat(64)), ["must be no more than 63 characters"]);
        assert_eq!(validate_dns1123_label(&"A".repeat(64)), ["must be no more than 63 characters", LABEL]);
    }

    #[test]
    fn a_subdomain_is_labels_between_dots() {
        let long = vec!["a"; 127].join(".");
        for right in ["a", "a.b", "0.1.2", &long] {
            assert_eq!(validate_dns1123_subdomain(right), [""; 0], "{right}");
        }
        let said = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                    and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                    validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
        for wrong in ["", ".", "a.", ".a", "a..b", "a.-b", "A.b", "a/b"] {
            assert_eq!(validate_dns1123_subdomain(wrong), [said], "{wrong}");
        }
        assert_eq!(validate_dns1123_subdomain(&"a".repeat(254)), ["must be no more than 253 characters"]);
    }

    #[test]
    fn a_label_of_rfc_1035_starts_with_a_letter() {
        assert_eq!(validate_dns1035_label("a1"), [""; 0]);
        let said = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                    alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', \
                    regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
        for wrong in ["1a", "", "a.b", "a-"] {
            assert_eq!(validate_dns1035_label(wrong), [said], "{wrong}");
        }
    }

    #[test]
    fn only_the_first_label_may_be_a_wildcard() {
        assert_eq!(validate_wildcard_dns1123_subdomain("*.bar.com"), [""; 0]);
        for wrong in ["*", "*.", "*.*.com", "a*.com", "a.com"] {
            assert_eq!(validate_wildcard_dns1123_subdomain(wrong).len(), 1, "{wrong}");
        }
    }
}
