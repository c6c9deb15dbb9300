//! The programs of the control plane, built once from their published Go modules into the cache.

use std::path::{Path, PathBuf};

use bowline_clock::Clock;
use bowline_testing::Binaries;
use serde::Deserialize;

use super::error::RealError;
use super::home::Home;
use super::{go, module};

/// A program, and how it is built.
struct Program {
    name: &'static str,
    version: &'static str,
    package: &'static str,
    /// The directory of the module it is built in.
    module: &'static str,
}

const PROGRAMS: [Program; 3] = [
    Program {
        name: Binaries::ETCD,
        version: module::ETCD,
        package: "go.etcd.io/etcd/server/v3",
        module: "etcd",
    },
    Program {
        name: Binaries::KUBE_APISERVER,
        version: module::KUBERNETES,
        package: "k8s.io/kubernetes/cmd/kube-apiserver",
        module: "kubernetes",
    },
    Program {
        name: Binaries::KUBE_CONTROLLER_MANAGER,
        version: module::KUBERNETES,
        package: "k8s.io/kubernetes/cmd/kube-controller-manager",
        module: "kubernetes",
    },
];

/// The programs, built if they are not there. A program that is there is complete: it is renamed to its name at the end.
pub(super) async fn binaries(clock: &Clock, home: &Home) -> Result<Binaries, RealError> {
    let directory = home.versions(&module::versions());
    let bin = directory.join("bin");
    if missing(&bin).next().is_some() {
        let _only_one = home.lock("build")?;
        build(clock, &directory, &bin).await?;
    }
    Ok(Binaries::in_directory(bin))
}

/// Those that another command has not built meanwhile.
fn missing(bin: &Path) -> impl Iterator<Item = &'static Program> {
    PROGRAMS.iter().filter(|program| !bin.join(program.name).exists())
}

async fn build(clock: &Clock, directory: &Path, bin: &Path) -> Result<(), RealError> {
    let programs: Vec<_> = missing(bin).collect();
    if programs.is_empty() {
        return Ok(());
    }
    let source = directory.join("source");
    let etcd = write_module(&source, "etcd", &module::etcd())?;
    go::check(&etcd).await?;
    eprintln!(
        "real: building {} into {}, once; it takes a few minutes and a module proxy",
        programs.iter().map(|program| program.name).collect::<Vec<_>>().join(", "),
        bin.display()
    );
    let kubernetes = write_kubernetes_module(&source).await?;
    std::fs::create_dir_all(bin).map_err(RealError::at(bin))?;
    for program in programs {
        let (module, flags) = match program.module {
            "etcd" => (&etcd, "-s -w".to_owned()),
            _ => (&kubernetes, module::kubernetes_linker_flags()),
        };
        let partial = bin.join(format!(".{}.partial", program.name));
        let output = partial.display().to_string();
        let what = format!("{} v{}", program.name, program.version);
        let arguments = ["-ldflags", &flags, "-o", &output, program.package];
        go::build(clock, module, &what, &arguments).await?;
        let path = bin.join(program.name);
        std::fs::rename(&partial, &path).map_err(RealError::at(&path))?;
    }
    Ok(())
}

/// Kubernetes's own `go.mod` says which modules have to be replaced.
async fn write_kubernetes_module(source: &Path) -> Result<PathBuf, RealError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Download {
        go_mod: PathBuf,
    }

    eprintln!("real: downloading k8s.io/kubernetes v{}", module::KUBERNETES);
    let directory = write_module(source, "kubernetes", &module::empty("kubernetes"))?;
    let wanted = format!("k8s.io/kubernetes@v{}", module::KUBERNETES);
    let arguments = ["mod", "download", "-json", &wanted];
    let told = go::output(&directory, &arguments).await?;
    let unexpected = |told| RealError::Unexpected { command: format!("go {}", arguments.join(" ")), told };
    let Ok(Download { go_mod }) = serde_json::from_str(&told) else { return Err(unexpected(told)) };
    let text = std::fs::read_to_string(&go_mod).map_err(RealError::at(&go_mod))?;
    let module = module::kubernetes(&text)
        .ok_or_else(|| unexpected(format!("{} replaces no staging module", go_mod.display())))?;
    write_module(source, "kubernetes", &module)
}

fn write_module(source: &Path, name: &str, go_mod: &str) -> Result<PathBuf, RealError> {
    let directory = source.join(name);
    std::fs::create_dir_all(&directory).map_err(RealError::at(&directory))?;
    let path = directory.join("go.mod");
    std::fs::write(&path, go_mod).map_err(RealError::at(&path))?;
    Ok(directory)
}
