//! Names that are taken: by the language, by cargo, and by what a generated file imports.

/// Keywords of all editions, also those that are only reserved.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static",
    "struct", "super", "trait", "true", "try", "type", "typeof", "union", "unsafe", "unsized", "use",
    "virtual", "where", "while", "yield",
];

/// Crates of Rust itself.
const STANDARD: &[&str] = &["alloc", "core", "proc-macro", "proc_macro", "std", "test"];

/// Crates that a project depends on.
const DEPENDENCIES: &[&str] = &["bowline", "bowline-testing", "bowline_testing", "tokio"];

/// Folders of cargo in which the program would be.
const FOLDERS: &[&str] = &["build", "deps", "examples", "incremental"];

/// Names of devices, which Windows does not allow as files.
const DEVICES: &[&str] = &["aux", "con", "nul", "prn"];

/// Types and traits that a generated file refers to, or can refer to without an import.
const TYPES: &[&str] = &[
    // Of the language and the standard library.
    "AsMut",
    "AsRef",
    "AsyncFn",
    "AsyncFnMut",
    "AsyncFnOnce",
    "Box",
    "Clone",
    "Copy",
    "Debug",
    "Default",
    "DoubleEndedIterator",
    "Drop",
    "Eq",
    "Err",
    "ExactSizeIterator",
    "Extend",
    "Fn",
    "FnMut",
    "FnOnce",
    "From",
    "FromIterator",
    "Future",
    "Hash",
    "Into",
    "IntoFuture",
    "IntoIterator",
    "Iterator",
    "None",
    "Ok",
    "Option",
    "Ord",
    "PartialEq",
    "PartialOrd",
    "Result",
    "Self",
    "Send",
    "Sized",
    "Some",
    "String",
    "Sync",
    "ToOwned",
    "ToString",
    "TryFrom",
    "TryInto",
    "Unpin",
    "Vec",
    // Of `bowline::prelude`.
    "Action",
    "Arc",
    "CacheOptions",
    "Change",
    "Cleanup",
    "Client",
    "Clock",
    "Cluster",
    "Condition",
    "ConditionsExt",
    "Context",
    "Controller",
    "CustomResource",
    "CustomResourceExt",
    "Deserialize",
    "Duration",
    "Error",
    "ErrorPredicates",
    "EventType",
    "HandlerContext",
    "IgnoreErrors",
    "JsonSchema",
    "Kind",
    "ListQuery",
    "Manager",
    "NewCondition",
    "Object",
    "ObjectKey",
    "ObjectReconciler",
    "OwnerExt",
    "Packed",
    "Patch",
    "Permission",
    "Reconciler",
    "Recorder",
    "Request",
    "Requests",
    "Resource",
    "ResourceExt",
    "Runnable",
    "Serialize",
    "Verb",
    "Watch",
    // Of the tests.
    "TestEnv",
];

/// Whether Rust reserves a word.
pub(crate) fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word)
}

/// Whether a module with this name would be ambiguous beside a crate.
pub(crate) fn is_package_name(module: &str) -> bool {
    STANDARD.contains(&module) || DEPENDENCIES.contains(&module)
}

/// Why a package cannot have this name.
pub(super) fn reason_against_package(name: &str) -> Option<String> {
    if STANDARD.contains(&name) {
        return Some("it is the name of a crate of Rust itself".to_owned());
    }
    if DEPENDENCIES.contains(&name) {
        return Some("it is the name of a crate that the project uses".to_owned());
    }
    if FOLDERS.contains(&name) {
        return Some("cargo needs this name for a folder of its own".to_owned());
    }
    let is_port = |prefix: &str| {
        name.strip_prefix(prefix)
            .is_some_and(|rest| rest.len() == 1 && rest.bytes().all(|digit| digit.is_ascii_digit()))
    };
    let is_device = DEVICES.contains(&name) || is_port("com") || is_port("lpt");
    is_device.then(|| "Windows does not allow files with this name".to_owned())
}

/// Whether a kind would hide a type that its file uses.
pub(super) fn is_type_in_scope(name: &str) -> bool {
    TYPES.contains(&name)
}

#[cfg(test)]
mod tests {
    use syn::visit::{self, Visit};

    use super::*;

    #[test]
    fn every_type_of_the_prelude_is_reserved() {
        #[derive(Default)]
        struct Names(Vec<String>);
        impl<'ast> Visit<'ast> for Names {
            fn visit_use_name(&mut self, name: &'ast syn::UseName) {
                self.0.push(name.ident.to_string());
                visit::visit_use_name(self, name);
            }
        }
        let prelude = syn::parse_file(include_str!("../../../bowline/src/prelude.rs")).unwrap();
        let mut names = Names::default();
        names.visit_file(&prelude);
        let types: Vec<_> = names
            .0
            .iter()
            .filter(|name| name.starts_with(|first: char| first.is_ascii_uppercase()))
            .collect();
        assert!(types.len() > 30, "{types:?}");
        for name in types {
            assert!(is_type_in_scope(name), "add {name} to TYPES");
        }
    }

    #[test]
    fn every_keyword_is_reserved() {
        for keyword in KEYWORDS.iter().filter(|keyword| **keyword != "union" && **keyword != "gen") {
            assert!(syn::parse_str::<syn::Ident>(keyword).is_err(), "{keyword}");
        }
    }
}
