//! Two replicas with the same lease, and faults of the leader.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use bowline_clock::Rng;
use rustix::process::Signal;

use crate::plane::Plane;
use crate::process::{PATIENCE, Replica};
use crate::proxy::{Network, Proxy};
use crate::record::{Moment, Story, Stray};
use crate::replica::{Orders, WORKERS, object};

/// Polling interval of the record.
const LOOK: Duration = Duration::from_millis(20);

/// Number of writes that show that a replica leads and works.
const WRITES: usize = 2 * WORKERS;

/// Tolerance of a takeover for a busy machine, whose threads wait for a processor. Not a measure of speed; it
/// distinguishes a missing takeover from a late one.
const ALLOWANCE: Duration = Duration::from_secs(4);

/// Time after the end of a process by which its last request has arrived, or never will.
const ARRIVAL: Duration = Duration::from_millis(300);

/// Durations of an election.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) lease: Duration,
    pub(crate) renew: Duration,
    pub(crate) retry: Duration,
}

impl Patience {
    /// Durations of the rounds.
    pub(crate) const SHORT: Self = Self {
        lease: Duration::from_secs(2),
        renew: Duration::from_millis(1200),
        retry: Duration::from_millis(300),
    };

    /// Durations of a leader that waits for a restarted server.
    pub(crate) const LONG: Self = Self {
        lease: Duration::from_secs(90),
        renew: Duration::from_secs(80),
        retry: Duration::from_secs(1),
    };
}

/// Fault of the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// It is killed.
    Kill,
    /// It is asked to end, and releases the lease.
    Terminate,
    /// It is frozen until another replica leads and works; then it continues.
    Freeze,
    /// Its packets are dropped until another replica leads and works.
    Dark,
    /// Its connections are reset, and new ones fail, until another replica leads and works.
    Reset,
    /// Its packets are dropped for a while, shorter or longer than the lease.
    Flicker,
}

impl Fault {
    pub(crate) const ALL: [Self; 6] =
        [Self::Kill, Self::Freeze, Self::Dark, Self::Terminate, Self::Reset, Self::Flicker];
}

/// Results of some rounds.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) rounds: BTreeMap<Fault, usize>,
    /// Writes of a frozen process after it continued.
    pub(crate) strays: Vec<Stray>,
    /// Number of leases lost without a fault: the machine was too busy.
    pub(crate) unprovoked: usize,
    /// Number of network interruptions that the leader survived.
    pub(crate) kept: usize,
    pub(crate) longest: Duration,
    pub(crate) writes: usize,
}

/// Two replicas, and their past.
pub(crate) struct Pair<'a> {
    plane: &'a Plane,
    rng: Rng,
    namespace: String,
    patience: Patience,
    replicas: Vec<Replica>,
    started: usize,
    /// Earliest time at which each frozen replica continues.
    thawed: BTreeMap<String, Moment>,
    outcome: Outcome,
}

type Result<T> = std::result::Result<T, String>;

impl<'a> Pair<'a> {
    /// A pair in its own namespace. None is started yet.
    pub(crate) async fn new(
        plane: &'a Plane,
        rng: &Rng,
        namespace: &str,
        patience: Patience,
    ) -> Result<Self> {
        plane.prepare(namespace).await.map_err(|error| error.to_string())?;
        Ok(Self {
            plane,
            rng: rng.fork(),
            namespace: namespace.to_owned(),
            patience,
            replicas: Vec::new(),
            started: 0,
            thawed: BTreeMap::new(),
            outcome: Outcome::default(),
        })
    }

    /// Applies the faults to the leader in sequence, and checks the server's record after each.
    pub(crate) async fn rounds(mut self, faults: impl IntoIterator<Item = Fault>) -> Result<Outcome> {
        self.begin().await?;
        for (number, fault) in faults.into_iter().enumerate() {
            let round = format!("{}, round {number}, {fault:?}", self.namespace);
            self.round(fault).await.map_err(|error| format!("{round}: {error}"))?;
            *self.outcome.rounds.entry(fault).or_default() += 1;
        }
        self.check()?;
        self.outcome.writes = self.read(|story| story.writes.len());
        Ok(self.outcome)
    }

    /// Starts both, and waits until one leads and works. Returns the leader.
    pub(crate) async fn begin(&mut self) -> Result<String> {
        for _ in 0..2 {
            self.join(false).await?;
        }
        let leader = self.steady().await?;
        Ok(self.replicas[leader].identity().to_owned())
    }

    /// Waits until one leads and writes again, after a server restart. Returns the leader and the result.
    pub(crate) async fn go_on(mut self) -> Result<(String, Outcome)> {
        let before = self.read(|story| story.writes.len());
        let deadline = self.plane.clock.now() + PATIENCE;
        while self.read(|story| story.writes.len()) < before + WRITES {
            self.replace_lost().await?;
            if self.plane.clock.now() > deadline {
                return Err(self.with_logs("nobody writes any more"));
            }
            self.plane.clock.sleep(LOOK).await;
        }
        let leader = self.steady().await?;
        self.check()?;
        self.outcome.writes = self.read(|story| story.writes.len());
        Ok((self.replicas[leader].identity().to_owned(), self.outcome))
    }

    /// Freezes the leader when all its workers have passed the fence and none has sent. It continues when another
    /// replica leads.
    pub(crate) async fn freeze_in_between(mut self) -> Result<Outcome> {
        self.join(true).await?;
        let mut victim = self.replicas.remove(0);
        victim.stopped().await?;
        self.join(false).await?;
        self.takeover(&victim).await?;
        self.thaw(&mut victim).await?;
        self.check()?;
        let late: BTreeSet<_> = self.outcome.strays.iter().map(|stray| &stray.object).collect();
        if late.len() != WORKERS {
            return Err(format!("only {late:?} were written late\n{}", victim.log()));
        }
        Ok(self.outcome)
    }

    /// Starts another replica with an unused name.
    async fn join(&mut self, freezes: bool) -> Result<()> {
        let proxy =
            Proxy::start(&self.plane.clock, self.plane.address()).await.map_err(|error| error.to_string())?;
        let identity = format!("{}-{}", self.namespace, self.started);
        self.started += 1;
        let orders = Orders {
            namespace: self.namespace.clone(),
            kubeconfig: self.plane.kubeconfig(),
            server: format!("https://{}", proxy.address()),
            lease: self.patience.lease,
            renew: self.patience.renew,
            retry: self.patience.retry,
            freezes,
            identity,
        };
        let log = self.plane.log(&orders.identity);
        let replica = Replica::start(&self.plane.clock, orders, proxy, log);
        self.replicas.push(replica.map_err(|error| error.to_string())?);
        Ok(())
    }

    async fn round(&mut self, fault: Fault) -> Result<()> {
        let leader = self.steady().await?;
        self.pause(0..400).await;
        let mut victim = self.replicas.remove(leader);
        let error = |error: std::io::Error| error.to_string();
        match fault {
            Fault::Kill => {
                victim.signal(Signal::KILL).map_err(error)?;
                let status = victim.end().await?;
                self.unless_lost(&victim, victim.killed(status))?;
                self.takeover(&victim).await?;
            }
            Fault::Terminate => {
                victim.signal(Signal::TERM).map_err(error)?;
                let status = victim.end().await?;
                self.unless_lost(&victim, victim.finished(status))?;
                self.takeover(&victim).await?;
            }
            Fault::Freeze => {
                victim.signal(Signal::STOP).map_err(error)?;
                self.takeover(&victim).await?;
                self.pause(0..300).await;
                self.thaw(&mut victim).await?;
            }
            Fault::Dark | Fault::Reset => {
                victim.proxy.set(if fault == Fault::Dark { Network::Dark } else { Network::Reset });
                self.takeover(&victim).await?;
                let status = victim.end().await?;
                victim.lost(status)?;
            }
            Fault::Flicker => {
                victim.proxy.set(Network::Dark);
                self.pause(100..1900).await;
                victim.proxy.set(Network::Whole);
                if self.outlasts(&mut victim).await? {
                    self.outcome.kept += 1;
                    self.replicas.push(victim);
                    return self.check();
                }
                self.takeover(&victim).await?;
                let status = victim.end().await?;
                victim.lost(status)?;
            }
        }
        self.check()?;
        drop(victim);
        self.join(false).await
    }

    /// Waits until one of the two leads and works, and the other has seen the lease. Returns the leader.
    async fn steady(&mut self) -> Result<usize> {
        let deadline = self.plane.clock.now() + PATIENCE;
        loop {
            self.replace_lost().await?;
            let leader = self.read(|story| {
                let (leader, count) = story.writer()?;
                let place = self.replicas.iter().position(|replica| replica.identity() == leader)?;
                let others = self.replicas.iter().map(Replica::identity).filter(|other| *other != leader);
                let is_seen = others.map(|other| story.reads.get(other)).all(|reads| reads > Some(&1));
                (is_seen && count >= WRITES).then_some(place)
            });
            if let Some(leader) = leader {
                return Ok(leader);
            }
            if self.plane.clock.now() > deadline {
                return Err(self.with_logs("nobody leads and works"));
            }
            self.plane.clock.sleep(LOOK).await;
        }
    }

    /// Starts a replacement for each that lost the lease without a fault.
    async fn replace_lost(&mut self) -> Result<()> {
        let mut place = 0;
        while place < self.replicas.len() {
            match self.replicas[place].ended().map_err(|error| error.to_string())? {
                None => place += 1,
                Some(status) => {
                    self.replicas[place].lost(status)?;
                    self.outcome.unprovoked += 1;
                    self.replicas.remove(place);
                    self.join(false).await?;
                }
            }
        }
        Ok(())
    }

    /// Waits until another replica leads and has written each object, within the time limit.
    async fn takeover(&mut self, victim: &Replica) -> Result<()> {
        let deadline = self.plane.clock.now() + PATIENCE;
        let successor = loop {
            let writer = self.read(|story| {
                let (writer, count) = story.writer()?;
                (writer != victim.identity() && count >= WRITES).then(|| writer.to_owned())
            });
            if let Some(writer) = writer
                && self.is_done_by(&writer).await?
            {
                break writer;
            }
            if self.plane.clock.now() > deadline {
                return Err(self.with_logs("nobody took over and works"));
            }
            self.replace_lost().await?;
            self.plane.clock.sleep(LOOK).await;
        };
        let Patience { lease, retry, .. } = self.patience;
        let waited = self.read(|story| story.takeover(victim.identity(), &successor))?;
        self.outcome.longest = self.outcome.longest.max(waited);
        // A candidate sees a renewal one retry later, and waits for the lease duration from then on. Retries and the
        // last wait have jitter.
        let limit = lease + retry.mul_f64(1.4) + ALLOWANCE;
        if waited > limit {
            return Err(self.with_logs(&format!("a takeover took {waited:?}, which is more than {limit:?}")));
        }
        Ok(())
    }

    /// Whether that replica was the last to write each object.
    async fn is_done_by(&self, identity: &str) -> Result<bool> {
        let maps = self.plane.maps(&self.namespace);
        for worker in 0..WORKERS {
            let map = maps.get(&object(worker)).await.map_err(|error| error.to_string())?;
            let by = map.data.as_ref().and_then(|data| data.get("by"));
            if by.is_none_or(|by| by != identity) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Continues a frozen replica, which has to detect that it no longer leads.
    async fn thaw(&mut self, victim: &mut Replica) -> Result<()> {
        victim.stopped().await?;
        self.thawed.insert(victim.identity().to_owned(), self.plane.now());
        victim.signal(Signal::CONT).map_err(|error| error.to_string())?;
        let status = victim.end().await?;
        self.plane.clock.sleep(ARRIVAL).await;
        victim.lost(status)
    }

    /// Whether the leader still works after its network was restored. It may have to detect that it no longer leads.
    async fn outlasts(&mut self, victim: &mut Replica) -> Result<bool> {
        let deadline = self.plane.clock.now() + PATIENCE;
        let before = self.read(|story| story.count(victim.identity()));
        loop {
            if victim.ended().map_err(|error| error.to_string())?.is_some() {
                return Ok(false);
            }
            if self.read(|story| story.count(victim.identity())) > before + WRITES {
                return Ok(true);
            }
            if self.plane.clock.now() > deadline {
                return Err(self.with_logs("the leader neither goes on nor ends"));
            }
            self.plane.clock.sleep(LOOK).await;
        }
    }

    /// Checks an expectation, unless the replica lost the lease without a fault at the same moment.
    fn unless_lost(&mut self, victim: &Replica, expected: Result<()>) -> Result<()> {
        if expected.is_err() && victim.log().contains("leadership lost") {
            self.outcome.unprovoked += 1;
            return Ok(());
        }
        expected
    }

    fn check(&mut self) -> Result<()> {
        self.outcome.strays = self.read(|story| story.check(&self.thawed))?;
        Ok(())
    }

    fn read<T>(&self, look: impl FnOnce(&Story) -> T) -> T {
        self.plane.read(&self.namespace, look)
    }

    async fn pause(&self, millis: std::ops::Range<u64>) {
        self.plane.clock.sleep(Duration::from_millis(self.rng.range(millis))).await;
    }

    fn with_logs(&self, what: &str) -> String {
        self.replicas.iter().fold(what.to_owned(), |text, replica| text + "\n" + &replica.log())
    }
}

impl Outcome {
    pub(crate) fn add(&mut self, other: Self) {
        for (fault, count) in other.rounds {
            *self.rounds.entry(fault).or_default() += count;
        }
        self.strays.extend(other.strays);
        self.unprovoked += other.unprovoked;
        self.kept += other.kept;
        self.longest = self.longest.max(other.longest);
        self.writes += other.writes;
    }

    pub(crate) fn total(&self) -> usize {
        self.rounds.values().sum()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, strays, unprovoked, kept, longest, writes } = self;
        writeln!(
            f,
            "{} rounds {rounds:?} with {writes} writes: no two at once; the longest takeover was {longest:?}; \
             {kept} flickers were outlasted; {unprovoked} leases were lost by themselves; {} requests of frozen \
             processes came late",
            self.total(),
            strays.len(),
        )?;
        for Stray { identity, object, start, end, .. } in strays {
            writeln!(f, "  late: {identity} wrote {object} at {start:?}, done at {end:?}")?;
        }
        Ok(())
    }
}
