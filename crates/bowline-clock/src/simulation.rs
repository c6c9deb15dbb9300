//! Simulations: one thread, paused time, one seed.

use std::time::{Duration, SystemTime};

use crate::Clock;

/// 2030-01-01T00:00:00Z, in seconds since 1970.
const DEFAULT_EPOCH: u64 = 1_893_456_000;

/// Runs a future on simulated time.
///
/// Everything runs on the calling thread. Time stands still while any task can run, and jumps to the next timer
/// when nothing can: an hour's wait costs nothing. Random numbers come from the seed. The same seed and code
/// give the same run if the code takes time, numbers and tasks only from the given [`Clock`], reads no socket or
/// file, and makes every `select!` `biased`.
///
/// When the future panics, the seed is printed to standard error.
///
/// ```
/// use std::time::Duration;
/// use bowline_clock::Simulation;
///
/// let slept = Simulation::new(7).run(|clock| async move {
///     let start = clock.now();
///     clock.sleep(Duration::from_secs(3600)).await;
///     clock.now().duration_since(start)
/// });
/// assert_eq!(slept, Duration::from_secs(3600));
/// ```
#[derive(Clone, Debug)]
#[must_use = "a simulation does nothing until it is run"]
pub struct Simulation {
    seed: u64,
    epoch: SystemTime,
    hint: Option<String>,
}

impl Simulation {
    /// A simulation whose random numbers come from `seed`.
    pub fn new(seed: u64) -> Self {
        Self { seed, epoch: SystemTime::UNIX_EPOCH + Duration::from_secs(DEFAULT_EPOCH), hint: None }
    }

    /// The wall time at the start. Default: 2030-01-01T00:00:00Z.
    pub fn epoch(mut self, epoch: SystemTime) -> Self {
        self.epoch = epoch;
        self
    }

    /// Text that is printed to standard error when the future panics, to say how to repeat the run. Default: the seed, and
    /// `Simulation::new(SEED)`.
    pub fn failure_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Runs the future that `world` returns to its end, and drops all remaining tasks.
    ///
    /// # Panics
    /// When the future panics, or on a thread that already runs a tokio runtime.
    pub fn run<F: Future>(self, world: impl FnOnce(Clock) -> F) -> F::Output {
        let seed = self.seed;
        let hint = self.hint.unwrap_or_else(|| {
            format!("simulation failed with seed {seed}: Simulation::new({seed}) repeats it")
        });
        let _hint = HintOnPanic(hint);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without I/O needs nothing that could fail");
        runtime.block_on(async { world(Clock::simulated(self.epoch, self.seed)).await })
    }
}

struct HintOnPanic(String);

impl Drop for HintOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Several tasks that draw numbers, sleep and log.
    fn trace(seed: u64) -> Vec<String> {
        Simulation::new(seed).run(|clock| async move {
            let scope = clock.scope("world");
            let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
            for task in 0..5 {
                let (clock, sender) = (clock.clone(), sender.clone());
                scope.spawn(format!("task-{task}"), async move {
                    for _ in 0..20 {
                        clock.sleep(Duration::from_millis(clock.rng().range(0..50))).await;
                        sender.send(format!("{task} {:?} {}", clock.now(), clock.rng().next_u64())).unwrap();
                    }
                });
            }
            drop(sender);
            let mut seen = Vec::new();
            while let Some(line) = receiver.recv().await {
                seen.push(line);
            }
            seen
        })
    }

    #[test]
    fn the_same_seed_gives_the_same_run() {
        assert_eq!(trace(42), trace(42));
        assert_ne!(trace(42), trace(43));
    }

    #[test]
    fn wall_time_starts_at_the_epoch() {
        let epoch = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        assert_eq!(Simulation::new(0).epoch(epoch).run(|clock| async move { clock.system_time() }), epoch);
    }
}
