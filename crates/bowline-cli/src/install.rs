//! `bowline install` and `bowline uninstall`: the project's CRDs on the cluster of the current context.

use std::process::ExitCode;

use bowline::kube::ResourceExt as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;

use crate::arguments::{Install, Output, Uninstall};
use crate::cluster::{Cluster, ClusterError, Objects};
use crate::output::fail;
use crate::program::{Program, ProgramError};
use crate::project::{Project, ProjectError};
use crate::{output, runtime};

/// Why CRDs are not, or still, on a cluster.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
enum InstallError {
    #[error(transparent)]
    Project(#[from] ProjectError),
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error("{} would be deleted:\n{}", count(*total), objects.join("\n"))]
    Objects { total: u64, objects: Vec<String> },
}

impl InstallError {
    /// Advice for the user.
    fn hint(&self) -> Option<String> {
        match self {
            Self::Project(error) => error.hint(),
            Self::Program(error) => error.hint(),
            Self::Cluster(error) => error.hint(),
            Self::Objects { .. } => {
                Some("nothing was changed; use `--force` to delete the CRDs with these objects".to_owned())
            }
        }
    }
}

fn count(objects: u64) -> String {
    if objects == 1 { "1 object".to_owned() } else { format!("{objects} objects") }
}

/// The CRDs that the operator declares.
async fn definitions() -> Result<Vec<CustomResourceDefinition>, InstallError> {
    let project = Project::find()?;
    Ok(Program::build(&project).await?.describe(&project).await?.crds)
}

/// Installs the CRDs.
pub(crate) fn install(arguments: &Install) -> ExitCode {
    report(arguments.output, async {
        let definitions = definitions().await?;
        let cluster = Cluster::find(arguments.context.as_deref()).await?;
        announce(&cluster);
        let mut lines = Vec::new();
        for definition in &definitions {
            cluster.install(definition).await?;
            lines.push(Line { name: definition.name_any(), state: "installed" });
        }
        Ok(lines)
    })
}

/// Deletes the CRDs, if no object would be deleted with them.
pub(crate) fn uninstall(arguments: &Uninstall) -> ExitCode {
    report(arguments.output, async {
        let definitions = definitions().await?;
        let cluster = Cluster::find(arguments.context.as_deref()).await?;
        announce(&cluster);
        let mut present = Vec::new();
        let (mut total, mut objects) = (0, Vec::new());
        for definition in &definitions {
            let Some(found) = cluster.objects(definition).await? else { continue };
            total += found.total;
            objects.extend(lines_of(definition, &found));
            present.push(definition.name_any());
        }
        if total > 0 && !arguments.force {
            return Err(InstallError::Objects { total, objects });
        }
        let mut lines = Vec::new();
        for definition in &definitions {
            let name = definition.name_any();
            let state = if present.contains(&name) { "deleted" } else { "not installed" };
            cluster.remove(definition).await?;
            lines.push(Line { name, state });
        }
        Ok(lines)
    })
}

fn lines_of(definition: &CustomResourceDefinition, found: &Objects) -> Vec<String> {
    let kind = &definition.spec.names.kind;
    let mut lines: Vec<_> = found.names.iter().map(|name| format!("  {kind} {name}")).collect();
    let more = found.total.saturating_sub(found.names.len() as u64);
    if more > 0 {
        lines.push(format!("  {kind}: {more} more"));
    }
    lines
}

/// Says on the standard error which cluster is meant, before anything is sent.
fn announce(cluster: &Cluster) {
    output::note(&format!("context {}, server {}", cluster.context, cluster.server));
}

/// A CRD, and what happened to it.
struct Line {
    name: String,
    state: &'static str,
}

fn report(output: Output, act: impl Future<Output = Result<Vec<Line>, InstallError>>) -> ExitCode {
    let lines = match runtime::block_on(act) {
        Ok(Ok(lines)) => lines,
        Ok(Err(error)) => return fail(&error, error.hint().as_deref()),
        Err(error) => return fail(&error, None),
    };
    let text = match output {
        Output::Json => {
            let all = lines.iter().map(|line| json!({"name": line.name, "state": line.state}));
            format!("{}\n", all.collect::<serde_json::Value>())
        }
        Output::Text if lines.is_empty() => "the operator declares no custom kinds\n".to_owned(),
        Output::Text => {
            let lines: Vec<_> = lines.iter().map(|line| format!("{} {}", line.name, line.state)).collect();
            lines.join("\n") + "\n"
        }
    };
    output::print(text.as_bytes())
}
