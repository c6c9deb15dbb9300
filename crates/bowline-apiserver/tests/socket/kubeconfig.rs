//! The files that a kubeconfig is written to.

use std::path::{Path, PathBuf};

use bowline_apiserver::ServeOptions;

use crate::plane::plane;

/// A directory of one test, removed at its end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("bowline-kubeconfig-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory can be made");
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn the_temporary_file_is_removed_when_the_kubeconfig_cannot_be_replaced() {
    let serving = plane(ServeOptions::default()).await;
    let directory = Directory::new("own");
    let path = directory.0.join("kubeconfig");
    std::fs::create_dir(&path).expect("a directory can be made");
    serving.kubeconfig().write(&path).expect_err("a directory is not replaced by a file");
    assert_eq!(std::fs::read_dir(&directory.0).expect("it is there").count(), 1);
}

#[tokio::test]
#[cfg(unix)]
async fn a_temporary_kubeconfig_is_in_a_private_directory_that_goes_with_it() {
    use std::os::unix::fs::PermissionsExt as _;

    let serving = plane(ServeOptions::default()).await;
    let write = || serving.kubeconfig().write_temporary("program").expect("there is a directory for it");
    let (temporary, second) = (write(), write());
    let directory = temporary.path().parent().expect("it is in a directory").to_owned();
    assert_ne!(Some(&*directory), second.path().parent(), "each has its own");
    let name = directory.file_name().and_then(|name| name.to_str()).expect("text");
    assert!(name.starts_with("program-"), "{name}");
    let mode = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode(&directory), mode(temporary.path())), (0o700, 0o600));
    let text = std::fs::read_to_string(temporary.path()).expect("it can be read");
    assert_eq!(text, serving.kubeconfig().to_yaml());
    drop(temporary);
    assert!(!directory.exists());
    assert!(second.path().exists());
}
