//! The two lines that make a new file part of the operator: `mod game;`, and `game::register(manager)?;` in
//! `fn operator(manager: &Manager) -> Result<()>`. They are spliced into the text; the rest of it stays as it is.

use std::collections::BTreeMap;
use std::ops::Range;

use syn::visit::{self, Visit};
use syn::{Expr, FnArg, Item, ItemFn, ItemMod, Pat, ReturnType, Stmt, Type};

use super::{LIBRARY, MAIN, Source, SourceTree, is_root};

/// The files to change for a new module, and the lines that have no place.
#[derive(Debug, Default)]
pub(crate) struct Wiring {
    /// New texts by path.
    pub(crate) changed: BTreeMap<String, String>,
    pub(crate) unplaced: Vec<Unplaced>,
}

/// A line that the user has to add.
#[derive(Debug)]
pub(crate) struct Unplaced {
    /// Where it belongs, and why it was not added.
    pub(crate) place: String,
    pub(crate) line: String,
}

/// A text to insert at a place, or instead of a part.
struct Splice {
    range: Range<usize>,
    text: String,
}

impl SourceTree {
    /// The lines for a new module `src/MODULE.rs` with a function `register`. A line that is there already is left out.
    pub(crate) fn wire(&self, module: &str) -> Wiring {
        let operator = self.operator();
        let root = match operator {
            Some((source, _)) if is_root(&source.path) => Some(source),
            Some((source, _)) => self.root_of(source),
            None => self.sources.iter().find(|source| is_root(&source.path)),
        };
        let mut wiring = Wiring::default();
        let mut splices: Vec<(&Source, Splice)> = Vec::new();
        match root {
            Some(root) => splices.extend(root.declare(module).map(|splice| (root, splice))),
            None => wiring
                .unplaced
                .push(Unplaced { place: self.place_of_module(), line: format!("mod {module};") }),
        }
        if let Some((source, function)) = operator {
            let path = if is_root(&source.path) { module.to_owned() } else { format!("crate::{module}") };
            match source.call(function, &path) {
                Ok(calls) => splices.extend(calls.into_iter().map(|splice| (source, splice))),
                Err(unplaced) => wiring.unplaced.push(unplaced),
            }
        } else {
            let place = self.place_of_call();
            wiring.unplaced.push(Unplaced { place, line: format!("{module}::register(manager)?;") });
        }
        for source in &self.sources {
            let own = splices.iter().filter(|(of, _)| std::ptr::eq(*of, source)).map(|(_, splice)| splice);
            let own: Vec<&Splice> = own.collect();
            if own.is_empty() {
                continue;
            }
            wiring.changed.insert(source.path.clone(), source.with(&own));
        }
        wiring
    }

    /// The function that builds the operator, and its file.
    fn operator(&self) -> Option<(&Source, &ItemFn)> {
        self.sources.iter().find_map(|source| {
            let functions = source.items().iter().filter_map(|item| match item {
                Item::Fn(function) => Some(function),
                _ => None,
            });
            let mut functions = functions.filter(|function| function.sig.ident == "operator");
            Some((source, functions.find(|function| manager_of(function).is_some())?))
        })
    }

    /// The path of that function for code in another module, if that module can call it.
    pub(crate) fn operator_path(&self) -> Option<String> {
        let (source, _) = self.operator()?;
        is_root(&source.path).then(|| "crate::operator".to_owned())
    }

    /// The root of the crate that a module belongs to.
    fn root_of(&self, source: &Source) -> Option<&Source> {
        let module = source.module();
        let first = module.split("::").nth(1)?;
        self.sources.iter().filter(|source| is_root(&source.path)).find(|root| root.declares(first))
    }

    /// Whether the root of a crate has a module with this name that is not a file.
    pub(crate) fn has_inline_module(&self, name: &str) -> bool {
        let roots = self.sources.iter().filter(|source| is_root(&source.path));
        let mut modules = roots.flat_map(Source::modules);
        modules.any(|module| module.ident == name && module.content.is_some())
    }

    fn place_of_module(&self) -> String {
        match self.broken.iter().find(|broken| broken.is_root()) {
            Some(broken) => format!("to {}, which is not valid Rust ({})", broken.path, broken.problem),
            None if self.sources.iter().any(|source| is_root(&source.path)) => {
                format!("to {MAIN} or {LIBRARY}, beside the other modules")
            }
            None => format!("to {MAIN}, which is missing"),
        }
    }

    fn place_of_call(&self) -> String {
        match self.broken.iter().find(|broken| broken.is_root()) {
            Some(broken) => format!("to the function in {} that registers controllers", broken.path),
            None => "where controllers are registered: there is no `fn operator(manager: &Manager) -> Result<()>` in src"
                .to_owned(),
        }
    }
}

impl Source {
    fn modules(&self) -> impl Iterator<Item = &ItemMod> {
        self.items().iter().filter_map(|item| match item {
            Item::Mod(module) => Some(module),
            _ => None,
        })
    }

    fn declares(&self, module: &str) -> bool {
        self.modules().any(|declared| declared.ident == module)
    }

    /// The text with some splices applied.
    fn with(&self, splices: &[&Splice]) -> String {
        let mut splices = splices.to_vec();
        splices.sort_by_key(|splice| splice.range.start);
        let mut text = self.text.clone();
        for splice in splices.iter().rev() {
            text.replace_range(splice.range.clone(), &splice.text);
        }
        text
    }

    /// The declaration of a module: in the order of the alphabet in the last group of declarations, if these are in it, and
    /// else at their end; without declarations after the last `use`, or at the top.
    fn declare(&self, module: &str) -> Option<Splice> {
        if self.declares(module) {
            return None;
        }
        let newline = self.newline();
        let group = self.last_group();
        let is_sorted = group.is_sorted_by_key(|declared| declared.ident.to_string());
        let later = group.iter().find(|declared| is_sorted && declared.ident.to_string().as_str() > module);
        if let Some(later) = later {
            // rustfmt sorts declarations. A comment above the first one belongs to the group.
            let start = self.range(*later).start;
            return Some(Splice {
                range: start..start,
                text: format!("mod {module};{newline}{}", self.indent(start)),
            });
        }
        if let Some(last) = group.last() {
            return Some(self.after(self.range(*last).end, &format!("mod {module};"), ""));
        }
        let mut imports =
            self.items().iter().filter(|item| matches!(item, Item::Use(_) | Item::ExternCrate(_)));
        if let Some(last) = imports.next_back() {
            return Some(self.after(self.range(last).end, &format!("mod {module};"), newline));
        }
        let inner = self.file.attrs.last().map(|attribute| self.range(attribute).end);
        Some(match (inner, self.items().first()) {
            (Some(end), _) => self.after(end, &format!("mod {module};"), newline),
            (None, Some(first)) => {
                let start = self.range(first).start;
                Splice { range: start..start, text: format!("mod {module};{newline}{newline}") }
            }
            (None, None) => {
                let end = self.text.len();
                Splice { range: end..end, text: format!("mod {module};{newline}") }
            }
        })
    }

    /// The last declarations `mod x;` that follow each other without an empty line. Declarations with attributes, as of a
    /// module of tests, count only if there are no others.
    fn last_group(&self) -> Vec<&ItemMod> {
        let files: Vec<&ItemMod> = self.modules().filter(|module| module.content.is_none()).collect();
        let is_plain =
            |module: &&&ItemMod| module.attrs.iter().all(|attribute| attribute.path().is_ident("doc"));
        let Some(last) = files.iter().rposition(|module| is_plain(&module)).or(files.len().checked_sub(1))
        else {
            return Vec::new();
        };
        let first = (0..last).rev().take_while(|at| {
            let between = self.range(files[*at]).end..self.range(files[at + 1]).start;
            let between = &self.text[between];
            between.trim().is_empty() && between.matches('\n').count() == 1
        });
        let first = first.last().unwrap_or(last);
        files[first..=last].to_vec()
    }

    /// The call of `register` before the last expression of a function, and the name of its parameter if it has none.
    fn call(&self, function: &ItemFn, module: &str) -> Result<Vec<Splice>, Unplaced> {
        if calls(function, module) {
            return Ok(Vec::new());
        }
        let (manager, renamed) = self.manager(function);
        let line = format!("{module}::register({manager})?;");
        let returns_result = matches!(function.sig.output, ReturnType::Type(..));
        let place = match function.block.stmts.last() {
            Some(last @ (Stmt::Expr(_, None) | Stmt::Expr(Expr::Return(_), Some(_)))) => Some(last),
            _ => None,
        };
        let Some(last) = place.filter(|_| returns_result) else {
            let place = format!("to `fn operator` in {}, which does not end with a `Result`", self.path);
            return Err(Unplaced { place, line });
        };
        let start = self.range(last).start;
        let indent = self.indent(start);
        let is_alone = self.text[..start].ends_with(&format!("\n{indent}"));
        let text = if is_alone { format!("{line}{}{indent}", self.newline()) } else { format!("{line} ") };
        Ok([Splice { range: start..start, text }].into_iter().chain(renamed).collect())
    }

    /// The name of the parameter with the manager, and a splice that gives it one if it is `_` or an unused `_manager`.
    fn manager(&self, function: &ItemFn) -> (String, Option<Splice>) {
        let name = "manager".to_owned();
        match manager_of(function) {
            Some(Pat::Ident(known))
                // A macro may use it, too.
                if known.ident != "_manager" || self.text_of(&*function.block).contains("_manager") =>
            {
                (known.ident.to_string(), None)
            }
            Some(pattern) => {
                let splice = Splice { range: self.range(pattern), text: name.clone() };
                (name, Some(splice))
            }
            None => (name, None),
        }
    }

    /// A line after the one that ends at a place, with its indent.
    fn after(&self, end: usize, line: &str, gap: &str) -> Splice {
        let newline = self.newline();
        let rest = &self.text[end..];
        let length = rest.find('\n').map_or(rest.len(), |at| at + 1);
        let tail = rest[..length].trim();
        if !tail.is_empty() && !tail.starts_with("//") {
            return Splice { range: end..end, text: format!("{newline}{gap}{line}{newline}") };
        }
        let at = end + length;
        let before = if rest[..length].ends_with('\n') { "" } else { newline };
        Splice { range: at..at, text: format!("{before}{gap}{line}{newline}") }
    }

    /// The blanks between the begin of a line and a place in it. Empty if there is anything else.
    fn indent(&self, at: usize) -> &str {
        let begin = self.text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let indent = &self.text[begin..at];
        if indent.trim().is_empty() { indent } else { "" }
    }
}

/// The pattern of the parameter `&Manager`.
fn manager_of(function: &ItemFn) -> Option<&Pat> {
    function.sig.inputs.iter().find_map(|input| {
        let FnArg::Typed(input) = input else { return None };
        let Type::Reference(reference) = &*input.ty else { return None };
        let Type::Path(path) = &*reference.elem else { return None };
        (path.path.segments.last()?.ident == "Manager").then_some(&*input.pat)
    })
}

/// Whether a function calls `register` of a module already.
fn calls(function: &ItemFn, module: &str) -> bool {
    struct Calls<'a>(&'a str, bool);
    impl<'ast> Visit<'ast> for Calls<'_> {
        fn visit_path(&mut self, path: &'ast syn::Path) {
            let names: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.1 |= names.ends_with(&[self.0.to_owned(), "register".to_owned()]);
            visit::visit_path(self, path);
        }
    }
    let mut calls = Calls(module.rsplit("::").next().unwrap_or(module), false);
    calls.visit_block(&function.block);
    calls.1
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "fn operator(manager: &Manager) -> Result<()> {\n    Ok(())\n}\n";

    fn tree(files: &[(&str, &str)]) -> SourceTree {
        let mut tree = SourceTree { sources: Vec::new(), broken: Vec::new() };
        for (path, text) in files {
            match Source::parse((*path).to_owned(), (*text).to_owned()) {
                Ok(source) => tree.sources.push(source),
                Err(broken) => tree.broken.push(broken),
            }
        }
        tree
    }

    /// The only changed file, with a module `game` wired in.
    fn wired(text: &str) -> String {
        let wiring = tree(&[(MAIN, text)]).wire("game");
        assert!(wiring.unplaced.is_empty(), "{wiring:?}");
        assert!(wiring.changed.len() == 1, "{wiring:?}");
        let text = wiring.changed[MAIN].clone();
        assert!(syn::parse_file(&text).is_ok(), "{text}");
        text
    }

    /// A function, without the declaration of the module at its top.
    fn called(function: &str) -> String {
        let text = wired(&format!("mod game;\n{function}"));
        text.strip_prefix("mod game;\n").unwrap().to_owned()
    }

    fn declared(head: &str) -> String {
        let function = "fn operator(manager: &Manager) -> Result<()> { game::register(manager) }\n";
        let text = wired(&format!("{head}{function}"));
        text.strip_suffix(function).unwrap().to_owned()
    }

    #[test]
    fn the_call_comes_before_the_last_expression() {
        assert_eq!(
            called(
                "fn operator(manager: &Manager) -> Result<()> {\n    // Why.\n    pod::register(manager)?; // one\n    Ok(())\n}\n"
            ),
            "fn operator(manager: &Manager) -> Result<()> {\n    // Why.\n    pod::register(manager)?; // one\n    \
             game::register(manager)?;\n    Ok(())\n}\n"
        );
    }

    #[test]
    fn tabs_windows_line_ends_a_byte_order_mark_and_other_formats_stay() {
        let text = "\u{feff}#!/usr/bin/env x\r\n//! Ünïcode.\r\nuse a::b; // c\r\n\r\npub  fn operator( m : &bowline::Manager )->R{\r\n\
                    \tlet x = \"ä\";\r\n\treturn Ok(( )) ;\r\n}";
        assert_eq!(
            wired(text),
            "\u{feff}#!/usr/bin/env x\r\n//! Ünïcode.\r\nuse a::b; // c\r\n\r\nmod game;\r\n\r\npub  fn operator( m : &bowline::Manager )->R{\r\n\
             \tlet x = \"ä\";\r\n\tgame::register(m)?;\r\n\treturn Ok(( )) ;\r\n}"
        );
    }

    #[test]
    fn a_function_on_one_line_stays_on_one_line() {
        assert_eq!(
            called("fn operator(x: &Manager) -> Result<()> { Ok(()) }"),
            "fn operator(x: &Manager) -> Result<()> { game::register(x)?; Ok(()) }"
        );
    }

    #[test]
    fn a_parameter_without_a_name_gets_one() {
        for pattern in ["_", "_manager"] {
            assert_eq!(
                called(&format!("fn operator({pattern}: &Manager) -> Result<()> {{\n    Ok(())\n}}\n")),
                "fn operator(manager: &Manager) -> Result<()> {\n    game::register(manager)?;\n    Ok(())\n}\n"
            );
        }
        let used = "fn operator(_manager: &Manager) -> Result<()> {\n    x!(_manager);\n    Ok(())\n}\n";
        assert!(called(used).contains("operator(_manager: &Manager)"));
        assert!(called(used).contains("game::register(_manager)?;"));
    }

    #[test]
    fn declarations_stay_sorted_if_they_are() {
        for (before, after) in [
            ("mod pod;\n", "mod game;\nmod pod;\n"),
            ("mod a;\nmod pod; // p\n", "mod a;\nmod game;\nmod pod; // p\n"),
            ("mod a; // a\n", "mod a; // a\nmod game;\n"),
            ("mod pod;\nmod a;\n", "mod pod;\nmod a;\nmod game;\n"),
            ("mod z;\n\n/// A.\nmod a;\nuse x;\n", "mod z;\n\n/// A.\nmod a;\nmod game;\nuse x;\n"),
            ("mod a; mod b;\n", "mod a; mod b;\nmod game;\n"),
            ("mod a; use b;\n", "mod a;\nmod game;\n use b;\n"),
            ("mod a;\n#[cfg(test)]\nmod tests;\n", "mod a;\nmod game;\n#[cfg(test)]\nmod tests;\n"),
        ] {
            assert_eq!(declared(before), after, "{before}");
        }
    }

    #[test]
    fn without_other_modules_the_declaration_follows_the_imports_or_the_docs() {
        for (before, after) in [
            ("//! Docs.\n\nuse a;\nuse b; // b\n\n", "//! Docs.\n\nuse a;\nuse b; // b\n\nmod game;\n\n"),
            ("//! Docs.\n\n", "//! Docs.\n\nmod game;\n\n"),
            ("// License\n\n", "// License\n\nmod game;\n\n"),
            ("mod tests {}\n", "mod game;\n\nmod tests {}\n"),
        ] {
            assert_eq!(declared(before), after, "{before}");
        }
    }

    #[test]
    fn a_function_in_another_file_is_called_by_the_path_from_the_root() {
        let wiring = tree(&[(MAIN, "mod setup;\n"), ("src/setup.rs", PLAIN)]).wire("game");
        assert!(wiring.unplaced.is_empty(), "{wiring:?}");
        assert_eq!(wiring.changed[MAIN], "mod game;\nmod setup;\n");
        assert!(
            wiring.changed["src/setup.rs"].contains("    crate::game::register(manager)?;\n"),
            "{wiring:?}"
        );
    }

    #[test]
    fn lines_that_are_there_already_are_not_added_again() {
        let text =
            "mod game;\nfn operator(manager: &Manager) -> Result<()> {\n    game::register(manager)\n}\n";
        let wiring = tree(&[(MAIN, text)]).wire("game");
        assert!(wiring.changed.is_empty() && wiring.unplaced.is_empty(), "{wiring:?}");
    }

    #[test]
    fn lines_without_a_place_are_handed_to_the_user() {
        for (files, lines) in [
            (&[(MAIN, "fn main() {}\n")][..], &["game::register(manager)?;"][..]),
            (&[(MAIN, "fn operator(manager: &Manager) {\n}\n")], &["game::register(manager)?;"]),
            (
                &[(MAIN, "fn operator(m: &Manager) -> Result<()> {\n    todo!();\n}\n")],
                &["game::register(m)?;"],
            ),
            (&[(MAIN, "fn main() {\n")], &["mod game;", "game::register(manager)?;"]),
            (&[("src/setup.rs", PLAIN), (MAIN, "")], &["mod game;"]),
            (&[], &["mod game;", "game::register(manager)?;"]),
        ] {
            let wiring = tree(files).wire("game");
            let unplaced: Vec<_> = wiring.unplaced.iter().map(|unplaced| unplaced.line.as_str()).collect();
            assert_eq!(unplaced, lines, "{files:?}");
        }
    }
}
