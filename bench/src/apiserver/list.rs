//! `apiserver-list`: many objects of two kinds in all namespaces, listed at once and by pages; and the memory they take.

use super::client::{Asked, Connection, string};
use super::load::{Failure, Run, Used, Values};
use super::object::{Objects, namespace};
use super::{Maker, row};
use crate::metric::{CPU_S, RSS_PEAK_MIB, RSS_SETTLED_MIB, WALL_S};
use crate::report::Row;

const RESOURCES: [&str; 2] = ["configmaps", "pods"];
const MODES: [Mode; 2] = [Mode::Whole, Mode::Paged];

/// Number of connections that fill the server, outside of the timed part.
const FILLING: usize = 16;
const PAGE: usize = 500;
const PREFIX: &str = "web-6d4b75cb6d-";

/// Minimum number of lists; more while the server's CPU time is too short to measure.
const FEWEST_LISTS: usize = 3;
const MOST_LISTS: usize = 20;
const ENOUGH_CPU_SECONDS: f64 = 2.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Whole,
    Paged,
}

pub(super) fn rows(n: usize) -> Vec<Row> {
    let both = both(n);
    let mut rows = vec![row(&both, RSS_SETTLED_MIB, Some(0.2)), row(&both, RSS_PEAK_MIB, None)];
    for resource in RESOURCES {
        for mode in MODES {
            let variant = mode.variant(resource, n);
            rows.push(row(&variant, CPU_S, Some(0.33)));
            rows.push(row(&variant, WALL_S, None));
        }
    }
    rows
}

fn both(n: usize) -> String {
    format!("both n={n}")
}

pub(super) async fn run(run: &Run) -> Result<Values, Failure> {
    let client = run.client()?;
    run.make_namespaces(&client).await?;
    let mut connections = client.connect_all(FILLING).await?;
    for resource in RESOURCES {
        let objects = objects(run.maker, &mut connections[0], resource).await?;
        let make = move |number| create(objects, resource, number, "");
        run.ask_all(&mut connections, run.n, make, |_| Some(())).await?;
    }
    drop(connections);

    let mut values = Values::default();
    values.put(&both(run.n), RSS_SETTLED_MIB, run.server.settled_mib().await?);
    let mut connection = client.connect().await?;
    for resource in RESOURCES {
        check(&mut connection, resource, run.n).await?;
        for mode in MODES {
            let used = average(run, &mut connection, resource, mode).await?;
            let variant = mode.variant(resource, run.n);
            values.put(&variant, CPU_S, used.cpu_seconds);
            values.put(&variant, WALL_S, used.wall.as_secs_f64());
        }
    }
    values.put(&both(run.n), RSS_PEAK_MIB, run.server.peak_mib()?);
    Ok(values)
}

fn create(objects: Objects, resource: &str, number: usize, query: &str) -> Asked {
    let name = format!("{PREFIX}{number:06}");
    let body = match resource {
        "pods" => objects.pod(&name),
        _ => objects.config_map(&name, None, number),
    };
    Asked::post(format!("/api/v1/namespaces/{}/{resource}{query}", namespace(number)), body)
}

/// Objects with the same length in every server's responses.
async fn objects(maker: Maker, connection: &mut Connection, resource: &str) -> Result<Objects, Failure> {
    let plain = Objects::default();
    let answer = connection.ask(create(plain, resource, 0, "?dryRun=All")).await?;
    eprintln!("without padding, an answer of {resource} has {} bytes", answer.len());
    Ok(if maker == Maker::Bowline { Objects::padded(resource, answer.len()) } else { plain })
}

/// Checks that one list contains all objects. It is also the first list, which may cost more.
async fn check(connection: &mut Connection, resource: &str, n: usize) -> Result<(), Failure> {
    let list = connection.ask(Asked::get(Mode::Whole.path(resource, None))).await?;
    let start = format!("\"name\":\"{PREFIX}");
    let objects = list.windows(start.len()).filter(|window| *window == start.as_bytes()).count();
    eprintln!("{objects} {resource} in {} bytes", list.len());
    if objects == n { Ok(()) } else { Err(format!("{objects} {resource} in the list, not {n}").into()) }
}

/// Mean cost of one list.
async fn average(
    run: &Run,
    connection: &mut Connection,
    resource: &str,
    mode: Mode,
) -> Result<Used, Failure> {
    let clock = run.scope.spawner().clock().clone();
    list(connection, resource, mode).await?;
    let (began, cpu) = (clock.now(), run.server.cpu_seconds()?);
    let mut lists = 0;
    loop {
        list(connection, resource, mode).await?;
        lists += 1;
        let used = run.server.cpu_seconds()? - cpu;
        if lists == MOST_LISTS || lists >= FEWEST_LISTS && used >= ENOUGH_CPU_SECONDS {
            let wall = clock.now().duration_since(began);
            #[expect(clippy::cast_precision_loss, reason = "they are 20 at the most")]
            return Ok(Used { wall: wall.div_f64(lists as f64), cpu_seconds: used / lists as f64 });
        }
    }
}

/// One list, from its first byte to its last.
async fn list(connection: &mut Connection, resource: &str, mode: Mode) -> Result<(), Failure> {
    if mode == Mode::Whole {
        connection.count(Asked::get(mode.path(resource, None))).await?;
        return Ok(());
    }
    let mut next = None;
    loop {
        let page = connection.ask(Asked::get(mode.path(resource, next.as_deref()))).await?;
        match string(&page, "continue").filter(|token| !token.is_empty()) {
            Some(token) => next = Some(token.to_owned()),
            None => return Ok(()),
        }
    }
}

impl Mode {
    fn variant(self, resource: &str, n: usize) -> String {
        match self {
            Self::Whole => format!("{resource} whole n={n}"),
            Self::Paged => format!("{resource} paged n={n}"),
        }
    }

    /// Whole lists as informers request them, from the server's memory; pages as kubectl does.
    fn path(self, resource: &str, next: Option<&str>) -> String {
        let next = next.map_or_else(String::new, |token| format!("&continue={token}"));
        match self {
            Self::Whole => format!("/api/v1/{resource}?resourceVersion=0"),
            Self::Paged => format!("/api/v1/{resource}?limit={PAGE}{next}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_asked_for_by_its_token() {
        assert_eq!(Mode::Paged.path("pods", None), "/api/v1/pods?limit=500");
        assert_eq!(Mode::Paged.path("pods", Some("abc")), "/api/v1/pods?limit=500&continue=abc");
    }
}
