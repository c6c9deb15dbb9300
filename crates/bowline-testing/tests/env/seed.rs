//! The seed that a failed test prints.

use std::env;
use std::process::Command;

use bowline_testing::TestEnv;

/// Says how the process of a test is to fail.
const FAILURE: &str = "BOWLINE_TESTING_SEED_TEST";

/// Runs the test below alone, in a process where it fails, and returns its standard error.
fn failing(how: &str, seed: Option<&str>) -> String {
    let mut command = Command::new(env::current_exe().expect("the program of this test"));
    command.args([
        "--exact",
        "seed::a_failed_test_prints_its_seed_in_the_form_that_repeats_it",
        "--nocapture",
    ]);
    command.env(FAILURE, how).env_remove("BOWLINE_TEST_SEED").env_remove("BOWLINE_TEST_ARM");
    command.envs(seed.map(|seed| ("BOWLINE_TEST_SEED", seed)));
    let output = command.output().expect("it runs");
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_failed_test_prints_its_seed_in_the_form_that_repeats_it() -> Result<(), String> {
    let draw = async |env: TestEnv| eprintln!("drawn: {}", env.clock().rng().next_u64());
    match env::var(FAILURE).as_deref() {
        Ok("panic") => TestEnv::test(async |env| {
            draw(env).await;
            panic!("as it should");
        }),
        Ok("error") => return TestEnv::test(async |_| Err("as it should".to_owned())),
        Ok("set") => TestEnv::builder().seed(9).test(async |_| panic!("as it should")),
        _ => {}
    }
    let text = failing("panic", None);
    assert!(text.contains("seed 1; run it again with BOWLINE_TEST_SEED=1\n"), "{text}");
    let text = failing("panic", Some("7"));
    assert!(text.contains("seed 7; run it again with BOWLINE_TEST_SEED=7\n"), "{text}");
    let drawn = |text: &str| text.lines().find(|line| line.starts_with("drawn: ")).map(str::to_owned);
    assert!(drawn(&text).is_some());
    assert_eq!(drawn(&failing("panic", Some("7"))), drawn(&text));
    assert_ne!(drawn(&failing("panic", Some("8"))), drawn(&text));
    let text = failing("error", Some("7"));
    assert!(text.contains("seed 7; run it again with BOWLINE_TEST_SEED=7\n"), "{text}");
    let text = failing("set", Some("7"));
    assert!(text.contains("seed 9; run it again with TestEnv::builder().seed(9)\n"), "{text}");
    Ok(())
}
