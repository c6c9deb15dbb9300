//! `#[bowline::test]`: a function with an environment as a test.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, ItemFn};

/// The test, or a compile error.
pub(crate) fn expand(arguments: &TokenStream, item: TokenStream) -> TokenStream {
    match as_test(arguments, item) {
        Ok(test) => test,
        Err(error) => error.to_compile_error(),
    }
}

fn as_test(arguments: &TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    if !arguments.is_empty() {
        let message = "`#[bowline::test]` takes no arguments: for options, write a `#[test]` that calls \
                       `TestEnv::builder()`…`.test(async |env| …)`";
        return Err(Error::new_spanned(arguments, message));
    }
    let ItemFn { attrs, vis, sig, block, .. } = syn::parse2(item)?;
    let (name, inputs, output) = (&sig.ident, &sig.inputs, &sig.output);
    if sig.asyncness.is_none() {
        return Err(Error::new_spanned(sig.fn_token, "`#[bowline::test]` needs an `async fn`"));
    }
    if !sig.generics.params.is_empty() {
        return Err(Error::new_spanned(&sig.generics, "a test has no generic parameters"));
    }
    if inputs.len() != 1 {
        let message = "a test takes one argument, its environment: `env: TestEnv`";
        return Err(Error::new_spanned(&sig, message));
    }
    Ok(quote! {
        #[::core::prelude::v1::test]
        #(#attrs)*
        #vis fn #name() #output {
            ::bowline_testing::TestEnv::test(async |#inputs| #output #block)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_and_result_stay() {
        let test = expand(
            &TokenStream::new(),
            quote! {
                #[should_panic]
                async fn claim(env: TestEnv) -> Result<()> { Ok(()) }
            },
        );
        let expected = quote! {
            #[::core::prelude::v1::test]
            #[should_panic]
            fn claim() -> Result<()> {
                ::bowline_testing::TestEnv::test(async |env: TestEnv| -> Result<()> { Ok(()) })
            }
        };
        assert_eq!(test.to_string(), expected.to_string());
    }
}
