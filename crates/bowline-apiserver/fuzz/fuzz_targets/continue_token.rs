//! `cargo fuzz run continue_token`; the body is in `tests/fuzz/targets.rs`.
#![no_main]

#[path = "../../tests/fuzz/targets.rs"]
#[allow(dead_code, reason = "each target runs one of the bodies")]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::continue_token(data));
