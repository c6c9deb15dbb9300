//! The README shows this operator and its dependencies as they are.

const README: &str = include_str!("../../../README.md");

#[test]
fn the_readme_shows_the_whole_program() {
    // The README has its own introduction.
    let (_, program) =
        include_str!("../src/main.rs").split_once("\n\n").expect("a blank line after the introduction");
    assert!(README.contains(program), "copy examples/greeting/src/main.rs into README.md");
}

#[test]
fn the_readme_shows_the_features_and_dependencies() {
    for section in ["features", "dependencies", "dev-dependencies"] {
        let shown = keys(README, section);
        assert!(!shown.is_empty(), "README.md has no [{section}]");
        assert_eq!(shown, keys(include_str!("../Cargo.toml"), section), "[{section}]");
    }
}

/// The names in a section of a manifest.
fn keys<'a>(text: &'a str, section: &str) -> Vec<&'a str> {
    let heading = format!("[{section}]");
    let lines = text.lines().skip_while(|line| *line != heading).skip(1);
    let lines = lines
        .take_while(|line| !line.is_empty() && !line.starts_with("```"))
        .filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split([' ', '.', '=']).next()).collect()
}
