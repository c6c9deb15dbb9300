//! `bowline dev`: an API server in this process, the operator built and started again after each change, and a live view.

mod objects;
mod process;
mod reconciles;
mod sources;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use bowline::kube::ResourceExt as _;
use bowline::plane::{ObjectError, Plane, PlaneError};
use bowline::prelude::Clock;
use bowline::runtime::{DefinitionError, DefinitionInstaller, OperatorDescription, Signals};

use self::objects::Objects;
use self::process::{Process, ProcessEvent};
use self::reconciles::Reconciles;
use self::sources::Sources;
use crate::arguments::Dev;
use crate::plane::Hangup;
use crate::program::{Program, ProgramError};
use crate::project::{Project, ProjectError};
use crate::screen::{Screen, Style};
use crate::{output, runtime};

/// Interval of the live view.
const VIEW_INTERVAL: Duration = Duration::from_millis(300);
/// Views between two looks at the files.
const VIEWS_PER_LOOK: u32 = 2;
/// Folder of a project with objects to create.
const SAMPLES: &str = "samples";

/// Why `dev` ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
enum DevError {
    #[error(transparent)]
    Project(#[from] ProjectError),
    #[error("cannot start: {0}")]
    Start(#[source] io::Error),
    #[error(transparent)]
    Plane(#[from] PlaneError),
    #[error("cannot write to the standard output: {0}")]
    Output(#[source] io::Error),
}

/// Why one build of the operator does not run. The next change may mend it.
#[derive(Debug, thiserror::Error)]
enum BuildError {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    #[error(transparent)]
    Sample(#[from] ObjectError),
    #[error("cannot read {}: {source}", path.display())]
    Samples { path: PathBuf, source: io::Error },
    #[error("cannot run the operator: {0}")]
    Process(#[source] io::Error),
    #[error(transparent)]
    Output(#[from] DevError),
}

/// Runs until a signal comes.
pub(crate) fn run(arguments: &Dev) -> ExitCode {
    let ended = match runtime::block_on(dev(arguments)) {
        Ok(ended) => ended,
        Err(error) => return output::fail(&error, None),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(DevError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(DevError::Project(error)) => output::fail(&error, error.hint().as_deref()),
        Err(error) => output::fail(&error, None),
    }
}

async fn dev(arguments: &Dev) -> Result<(), DevError> {
    let mut signals = Signals::listen().map_err(DevError::Start)?;
    let mut hangup = Hangup::listen().map_err(DevError::Start)?;
    let project = Project::find()?;
    let plane = Plane::start("bowline-dev").await?;
    let mut session = Session {
        clock: Clock::real(),
        objects: Objects::new(plane.kube_client()),
        reconciles: Reconciles::new().map_err(DevError::Start)?,
        screen: Screen::stdout(),
        project,
        plane,
        arguments,
        process: None,
        has_samples: false,
    };
    let ended = tokio::select! {
        biased;
        () = signals.wait() => Ok(()),
        () = hangup.wait() => Ok(()),
        ended = session.work() => ended,
    };
    let stopped = session.stop().await;
    ended.and(stopped)
}

/// A plane with an operator.
struct Session<'a> {
    clock: Clock,
    project: Project,
    plane: Plane,
    objects: Objects,
    reconciles: Reconciles,
    screen: Screen,
    arguments: &'a Dev,
    /// The operator, if it runs.
    process: Option<Process>,
    /// Whether the samples have been created.
    has_samples: bool,
}

/// The cause of the end of a view.
enum Wake {
    Changed(PathBuf),
    Ended(ExitStatus),
}

impl Session<'_> {
    /// Builds and watches, again and again.
    async fn work(&mut self) -> Result<(), DevError> {
        self.greet()?;
        loop {
            let sources = Sources::of(&self.project.root);
            match self.build().await {
                Ok(()) => {}
                Err(BuildError::Output(error)) => return Err(error),
                Err(error) => {
                    let rest = if self.process.is_some() {
                        "the last build goes on"
                    } else {
                        "waiting for a change"
                    };
                    self.say(Style::Error, &format!("✗ {error}; {rest}"))?;
                    if let BuildError::Program(error) = &error
                        && let Some(hint) = error.hint()
                    {
                        self.say(Style::Plain, &format!("  hint: {hint}"))?;
                    }
                }
            }
            loop {
                match self.watch(&sources).await? {
                    Wake::Changed(path) => {
                        let path =
                            path.strip_prefix(&self.project.root).unwrap_or(&path).display().to_string();
                        self.say(Style::Bold, &format!("{path} has changed"))?;
                        break;
                    }
                    Wake::Ended(status) => {
                        self.process = None;
                        self.say(
                            Style::Error,
                            &format!("✗ the operator ended ({status}); waiting for a change"),
                        )?;
                    }
                }
            }
        }
    }

    fn greet(&mut self) -> Result<(), DevError> {
        let kubeconfig = self.plane.kubeconfig().display().to_string();
        self.say(Style::Plain, &format!("A Kubernetes API server listens on {}.", self.plane.address()))?;
        self.say(Style::Plain, &format!("  export KUBECONFIG={kubeconfig}"))?;
        self.say(Style::Plain, "Ctrl-C stops it and the operator. Everything is in memory.\n")
    }

    /// Builds the operator, installs its kinds, and starts it in place of the last one.
    async fn build(&mut self) -> Result<(), BuildError> {
        self.screen.close().map_err(DevError::Output)?;
        let start = self.clock.now();
        let program = Program::build(&self.project).await?;
        let description = program.describe(&self.project).await?;
        let took = self.clock.now().duration_since(start);
        self.say(Style::Plain, &format!("✓ built in {took:.1?}"))?;
        if let Some(process) = self.process.take() {
            for line in process.stop().await {
                self.say(Style::Dim, &line)?;
            }
        }
        self.install(&description).await?;
        if self.arguments.no_operator {
            let program = program.path().display().to_string();
            let flags =
                self.flags().iter().map(|flag| flag.to_string_lossy().into_owned()).collect::<Vec<_>>();
            self.say(
                Style::Plain,
                &format!("Start the operator yourself:\n  {program} {}", flags.join(" ")),
            )?;
        } else {
            let process = Process::start(&program, &self.project.root, &self.flags());
            self.process = Some(process.map_err(BuildError::Process)?);
            self.say(Style::Plain, "✓ the operator runs")?;
        }
        self.create_samples().await
    }

    async fn install(&mut self, description: &OperatorDescription) -> Result<(), BuildError> {
        let installer = DefinitionInstaller::new(&self.clock, self.plane.kube_client());
        for definition in &description.crds {
            installer.install(definition).await?;
            self.say(Style::Plain, &format!("✓ installed {}", definition.name_any()))?;
        }
        self.objects.set_kinds(&description.crds);
        Ok(())
    }

    /// The arguments of the operator, without a program.
    fn flags(&self) -> Vec<OsString> {
        let mut kubeconfig = OsString::from("--kubeconfig=");
        kubeconfig.push(self.plane.kubeconfig());
        let mut flags = vec![kubeconfig, "--health-probe-bind-address=0".into()];
        flags.extend(self.reconciles.flags().map(OsString::from));
        flags.extend(self.project.operator.all_args().map(OsString::from));
        flags.extend(self.arguments.args.iter().cloned());
        flags
    }

    /// Creates the objects of the samples, once.
    async fn create_samples(&mut self) -> Result<(), BuildError> {
        let folder = self.project.root.join(SAMPLES);
        if self.has_samples || self.arguments.no_samples || !folder.is_dir() {
            return Ok(());
        }
        self.has_samples = true;
        let failed = |source| BuildError::Samples { path: folder.clone(), source };
        let entries = std::fs::read_dir(&folder).map_err(failed)?;
        let paths: Result<Vec<_>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
        let mut paths = paths.map_err(failed)?;
        paths.retain(|path| {
            path.extension()
                .is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|it| extension == *it))
        });
        paths.sort();
        for path in paths {
            let count = self.plane.create_objects(&path).await?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let objects = if count == 1 { "1 object".to_owned() } else { format!("{count} objects") };
            self.say(Style::Plain, &format!("✓ created {objects} of {SAMPLES}/{name}"))?;
        }
        Ok(())
    }

    /// Shows objects, reconciles and the operator's lines, until a file changes or the operator ends.
    async fn watch(&mut self, sources: &Sources) -> Result<Wake, DevError> {
        let clock = self.clock.clone();
        let mut views = 0;
        loop {
            self.view().await?;
            views += 1;
            if views % VIEWS_PER_LOOK == 0
                && let Some(path) = Sources::of(&self.project.root).changed_since(sources)
            {
                return Ok(Wake::Changed(path.to_owned()));
            }
            let until = clock.now() + VIEW_INTERVAL;
            loop {
                let rest = until.duration_since(clock.now());
                let event = clock.timeout(rest, async {
                    match &mut self.process {
                        Some(process) => process.next().await,
                        None => std::future::pending().await,
                    }
                });
                match event.await {
                    Err(_) => break,
                    Ok(Ok(ProcessEvent::Line(line))) => self.say(Style::Dim, &line)?,
                    Ok(Ok(ProcessEvent::Ended(status))) => return Ok(Wake::Ended(status)),
                    Ok(Err(error)) => return Err(DevError::Start(error)),
                }
                if clock.now() >= until {
                    break;
                }
            }
        }
    }

    async fn view(&mut self) -> Result<(), DevError> {
        for run in self.reconciles.take().await {
            let style = if run.is_failure { Style::Error } else { Style::Plain };
            self.say(style, &run.to_string())?;
        }
        let lines = self.objects.lines().await;
        self.screen.show(lines).map_err(DevError::Output)
    }

    fn say(&mut self, style: Style, text: &str) -> Result<(), DevError> {
        self.screen.styled(style, text).map_err(DevError::Output)
    }

    /// Stops the operator, and then the plane.
    async fn stop(mut self) -> Result<(), DevError> {
        let closed = self.screen.close().map_err(DevError::Output);
        let mut rest = Vec::new();
        if let Some(process) = self.process.take() {
            rest = process.stop_after_signal().await;
        }
        self.plane.stop().await;
        closed?;
        for line in rest {
            self.screen.styled(Style::Dim, &line).map_err(DevError::Output)?;
        }
        self.screen.line("Stopped.").map_err(DevError::Output)
    }
}
