//! Events of the operator.

use bowline::prelude::*;
use bowline_testing::TestEnv;

use crate::world::{create, start, wait_for_event};

#[test]
fn a_foo_that_is_as_it_should_be_is_told_of() -> Result<()> {
    TestEnv::test(async |env| {
        start(&env).await?;
        create(&env, "web", Some(1)).await?;
        assert_eq!(wait_for_event(&env, "web", "Normal", "Synced").await?, "Foo synced successfully");
        Ok(())
    })
}
