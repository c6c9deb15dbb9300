//! Two replicas of an operator as processes on a socket. The leader is killed, frozen, cut off or stopped, many times,
//! and the server's own record shows that no two ever wrote at the same time.
//!
//! Random choices come from a printed seed; `BOWLINE_FAILOVER_SEED` repeats them. The operating system's scheduling is
//! not repeated.
#![cfg(target_os = "linux")]

mod audit;
mod freeze;
mod pair;
mod plane;
mod process;
mod proxy;
mod record;
mod replica;

use std::env;

use bowline_clock::{Clock, Rng};

use pair::{Fault, Outcome, Pair, Patience};
use plane::Plane;
use record::FROZEN;
use replica::WORKERS;

/// Seed of another run, to repeat its choices.
const SEED: &str = "BOWLINE_FAILOVER_SEED";

/// Number of concurrent pairs of replicas, each with its own lease.
const PAIRS: usize = 4;

#[test]
fn no_two_replicas_write_at_once_whatever_happens_to_the_leader() {
    in_real_time(async |rng| {
        let outcome = rounds(&rng, 8).await;
        assert_eq!(outcome.total(), 8);
    });
}

#[test]
#[ignore = "run by `cargo test -p bowline-testing --test failover -- --ignored` in .ci/run"]
fn no_two_replicas_write_at_once_in_a_hundred_rounds() {
    in_real_time(async |rng| {
        let outcome = rounds(&rng, 108).await;
        assert_eq!(outcome.total(), 108);
        assert!(Fault::ALL.iter().all(|fault| outcome.rounds[fault] >= 100 / Fault::ALL.len()));
        assert!(outcome.unprovoked <= outcome.total(), "this machine is too busy to say anything");
    });
}

#[test]
fn a_server_that_restarts_is_outlasted_or_costs_the_lease_and_work_goes_on() {
    in_real_time(async |rng| {
        let plane = Plane::start(&rng).await;
        let outage = async {
            let mut hasty = Pair::new(&plane, &rng, "hasty", Patience::SHORT).await?;
            let mut patient = Pair::new(&plane, &rng, "patient", Patience::LONG).await?;
            hasty.begin().await?;
            let leader = patient.begin().await?;
            plane.restart().await;
            let (hasty, patient) = (hasty.go_on().await?, patient.go_on().await?);
            Ok::<_, String>((leader, hasty, patient))
        };
        let (leader, hasty, (still, patient)) = outage.await.unwrap_or_else(|error| panic!("{error}"));
        println!("{} {patient}", hasty.1);
        assert_eq!(
            (leader, patient.unprovoked),
            (still, 0),
            "its lease lasts longer than the server was away"
        );
    });
}

/// The documented limit of `Fence`.
#[test]
fn a_replica_that_is_frozen_between_fence_and_socket_sends_one_request_per_worker_and_no_more() {
    in_real_time(async |rng| {
        let plane = Plane::start(&rng).await;
        let pair = Pair::new(&plane, &rng, FROZEN, Patience::SHORT).await;
        let outcome =
            async { pair?.freeze_in_between().await }.await.unwrap_or_else(|error| panic!("{error}"));
        println!("{outcome}");
        assert_eq!(outcome.strays.len(), WORKERS);
        assert!(outcome.strays.iter().all(|stray| stray.end.is_some()), "a server does not know better");
    });
}

/// Does nothing unless another test runs it as a process.
#[test]
fn the_process_of_a_replica() {
    let Ok(orders) = env::var(replica::REPLICA) else { return };
    let code = replica::run(&serde_json::from_str(&orders).unwrap());
    std::process::exit(i32::from(code != std::process::ExitCode::SUCCESS));
}

/// Runs this number of rounds, shared among independent pairs of replicas.
async fn rounds(rng: &Rng, rounds: usize) -> Outcome {
    let plane = Plane::start(rng).await;
    let pairs = (0..PAIRS.min(rounds)).map(|number| {
        let (plane, rng) = (&plane, rng.fork());
        // Each has every fault, in a different order.
        let faults = (number..rounds).step_by(PAIRS);
        let faults = faults.map(move |round| Fault::ALL[(round / PAIRS + number) % Fault::ALL.len()]);
        async move {
            let pair = Pair::new(plane, &rng, &format!("pair-{number}"), Patience::SHORT).await?;
            pair.rounds(faults).await
        }
    });
    let mut outcome = Outcome::default();
    for pair in futures::future::try_join_all(pairs).await.unwrap_or_else(|error| panic!("{error}")) {
        outcome.add(pair);
    }
    println!("{outcome}");
    outcome
}

/// Runs a test and prints its seed.
fn in_real_time(test: impl AsyncFnOnce(Rng)) {
    let seed = match env::var(SEED) {
        Ok(seed) => seed.parse().expect("the seed is a number"),
        Err(_) => Clock::real().rng().next_u64(),
    };
    println!("{SEED}={seed}");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("there are threads").block_on(test(Rng::seeded(seed)));
}
