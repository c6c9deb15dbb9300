//! `OPERATOR describe`: a manager that prints what it declares instead of starting.

use std::io::{self, Write as _};

use bowline_cache::{CacheOptions, SelectionSettings};
use bowline_clock::Clock;
use bowline_runtime::{ConnectionConfig, Error, Manager, ManagerBuilder, OperatorDescription};

use super::flags::ManagerFlags;

impl ManagerFlags {
    /// A builder for a manager without connection, signals and servers, whose `run` prints the description.
    pub(super) fn describing_builder(&self) -> ManagerBuilder {
        let scope = Clock::real().scope("operator");
        let namespaces: Vec<String> = self.namespaces().cloned().collect();
        let settings: Vec<_> =
            namespaces.iter().map(|name| (name.clone(), SelectionSettings::new())).collect();
        let lease = self.leader_election_id.clone();
        Manager::builder(&scope.spawner(), ConnectionConfig::refused())
            .cluster(|cluster| cluster.cache(CacheOptions::new().namespaces(settings)))
            .run_instead("describe", |manager| async move {
                let mut description = manager.describe()?;
                description.namespaces = namespaces;
                description.lease = lease;
                print(&description)
            })
            .keep(scope)
    }
}

fn print(description: &OperatorDescription) -> Result<(), Error> {
    let mut text = serde_json::to_string_pretty(description)?;
    text.push('\n');
    let mut output = io::stdout().lock();
    Ok(output.write_all(text.as_bytes()).and_then(|()| output.flush())?)
}
