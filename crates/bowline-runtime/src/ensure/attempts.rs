//! Attempts of a write that other writers get in the way of.

use std::time::Duration;

use crate::Client;

/// Maximum number of attempts.
const MAX_ATTEMPTS: u32 = 5;

/// The pause before the third attempt is twice this, before the fourth three times this, with jitter.
const PAUSE: Duration = Duration::from_millis(10);

/// Attempts made so far. The second follows the first at once: most conflicts mean that the object in the cache was old.
#[derive(Default)]
pub(crate) struct Attempts {
    failed: u32,
}

impl Attempts {
    pub(crate) fn is_first(&self) -> bool {
        self.failed == 0
    }

    /// Waits before the next attempt. Returns false, without a wait, if there is none.
    pub(crate) async fn next(&mut self, client: &Client) -> bool {
        self.failed += 1;
        if self.failed >= MAX_ATTEMPTS {
            return false;
        }
        if self.failed > 1 {
            let pause = PAUSE * self.failed;
            client.clock().sleep(client.clock().rng().jitter(pause, 1.0)).await;
        }
        true
    }
}
