//! Names of objects: the rules of a kind, and names generated from `generateName`.

use super::{validate_dns1035_label, validate_dns1123_label, validate_dns1123_subdomain};

/// The rule of a kind for object names. The second argument is true for a prefix, as in `generateName`: a trailing dash
/// is then valid.
pub type NameValidator = fn(&str, bool) -> Vec<String>;

/// The alphabet of generated name suffixes: no vowels, so that no words appear, and no characters that look alike.
pub const GENERATED_NAME_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The length of the suffix after `generateName`.
pub const GENERATED_SUFFIX_LENGTH: usize = 5;

/// The maximum length of `generateName` in a generated name; the rest is cut.
const BASE_LIMIT: usize = 63 - GENERATED_SUFFIX_LENGTH;

/// A [`NameValidator`] for most kinds: a DNS subdomain.
#[must_use]
pub fn name_is_dns_subdomain(name: &str, prefix: bool) -> Vec<String> {
    validate_dns1123_subdomain(&masked(name, prefix))
}

/// A [`NameValidator`] for namespaces: a DNS label.
#[must_use]
pub fn name_is_dns_label(name: &str, prefix: bool) -> Vec<String> {
    validate_dns1123_label(&masked(name, prefix))
}

/// A [`NameValidator`] for services: a DNS label that starts with a letter.
#[must_use]
pub fn name_is_dns1035_label(name: &str, prefix: bool) -> Vec<String> {
    validate_dns1035_label(&masked(name, prefix))
}

/// A [`NameValidator`] for kinds that accept any path segment, such as those of RBAC.
#[must_use]
pub fn name_is_path_segment(name: &str, prefix: bool) -> Vec<String> {
    if prefix { unfit_for_a_path(name) } else { validate_path_segment_name(name) }
}

/// Whether a name is valid as one path segment. An empty name is.
#[must_use]
pub fn validate_path_segment_name(name: &str) -> Vec<String> {
    match name {
        "." | ".." => vec![format!("may not be '{name}'")],
        _ => unfit_for_a_path(name),
    }
}

/// A name made from `generateName`: its first 58 bytes and five characters of [`GENERATED_NAME_ALPHABET`], one per
/// drawn number. The choice is uniform if 27 divides the range of the numbers.
#[must_use]
pub fn generate_name(base: &str, drawn: [u32; GENERATED_SUFFIX_LENGTH]) -> String {
    let mut end = base.len().min(BASE_LIMIT);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = base[..end].to_owned();
    for number in drawn {
        let place = number as usize % GENERATED_NAME_ALPHABET.len();
        name.push(char::from(GENERATED_NAME_ALPHABET[place]));
    }
    name
}

fn unfit_for_a_path(name: &str) -> Vec<String> {
    let forbidden = ["/", "%"].into_iter().filter(|mark| name.contains(mark));
    forbidden.map(|mark| format!("may not contain '{mark}'")).collect()
}

/// A prefix in the form that is validated: Kubernetes replaces the last two bytes with a letter if the last is a dash.
fn masked(name: &str, prefix: bool) -> String {
    match name.strip_suffix('-').and_then(|rest| name.get(..rest.len().checked_sub(1)?)) {
        Some(kept) if prefix => format!("{kept}a"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_may_end_with_a_dash() {
        for prefix in ["a-", "web-", "a.b-", "a--"] {
            assert_eq!(name_is_dns_subdomain(prefix, true), [""; 0], "{prefix}");
            assert_eq!(name_is_dns_subdomain(prefix, false).len(), 1, "{prefix}");
        }
        for prefix in ["-", "A-b", "é-", "-a-"] {
            assert_eq!(name_is_dns_subdomain(prefix, true).len(), 1, "{prefix}");
        }
    }

    #[test]
    fn a_path_segment_is_anything_without_slash_and_percent() {
        assert_eq!(validate_path_segment_name("system:controller"), [""; 0]);
        assert_eq!(validate_path_segment_name(".."), ["may not be '..'"]);
        assert_eq!(validate_path_segment_name("a/b%"), ["may not contain '/'", "may not contain '%'"]);
        assert_eq!(name_is_path_segment("..", true), [""; 0]);
    }

    #[test]
    fn a_generated_name_has_at_most_63_bytes() {
        assert_eq!(generate_name("web-", [0, 1, 26, 27, u32::MAX]), "web-bc9b4");
        assert_eq!(generate_name(&"a".repeat(100), [0; 5]), format!("{}bbbbb", "a".repeat(58)));
        assert_eq!(generate_name(&"é".repeat(30), [0; 5]).len(), 63);
    }
}
