//! The attributes of Bowline. The crate `bowline` exports them: `#[bowline::api]` and `#[bowline::test]`.
//!
//! This crate owns their expansion. It has no logic that runs in an operator.

mod api;
mod env_test;

use proc_macro::TokenStream;

/// Marks a type of the Kubernetes API: a custom resource's spec, its status, or a type inside of them.
///
/// The derives of kube, schemars and serde write paths to their own crates, so that a program needs each of these crates
/// as a dependency. This attribute points them to `bowline`'s exports instead. Put it above `#[derive(…)]`; it adds
///
/// - `#[serde(crate = …)]` for `Serialize` and `Deserialize`,
/// - `#[schemars(crate = …)]` for `JsonSchema` and `KubeSchema`,
/// - `#[kube(crates(…))]` for `CustomResource`,
/// - `#[x_kube(crates(…))]` for `KubeSchema`, which `#[kube(validation = …)]` derives too,
///
/// and changes nothing else. An attribute that the type already has is left as it is.
///
/// With validation rules, the module also needs `use bowline::schemars;`, because the code of `KubeSchema` names that crate
/// without a path. A type that derives `KubeSchema` derives `Serialize` too.
#[proc_macro_attribute]
pub fn api(arguments: TokenStream, item: TokenStream) -> TokenStream {
    api::expand(&arguments.into(), item.into()).into()
}

/// Makes an asynchronous function with a [`TestEnv`](../bowline_testing/struct.TestEnv.html) a test.
///
/// The function gets an API server and a namespace of its own, as `bowline_testing::TestEnv::test` gives them: embedded and
/// on simulated time by default, or the server that `BOWLINE_TEST_ARM` names. The environment ends with the function.
/// Other attributes of the function, such as `#[should_panic]`, stay. For options, write an ordinary `#[test]` that calls
/// `TestEnv::builder()…test(async |env| …)`.
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, item: TokenStream) -> TokenStream {
    env_test::expand(&arguments.into(), item.into()).into()
}
