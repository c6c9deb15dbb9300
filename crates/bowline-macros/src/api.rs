//! `#[bowline::api]`: paths to `bowline`'s exports for the derives of a type.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, DeriveInput, Error, Ident, Path, parse_quote};

/// The type with the attributes added, or a compile error.
pub(crate) fn expand(arguments: &TokenStream, item: TokenStream) -> TokenStream {
    match add_paths(arguments, item.clone()) {
        Ok(item) => item,
        // The type itself stays, so that only this one error is reported.
        Err(error) => [error.to_compile_error(), item].into_iter().collect(),
    }
}

fn add_paths(arguments: &TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    if !arguments.is_empty() {
        return Err(Error::new_spanned(arguments, "`#[bowline::api]` takes no arguments"));
    }
    let mut item: DeriveInput = syn::parse2(item)
        .map_err(|error| Error::new(error.span(), "`#[bowline::api]` belongs on a struct or an enum"))?;
    let derives = derives(&item.attrs)?;
    let has = |names: &[&str]| derives.iter().any(|derive| names.iter().any(|name| derive == name));
    let mut added = Vec::<Attribute>::new();
    if has(&["CustomResource"]) && !is_set(&item.attrs, "kube", "crates") {
        added.push(parse_quote!(#[kube(crates(
            kube = "::bowline::kube",
            kube_core = "::bowline::kube::core",
            k8s_openapi = "::bowline::k8s_openapi",
            schemars = "::bowline::schemars",
            serde = "::bowline::serde",
            serde_json = "::bowline::serde_json"
        ))]));
        // With rules for the whole object, `CustomResource` derives `KubeSchema` for the type that it generates.
        if ["validation", "cel"].iter().any(|rules| is_set(&item.attrs, "kube", rules)) {
            added.push(parse_quote!(#[kube(attr = r#"x_kube(crates(
                kube_core = "::bowline::kube::core",
                schemars = "::bowline::schemars",
                serde = "::bowline::serde",
                serde_json = "::bowline::serde_json"
            ))"#)]));
        }
    }
    if has(&["KubeSchema"]) && !is_set(&item.attrs, "x_kube", "crates") {
        added.push(parse_quote!(#[x_kube(crates(
            kube_core = "::bowline::kube::core",
            schemars = "::bowline::schemars",
            serde = "::bowline::serde",
            serde_json = "::bowline::serde_json"
        ))]));
    }
    if has(&["Serialize", "Deserialize"]) && !is_set(&item.attrs, "serde", "crate") {
        added.push(parse_quote!(#[serde(crate = "::bowline::serde")]));
    }
    // `KubeSchema` derives `JsonSchema` for a copy of the type.
    if has(&["JsonSchema", "KubeSchema"]) && !is_set(&item.attrs, "schemars", "crate") {
        added.push(parse_quote!(#[schemars(crate = "::bowline::schemars")]));
    }
    if !has(&["CustomResource", "Serialize", "Deserialize", "JsonSchema", "KubeSchema"]) {
        let message = "`#[bowline::api]` found nothing to do: put it above a `#[derive(…)]` with `CustomResource`, \
                       `Serialize`, `Deserialize`, `JsonSchema` or `KubeSchema`";
        return Err(Error::new_spanned(&item.ident, message));
    }
    // After `#[derive]`, whose helpers they are.
    item.attrs.extend(added);
    Ok(quote!(#item))
}

/// The last segments of all derived paths.
fn derives(attributes: &[Attribute]) -> syn::Result<Vec<Ident>> {
    let mut names = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("derive")) {
        attribute.parse_nested_meta(|derive| {
            names.extend(last_segment(&derive.path));
            Ok(())
        })?;
    }
    Ok(names)
}

fn last_segment(path: &Path) -> Option<Ident> {
    path.segments.last().map(|segment| segment.ident.clone())
}

/// Whether an attribute has an option at its top level. A list that cannot be parsed is left for its derive to report.
fn is_set(attributes: &[Attribute], attribute: &str, option: &str) -> bool {
    let mut is_set = false;
    for attribute in attributes.iter().filter(|it| it.path().is_ident(attribute)) {
        let syn::Meta::List(list) = &attribute.meta else { continue };
        let mut is_start = true;
        for token in list.tokens.clone() {
            let text = token.to_string();
            is_set |= is_start && text == option;
            is_start = text == ",";
        }
    }
    is_set
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(item: &TokenStream) -> String {
        expand(&TokenStream::new(), item.clone()).to_string()
    }

    #[test]
    fn each_derive_gets_the_path_of_its_crate() {
        let all = expanded(&quote! {
            #[derive(Clone, CustomResource, Debug, serde::Deserialize, JsonSchema, Serialize)]
            #[kube(group = "demo", version = "v1", kind = "Foo")]
            struct FooSpec {}
        });
        for expected in ["kube (crates (", "serde (crate =", "schemars (crate ="] {
            assert_eq!(all.matches(expected).count(), 1, "{expected}: {all}");
        }
        let status = expanded(&quote!(
            #[derive(Serialize)]
            enum Phase {
                Ready,
            }
        ));
        assert!(status.contains("serde (crate =") && !status.contains("schemars"), "{status}");
        assert!(status.find("derive") < status.find("serde (crate"), "helpers follow their derive: {status}");
    }

    #[test]
    fn a_schema_with_validation_rules_gets_the_paths_of_both_of_its_derives() {
        let schema = expanded(&quote! {
            #[derive(Deserialize, KubeSchema, Serialize)]
            #[x_kube(validation = "self.a <= self.b")]
            struct Spec {}
        });
        for expected in ["x_kube (crates (", "serde (crate =", "schemars (crate ="] {
            assert_eq!(schema.matches(expected).count(), 1, "{expected}: {schema}");
        }
        let own = expanded(&quote! {
            #[derive(KubeSchema, Serialize)]
            #[x_kube(crates(kube_core = "my::core"), validation = "true")]
            struct Spec {}
        });
        assert_eq!(own.matches("crates (").count(), 1, "{own}");
    }

    #[test]
    fn a_path_that_the_type_has_is_left_alone() {
        let own = expanded(&quote! {
            #[derive(Serialize, JsonSchema)]
            #[serde(rename_all = "camelCase", crate = "my::serde")]
            struct Status { #[serde(default)] crate_: i32 }
        });
        assert_eq!(own.matches("crate =").count(), 2, "{own}");
        assert!(own.contains("my::serde") && !own.contains("bowline::serde"), "{own}");
    }
}
