//! Compares the store with a plain model of its contract: a list of all commits, and nothing else.

mod commit;
mod operation;
mod world;

use operation::{operation, options};
use proptest::prelude::*;
use world::World;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn lists_pages_and_watches_are_right_under_any_interleaving_of_writes_and_compactions(
        options in options(),
        operations in proptest::collection::vec(operation(), 1..200),
    ) {
        let mut world = World::new(options);
        for operation in &operations {
            world.run(operation);
        }
        // In the end every watch gets the remaining events, or reports that it cannot.
        for which in 0..world.watches.len() {
            world.poll(which);
            world.progress(which);
        }
        while !world.pagers.is_empty() {
            world.next_page(0);
        }
    }
}
