//! The Go modules that the programs are built in. Owns the pinned versions, and the text of the `go.mod` files.

use super::go::GoVersion;

/// The newest 1.36 that the module proxy serves with a checksum.
pub(super) const KUBERNETES: &str = "1.36.4";
pub(super) const ETCD: &str = "3.6.16";

/// What both ask for in their `go.mod`.
pub(super) const GO: GoVersion = GoVersion::new(1, 26);

/// The modules that Kubernetes is developed with in one repository are published as `v0.MINOR.PATCH`.
fn staging_version() -> String {
    KUBERNETES.replacen("1.", "v0.", 1)
}

/// A name for the versions, as a directory.
pub(super) fn versions() -> String {
    format!("kubernetes-v{KUBERNETES}_etcd-v{ETCD}")
}

/// A module that needs nothing, for commands that must run in one.
pub(super) fn empty(name: &str) -> String {
    format!("module bowline.invalid/real/{name}\n\ngo {GO}.0\n")
}

pub(super) fn etcd() -> String {
    format!("{}\nrequire go.etcd.io/etcd/server/v3 v{ETCD}\n", empty("etcd"))
}

/// A module that needs Kubernetes. In Kubernetes's own `go.mod` the staging modules are directories beside it; outside
/// its repository that does not count, so here each is the published one. `None` if that `go.mod` has no such modules.
pub(super) fn kubernetes(go_mod: &str) -> Option<String> {
    let version = staging_version();
    let replaced = go_mod.lines().filter_map(|line| {
        let (module, directory) = line.split_once("=>")?;
        let module = module.trim().trim_start_matches("replace ").trim();
        let is_staging = directory.trim().starts_with("./staging/");
        is_staging.then(|| format!("\t{module} => {module} {version}\n"))
    });
    let replaced: String = replaced.collect();
    let module = empty("kubernetes");
    (!replaced.is_empty())
        .then(|| format!("{module}\nrequire k8s.io/kubernetes v{KUBERNETES}\n\nreplace (\n{replaced})\n"))
}

/// The linker's flags: no symbols, and the version that `/version` tells. Kubernetes's own build takes the rest of it
/// from git.
pub(super) fn kubernetes_linker_flags() -> String {
    let (minor, _) = KUBERNETES["1.".len()..].split_once('.').unwrap_or_default();
    let variables = |package| {
        [
            format!("-X={package}.gitVersion=v{KUBERNETES}"),
            format!("-X={package}.gitMajor=1"),
            format!("-X={package}.gitMinor={minor}"),
            format!("-X={package}.gitCommit="),
            format!("-X={package}.gitTreeState=archive"),
        ]
        .join(" ")
    };
    format!(
        "-s -w {} {}",
        variables("k8s.io/component-base/version"),
        variables("k8s.io/client-go/pkg/version")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staging_modules_become_published_ones() {
        let go_mod = "module k8s.io/kubernetes\n\nrequire k8s.io/api v0.0.0\n\nreplace (\n\
                      \tk8s.io/api => ./staging/src/k8s.io/api\n\
                      \texample.com/other => example.com/fork v1.0.0\n)\n\
                      replace k8s.io/client-go => ./staging/src/k8s.io/client-go\n";
        let module = kubernetes(go_mod).unwrap();
        let staging = staging_version();
        assert!(staging.starts_with("v0.36."), "{staging}");
        let expected = format!(
            "module bowline.invalid/real/kubernetes\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v{KUBERNETES}\n\n\
             replace (\n\tk8s.io/api => k8s.io/api {staging}\n\tk8s.io/client-go => k8s.io/client-go {staging}\n)\n"
        );
        assert_eq!(module, expected);
    }

    #[test]
    fn a_kubernetes_without_staging_modules_is_not_understood() {
        assert_eq!(kubernetes("module k8s.io/kubernetes\n"), None);
    }

    #[test]
    fn the_version_is_told() {
        let flags = kubernetes_linker_flags();
        assert!(flags.starts_with("-s -w -X="), "{flags}");
        assert!(flags.contains("k8s.io/component-base/version.gitMinor=36 "), "{flags}");
    }
}
