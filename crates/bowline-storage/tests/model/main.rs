//! The store against a plain model of what it promises: a list of all commits there ever were, and nothing else.

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
        // Whatever happened: every watch sees the rest, or says that it cannot.
        for which in 0..world.watches.len() {
            world.poll(which);
            world.progress(which);
        }
        while !world.pagers.is_empty() {
            world.next_page(0);
        }
    }
}
