//! After random faults in a random order, the informer and every handler end in the server's state.

use std::time::Duration;

use bowline_apiserver::{ApiServer, Verb, Verdict};
use bowline_cache::{HandlerOptions, Registration, SharedInformer, Subscription};
use bowline_clock::{Rng, Simulation};
use futures::FutureExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::task::unconstrained;

use crate::world::{Witness, World, held, map, refuse};

/// Number of simulations, and of rounds with a new informer in each.
const WORLDS: u64 = 44;
const ROUNDS: u64 = 5;

/// Prints the seed of a failing simulation.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}; run it alone with BOWLINE_SEED={}", self.0, self.0);
        }
    }
}

#[test]
fn after_any_faults_informer_and_handlers_have_the_servers_state() {
    let only = std::env::var("BOWLINE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = only.map_or(0..WORLDS, |seed: u64| seed..seed + 1);
    for seed in seeds {
        let _seed = Seed(seed);
        Simulation::new(seed).run(|clock| async move {
            let mut server = ApiServer::builder();
            if clock.rng().range(0..3) == 0 {
                server = server.history_bytes(4096);
            }
            let world = World::of(clock, server);
            for _ in 0..ROUNDS {
                let streaming = world.clock.rng().range(0..3) > 0;
                let informer = world.informer_with(|builder| builder.streaming_lists(streaming));
                Chaos::new(&world, informer).run().await;
            }
        });
    }
}

/// A simulation with random faults.
struct Chaos<'a> {
    rng: Rng,
    world: &'a World,
    informer: SharedInformer<ConfigMap>,
    handlers: Vec<(Witness, Option<Registration>)>,
    slow: Vec<(Witness, Subscription<ConfigMap>)>,
    written: u64,
}

impl<'a> Chaos<'a> {
    fn new(world: &'a World, informer: SharedInformer<ConfigMap>) -> Self {
        let rng = world.clock.rng().fork();
        Self { rng, world, informer, handlers: Vec::new(), slow: Vec::new(), written: 0 }
    }

    fn draw(&self, below: u64) -> u64 {
        self.rng.range(0..below)
    }

    async fn run(mut self) {
        self.informer.start();
        for _ in 0..20 + self.draw(40) {
            self.step().await;
        }
        self.agree().await;
    }

    async fn step(&mut self) {
        match self.draw(24) {
            0..8 => self.write().await,
            8..12 => {
                let longest = [10, 1000, 5000, 90_000][usize::try_from(self.draw(4)).unwrap_or(0)];
                self.world.clock.sleep(Duration::from_millis(self.draw(longest))).await;
            }
            12..14 => self.fail_frames(),
            14..16 => self.fail_calls(),
            16 => self.world.server.compact(),
            17 => {
                if self.draw(2) == 0 {
                    self.world.faults.watches().silence();
                } else {
                    self.world.faults.remove_all();
                }
            }
            18 => {
                if self.informer.is_running() {
                    self.informer.stop().await;
                } else {
                    self.informer.start();
                }
            }
            19 => {
                let resync = Duration::from_secs(1 + self.draw(100));
                let options = HandlerOptions::default();
                let options = if self.draw(2) == 0 { options.resync(resync) } else { options };
                let (witness, registration) = Witness::with(&self.informer, options);
                self.handlers.push((witness, Some(registration)));
            }
            20 => {
                let many = self.handlers.len() as u64;
                if many > 0 {
                    let place = usize::try_from(self.draw(many)).unwrap_or(0);
                    let (_, registration) = self.handlers.swap_remove(place);
                    if let Some(registration) = registration {
                        registration.unregister().await;
                    }
                }
            }
            21 => {
                // Resynced so often that it falls behind.
                let often = HandlerOptions::default().resync(Duration::from_secs(1));
                let options = if self.draw(2) == 0 { often } else { HandlerOptions::default() };
                self.slow.push((Witness::default(), self.informer.subscribe_with(options)));
            }
            22 => self.read(3),
            _ => self.world.faults.remove_all(),
        }
    }

    /// Writes one or several objects.
    async fn write(&mut self) {
        let many = if self.draw(20) == 0 { 20 } else { 1 + self.draw(4) };
        let maps = self.world.maps();
        for _ in 0..many {
            self.written += 1;
            let name = format!("object-{}", self.draw(6));
            let object = map(&name, &self.written.to_string());
            let exists = maps.get_opt(&name).await.expect("an answer").is_some();
            let post = kube::api::PostParams::default();
            match (exists, self.draw(5)) {
                (false, _) => {
                    maps.create(&post, &object).await.expect("created");
                }
                (true, 0) => self.world.delete(&name).await,
                (true, 1) => {
                    self.world.delete(&name).await;
                    maps.create(&post, &object).await.expect("created");
                }
                _ => {
                    maps.replace(&name, &post, &object).await.expect("updated");
                }
            }
        }
    }

    /// Some of the next frames are lost.
    fn fail_frames(&self) {
        let (times, seed) = (1 + self.draw(5), self.draw(u64::MAX));
        let events = self.world.faults.events().times(times).probability(0.5).seed(seed);
        match self.draw(3) {
            0 => events.close(),
            1 => events.cut(),
            _ => events.lose(),
        };
    }

    /// Some of the next lists and watches fail.
    fn fail_calls(&self) {
        let (rng, times, seed) = (self.rng.fork(), 1 + self.draw(6), self.draw(u64::MAX));
        let reads = self.world.faults.on([Verb::List, Verb::Watch]).times(times).probability(0.75).seed(seed);
        reads.decide(move |_| {
            Verdict::Fail(match rng.range(0..7) {
                0 | 1 => refuse(410, "Expired", "too old"),
                2 => refuse(500, "InternalError", "no"),
                3 => refuse(429, "TooManyRequests", "slow down"),
                4 => refuse(403, "Forbidden", "not you"),
                5 => refuse(504, "Timeout", "Too large resource version: 9, current: 3"),
                _ => return Verdict::Disconnect,
            })
        });
    }

    /// The slow subscribers read some events.
    fn read(&mut self, most: usize) {
        for (witness, subscription) in &mut self.slow {
            for _ in 0..most {
                let Some(Some(event)) = unconstrained(subscription.next()).now_or_never() else { break };
                witness.see(&event);
            }
        }
    }

    async fn agree(&mut self) {
        self.world.faults.remove_all();
        self.informer.start();
        let synced = self.informer.wait_for_sync(Duration::from_secs(900)).await;
        synced.expect("all faults are removed");
        // Skipped events are found by a list that began after the faults: the second one from now.
        self.world.relist(&self.informer).await;
        self.world.relist(&self.informer).await;
        let truth = self.world.truth().await;
        self.world.clock.sleep(Duration::from_secs(90)).await;
        self.read(usize::MAX);
        assert_eq!(held(&self.informer), truth, "the informer has the server's state");
        for (witness, registration) in &self.handlers {
            assert!(registration.as_ref().is_none_or(Registration::has_synced));
            assert_eq!(witness.view(), truth, "a handler has the server's state");
        }
        for (witness, subscription) in &self.slow {
            assert!(subscription.has_synced());
            assert_eq!(witness.view(), truth, "a slow subscriber has the server's state");
        }
    }
}
