//! The Go modules that the programs are built in. Owns the pinned versions; the modules themselves are in `xtask/real`.

use super::go::GoVersion;

/// The newest 1.36 that the module proxy serves with a checksum.
pub(super) const KUBERNETES: &str = "1.36.4";
pub(super) const ETCD: &str = "3.6.16";

/// Go version that both require in their `go.mod`.
pub(super) const GO: GoVersion = GoVersion::new(1, 26);

/// The versions as the name of a directory.
pub(super) fn versions() -> String {
    format!("kubernetes-v{KUBERNETES}_etcd-v{ETCD}")
}

/// A Go module for the build: its requirements, and the checksums of all modules.
pub(super) struct Module {
    pub(super) name: &'static str,
    pub(super) go_mod: &'static str,
    pub(super) go_sum: &'static str,
}

pub(super) const ETCD_MODULE: Module = Module {
    name: "etcd",
    go_mod: include_str!("../../real/etcd/go.mod"),
    go_sum: include_str!("../../real/etcd/go.sum"),
};

pub(super) const KUBERNETES_MODULE: Module = Module {
    name: "kubernetes",
    go_mod: include_str!("../../real/kubernetes/go.mod"),
    go_sum: include_str!("../../real/kubernetes/go.sum"),
};

/// The linker's flags: no symbols, and the version in `/version`. Kubernetes's own build takes further values from git.
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

    /// The version that a `go.mod` requires of a module.
    fn required<'a>(module: &'a Module, path: &str) -> Option<&'a str> {
        module.go_mod.lines().find_map(|line| {
            let line = line.trim().trim_start_matches("require ");
            line.strip_prefix(path)?.strip_prefix(' ')?.split(' ').next()
        })
    }

    #[test]
    fn the_committed_modules_require_the_pinned_versions() {
        assert_eq!(required(&ETCD_MODULE, "go.etcd.io/etcd/server/v3"), Some(&*format!("v{ETCD}")));
        assert_eq!(required(&KUBERNETES_MODULE, "k8s.io/kubernetes"), Some(&*format!("v{KUBERNETES}")));
        for module in [ETCD_MODULE, KUBERNETES_MODULE] {
            assert!(module.go_mod.contains(&format!("\ngo {GO}.0\n")), "{}", module.name);
        }
    }

    #[test]
    fn the_committed_checksums_cover_the_programs() {
        let covers = |module: &Module, path: &str, version: &str| {
            module.go_sum.contains(&format!("{path} v{version} h1:"))
                && module.go_sum.contains(&format!("{path} v{version}/go.mod h1:"))
        };
        assert!(covers(&ETCD_MODULE, "go.etcd.io/etcd/server/v3", ETCD));
        assert!(covers(&KUBERNETES_MODULE, "k8s.io/kubernetes", KUBERNETES));
    }

    /// Kubernetes publishes the modules that it develops in one repository as `v0.MINOR.PATCH`.
    #[test]
    fn staging_modules_are_replaced_by_their_published_version() {
        let staging = KUBERNETES.replacen("1.", "v0.", 1);
        let replaced = KUBERNETES_MODULE.go_mod.lines().filter_map(|line| line.split_once(" => "));
        let replaced: Vec<_> = replaced.collect();
        assert!(replaced.len() > 20, "{replaced:?}");
        for (module, by) in replaced {
            assert_eq!(by, format!("{} {staging}", module.trim()));
        }
    }

    #[test]
    fn the_version_is_told() {
        let flags = kubernetes_linker_flags();
        assert!(flags.starts_with("-s -w -X="), "{flags}");
        assert!(flags.contains("k8s.io/component-base/version.gitMinor=36 "), "{flags}");
    }
}
