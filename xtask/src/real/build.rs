//! The programs of the control plane, built once into the cache from their published Go modules, whose checksums are
//! committed.

use std::path::{Path, PathBuf};

use bowline_clock::Clock;
use bowline_testing::Binaries;

use super::error::RealError;
use super::go::Go;
use super::home::Home;
use super::module::{self, Module};

/// A program, and how it is built.
struct Program {
    name: &'static str,
    version: &'static str,
    package: &'static str,
    /// The module that it is built in.
    module: &'static Module,
}

static PROGRAMS: [Program; 3] = [
    Program {
        name: Binaries::ETCD,
        version: module::ETCD,
        package: "go.etcd.io/etcd/server/v3",
        module: &module::ETCD_MODULE,
    },
    Program {
        name: Binaries::KUBE_APISERVER,
        version: module::KUBERNETES,
        package: "k8s.io/kubernetes/cmd/kube-apiserver",
        module: &module::KUBERNETES_MODULE,
    },
    Program {
        name: Binaries::KUBE_CONTROLLER_MANAGER,
        version: module::KUBERNETES,
        package: "k8s.io/kubernetes/cmd/kube-controller-manager",
        module: &module::KUBERNETES_MODULE,
    },
];

/// The programs, built if they are missing. An existing one is complete, since it gets its name at the end of the
/// build.
pub(super) async fn binaries(clock: &Clock, home: &Home) -> Result<Binaries, RealError> {
    let directory = home.versions(&module::versions());
    let bin = directory.join("bin");
    if missing(&bin).next().is_some() {
        let _only_one = home.lock("build")?;
        build(clock, &directory, &bin).await?;
    }
    Ok(Binaries::in_directory(bin))
}

/// The programs that no other command has built meanwhile.
fn missing(bin: &Path) -> impl Iterator<Item = &'static Program> {
    PROGRAMS.iter().filter(|program| !bin.join(program.name).exists())
}

async fn build(clock: &Clock, directory: &Path, bin: &Path) -> Result<(), RealError> {
    let programs: Vec<_> = missing(bin).collect();
    if programs.is_empty() {
        return Ok(());
    }
    let source = directory.join("source");
    let etcd = write_module(&source, &module::ETCD_MODULE)?;
    let kubernetes = write_module(&source, &module::KUBERNETES_MODULE)?;
    let go = Go::find(&etcd).await?;
    eprintln!(
        "real: building {} into {}, once; it takes a few minutes and a module proxy",
        programs.iter().map(|program| program.name).collect::<Vec<_>>().join(", "),
        bin.display()
    );
    std::fs::create_dir_all(bin).map_err(RealError::at(bin))?;
    for program in programs {
        let (module, flags) = match program.module.name {
            "etcd" => (&etcd, "-s -w".to_owned()),
            _ => (&kubernetes, module::kubernetes_linker_flags()),
        };
        let partial = bin.join(format!(".{}.partial", program.name));
        let output = partial.display().to_string();
        let what = format!("{} v{}", program.name, program.version);
        let arguments = ["-ldflags", &flags, "-o", &output, program.package];
        go.build(clock, module, &what, &arguments).await?;
        let path = bin.join(program.name);
        std::fs::rename(&partial, &path).map_err(RealError::at(&path))?;
    }
    Ok(())
}

/// Writes the committed module into the cache, so that the build depends on no checkout.
fn write_module(source: &Path, module: &Module) -> Result<PathBuf, RealError> {
    let directory = source.join(module.name);
    std::fs::create_dir_all(&directory).map_err(RealError::at(&directory))?;
    for (name, text) in [("go.mod", module.go_mod), ("go.sum", module.go_sum)] {
        let path = directory.join(name);
        std::fs::write(&path, text).map_err(RealError::at(&path))?;
    }
    Ok(directory)
}
