//! `cargo xtask real`: a real Kubernetes control plane on this machine. Owns the verbs; building the programs is in
//! `build.rs`, starting and stopping them is `bowline-testing`'s.

mod build;
mod error;
mod go;
mod home;
mod module;
mod test;

use std::process::ExitCode;
use std::time::Duration;

use bowline_clock::Clock;
use bowline_testing::{Binaries, DetachedControlPlane, RealControlPlane};
use clap::{Args, Subcommand};

use self::error::RealError;
use self::home::Home;

/// Maximum time for each process to end, before it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Build the programs if they are not there yet, and print the directory that they are in
    Build,
    /// Start a control plane that stays until `down`; the first time, build it
    Up {
        /// Run kube-controller-manager too
        #[arg(long)]
        controller_manager: bool,
    },
    /// Stop what `up` started
    Down,
    /// Print what a shell needs to use what `up` started: `eval "$(cargo xtask real env)"`
    Env,
    /// Run the tests that have two arms against a control plane of their own, and stop it
    Test {
        /// Additional arguments for `cargo test`
        #[arg(last = true)]
        arguments: Vec<String>,
    },
}

/// Runs the verb. Fails with [`RealError::exit_code`], or as `cargo test` does.
pub(crate) fn run(arguments: Arguments) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start a runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let clock = Clock::real();
    let result = runtime.block_on(async {
        let home = Home::find()?;
        match arguments.verb {
            Verb::Build => build(&clock, &home).await,
            Verb::Up { controller_manager } => up(&clock, &home, controller_manager).await,
            Verb::Down => down(&clock, &home).await,
            Verb::Env => env(&home),
            Verb::Test { arguments } => test::run(&clock, &home, &arguments).await,
        }
    });
    result.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        error.exit_code()
    })
}

async fn build(clock: &Clock, home: &Home) -> Result<ExitCode, RealError> {
    let binaries = build::binaries(clock, home).await?;
    let directory = binaries.kube_apiserver().parent().unwrap_or(binaries.kube_apiserver());
    println!("{}", directory.display());
    Ok(ExitCode::SUCCESS)
}

async fn up(clock: &Clock, home: &Home, controller_manager: bool) -> Result<ExitCode, RealError> {
    let binaries = build::binaries(clock, home).await?;
    let _only_one = home.lock("running")?;
    if let Some(plane) = DetachedControlPlane::load(home.running())? {
        let missing = plane.missing()?;
        if missing.is_empty() {
            let runs_manager = plane.programs().any(|program| program == Binaries::KUBE_CONTROLLER_MANAGER);
            if runs_manager != controller_manager {
                let how = if runs_manager { "with" } else { "without" };
                return Err(RealError::Different(how));
            }
            eprintln!("real: is running already, at {}", plane.server());
            explain(&plane);
            return Ok(ExitCode::SUCCESS);
        }
        eprintln!("real: stopping what is left of one without {}", missing.join(", "));
        plane.stop(clock, STOP_LIMIT).await?;
    }
    home.clear_running()?;
    let began = clock.now();
    let plane = RealControlPlane::builder(clock.clone(), binaries)
        .controller_manager(controller_manager)
        .directory(home.running())
        .start()
        .await?;
    let plane = plane.detach()?;
    let programs: Vec<_> = plane.programs().collect();
    let seconds = clock.now().duration_since(began).as_secs_f64();
    eprintln!("real: {} are ready at {} after {seconds:.1} s", programs.join(", "), plane.server());
    explain(&plane);
    Ok(ExitCode::SUCCESS)
}

async fn down(clock: &Clock, home: &Home) -> Result<ExitCode, RealError> {
    let _only_one = home.lock("running")?;
    let Some(plane) = DetachedControlPlane::load(home.running())? else {
        eprintln!("real: nothing is running");
        return Ok(ExitCode::SUCCESS);
    };
    let stopped = plane.stop(clock, STOP_LIMIT).await?;
    if !stopped.ended.is_empty() {
        eprintln!("real: stopped {}", stopped.ended.join(", "));
    }
    if !stopped.missing.is_empty() {
        eprintln!("real: ended before: {}", stopped.missing.join(", "));
    }
    home.clear_running()?;
    Ok(ExitCode::SUCCESS)
}

fn env(home: &Home) -> Result<ExitCode, RealError> {
    let plane = DetachedControlPlane::load(home.running())?.ok_or(RealError::NotRunning)?;
    let missing = plane.missing()?;
    if !missing.is_empty() {
        return Err(RealError::Missing(missing.join(", ")));
    }
    println!("export KUBECONFIG={}", quoted(&plane.kubeconfig().display().to_string()));
    Ok(ExitCode::SUCCESS)
}

fn explain(plane: &DetachedControlPlane) {
    println!("export KUBECONFIG={}", quoted(&plane.kubeconfig().display().to_string()));
    eprintln!("real: with this in your shell, try: kubectl get namespaces");
    eprintln!("real: logs are in {}; `cargo xtask real down` stops it", plane.directory().display());
}

/// One word for a shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_for_the_shell() {
        assert_eq!(quoted("/home/me/.cache/x"), "/home/me/.cache/x");
        assert_eq!(quoted("/home/my self/it's"), r"'/home/my self/it'\''s'");
    }
}
