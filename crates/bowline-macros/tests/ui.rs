//! The errors of the attributes, as an author sees them.

#[test]
fn misuse_is_a_compile_error_that_says_what_to_write() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
