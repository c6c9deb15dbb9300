//! What a file declares: custom kinds, and controllers. Names that a macro or a constant hides are not found.

use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Expr, ExprLit, Lit, Meta, Token};

use super::{Source, is_root};

/// A struct with `#[kube(group, version, kind)]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KindDeclaration {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    /// Path of the file from the root of the project.
    pub(crate) file: String,
    /// Path of the module with the type.
    pub(crate) module: String,
    /// Whether modules beside this one can use the type.
    pub(crate) is_visible: bool,
    pub(crate) is_namespaced: bool,
    /// Whether it is the version that the API server stores.
    pub(crate) is_stored: bool,
    pub(crate) plural: Option<String>,
    /// The options that all versions of a kind must have alike, as they are written: names and categories.
    pub(crate) names: Vec<String>,
}

/// A call of `controller::<K>()`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ControllerDeclaration {
    /// The name of `.named`, or the default one.
    pub(crate) name: String,
    pub(crate) file: String,
}

pub(super) fn kinds(source: &Source) -> Vec<KindDeclaration> {
    let mut kinds = Kinds { source, module: source.module(), is_inline: false, found: Vec::new() };
    kinds.visit_file(&source.file);
    kinds.found
}

struct Kinds<'a> {
    source: &'a Source,
    module: String,
    is_inline: bool,
    found: Vec<KindDeclaration>,
}

impl<'ast> Visit<'ast> for Kinds<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let (outer, was_inline) = (self.module.clone(), self.is_inline);
        self.module = format!("{outer}::{}", module.ident);
        self.is_inline = true;
        visit::visit_item_mod(self, module);
        (self.module, self.is_inline) = (outer, was_inline);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        let options = item.attrs.iter().filter(|attribute| attribute.path().is_ident("kube"));
        let options = options.filter_map(|attribute| {
            attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()
        });
        let options: Vec<Meta> = options.flatten().collect();
        let text = |name: &str| {
            options.iter().find(|option| option.path().is_ident(name)).and_then(|option| match option {
                Meta::NameValue(pair) => string(&pair.value),
                _ => None,
            })
        };
        let (Some(group), Some(version), Some(kind)) = (text("group"), text("version"), text("kind")) else {
            return;
        };
        let is_shared = |option: &&Meta| {
            ["plural", "singular", "shortname", "category"].iter().any(|name| option.path().is_ident(name))
        };
        let is_root = is_root(&self.source.path) && !self.is_inline;
        self.found.push(KindDeclaration {
            group,
            version,
            kind,
            file: self.source.path.clone(),
            module: self.module.clone(),
            is_visible: is_root || !matches!(item.vis, syn::Visibility::Inherited),
            is_namespaced: options
                .iter()
                .any(|option| matches!(option, Meta::Path(path) if path.is_ident("namespaced"))),
            is_stored: !options.iter().any(is_not_stored),
            plural: text("plural"),
            names: options
                .iter()
                .filter(is_shared)
                .map(|option| self.source.text_of(option).to_owned())
                .collect(),
        });
    }
}

/// Whether an option is `storage = false`, or the same as a text.
fn is_not_stored(option: &Meta) -> bool {
    let Meta::NameValue(pair) = option else { return false };
    let Expr::Lit(ExprLit { lit, .. }) = &pair.value else { return false };
    let is_false = match lit {
        Lit::Bool(value) => !value.value,
        Lit::Str(value) => value.value() == "false",
        _ => false,
    };
    pair.path.is_ident("storage") && is_false
}

fn string(value: &Expr) -> Option<String> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    }
}

pub(super) fn controllers(source: &Source) -> Vec<ControllerDeclaration> {
    let mut controllers = Controllers { source, name: None, found: Vec::new() };
    controllers.visit_file(&source.file);
    controllers.found
}

struct Controllers<'a> {
    source: &'a Source,
    /// The name that a later call of the same chain gives.
    name: Option<String>,
    found: Vec<ControllerDeclaration>,
}

impl<'ast> Visit<'ast> for Controllers<'_> {
    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if call.method == "controller"
            && let Some(kind) = call.turbofish.as_ref().and_then(kind_of)
        {
            let name = self.name.clone().unwrap_or_else(|| kind.to_lowercase());
            self.found.push(ControllerDeclaration { name, file: self.source.path.clone() });
        }
        let later = self.name.clone();
        if call.method == "named" {
            self.name = call.args.first().and_then(string);
        }
        self.visit_expr(&call.receiver);
        // Another chain may be among the arguments.
        self.name = None;
        for argument in &call.args {
            self.visit_expr(argument);
        }
        self.name = later;
    }
}

/// The last name of the type in `::<games::Game>`.
fn kind_of(turbofish: &syn::AngleBracketedGenericArguments) -> Option<String> {
    match turbofish.args.first()? {
        syn::GenericArgument::Type(syn::Type::Path(kind)) => {
            Some(kind.path.segments.last()?.ident.to_string())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source::parse(path.to_owned(), text.to_owned()).unwrap()
    }

    #[test]
    fn kinds_are_found_with_all_options_of_the_derive_macro() {
        let source = source(
            "src/kinds/game.rs",
            r#"
            #[derive(CustomResource)]
            #[kube(group = "games.example.com", version = "v1", kind = "Game", namespaced, shortname = "g")]
            #[kube(status = "GameStatus", printcolumn(name = "A", type_ = "string", json_path = ".a"), plural="gamez")]
            #[kube(annotation("a", "b"), validation = Rule::new("self.a > 0"), scale(spec_replicas_path = ".a"))]
            pub struct GameSpec {}
            mod old {
                #[kube(group = "games.example.com", version = "v1alpha1", kind = "Game", storage = false)]
                struct GameSpec {}
            }
            #[kube(nothing)]
            struct Other {}
            #[kube(group = GROUP, version = "v1", kind = "Hidden")]
            struct HiddenSpec {}
            "#,
        );
        let found = kinds(&source);
        let expected = KindDeclaration {
            group: "games.example.com".to_owned(),
            version: "v1".to_owned(),
            kind: "Game".to_owned(),
            file: "src/kinds/game.rs".to_owned(),
            module: "crate::kinds::game".to_owned(),
            is_visible: true,
            is_namespaced: true,
            is_stored: true,
            plural: Some("gamez".to_owned()),
            names: vec!["shortname = \"g\"".to_owned(), "plural=\"gamez\"".to_owned()],
        };
        assert_eq!(found[0], expected);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[1].module, "crate::kinds::game::old");
        assert!(!found[1].is_stored && !found[1].is_visible && !found[1].is_namespaced);
    }

    #[test]
    fn controllers_are_found_with_their_names() {
        let source = source(
            "src/main.rs",
            r#"fn operator(manager: &Manager) {
                manager.controller::<games::ChessGame>().owns::<Pod>().register(reconcile)?;
                manager.controller::<Game>().named("audit").register(|m| other.controller::<Pod>().register(x))?;
                cluster.controller().register(x);
            }"#,
        );
        let names: Vec<_> = controllers(&source).into_iter().map(|found| found.name).collect();
        assert_eq!(names, ["chessgame", "audit", "pod"]);
    }
}
