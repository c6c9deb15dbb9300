//! `bowline create api`: the files and lines of each kind of API, and what is in the way of them.

use crate::folder::Folder;
use crate::result_of;

#[test]
fn create_help_names_what_can_be_created() {
    insta::assert_snapshot!(result_of(&["create", "--help"]), @"
    exit code: 0
    --- stdout
    Add to a project

    Usage: bowline create <COMMAND>

    Commands:
      api   Add a kind and its controller to the project of the current folder
      help  Print this message or the help of the given subcommand(s)

    Options:
      -h, --help  Print help
    --- stderr
    ");
}

#[test]
fn create_api_help_has_examples() {
    insta::assert_snapshot!(result_of(&["create", "api", "--help"]), @"
    exit code: 0
    --- stdout
    Add a kind and its controller to the project of the current folder

    Usage: bowline create api [OPTIONS] --group <GROUP> --version <VERSION> --kind <KIND>

    Options:
          --group <GROUP>
              API group, without the domain of the project; or the group of a built-in kind: core, apps

          --version <VERSION>
              Version of the API: v1, v1alpha1

          --kind <KIND>
              Name of the kind, such as Game

          --plural <PLURAL>
              Plural, which names the resource in URLs [default: the kind in lower case with an English
              ending]

          --namespaced
              Objects are in namespaces. This is the default

          --cluster
              Objects are not in namespaces

          --controller
              Write a controller. This is the default, except for a further version of a kind

          --no-controller
              Write no controller

          --resource
              Write the types of the kind. This is the default

          --no-resource
              Write only a controller, for a kind that is built in or already in the project

          --controller-name <NAME>
              Name of the controller, for a further one of the same kind [default: the kind in lower
              case]

          --force
              Write files again that exist, and lose what was changed in them

      -h, --help
              Print help (see a summary with '-h')

    Examples:
      bowline create api --group games --version v1 --kind Game
          src/game.rs with the types, a controller and a test, a sample, and the lines in src/main.rs
      bowline create api --group games --version v2 --kind Game
          another version of the kind, which is served beside the stored one
      bowline create api --group apps --version v1 --kind Deployment --no-resource
          a controller of a built-in kind
      bowline create api --group games --version v1 --kind Game --no-resource --controller-name audit
          a second controller of a kind, in src/audit.rs

      Nothing is written if anything is in the way. Lines in files of yours are inserted; the rest of
      these files stays as it is.
    --- stderr
    ");
}

#[test]
fn a_kind_has_a_controller_a_test_and_a_sample() {
    let folder = Folder::with_project();
    insta::assert_snapshot!(folder.create("--group games --version v1 --kind Game"), @"
    exit code: 0
    --- stdout
    wrote src/game.rs
    wrote samples/games_v1_game.yaml
    changed src/main.rs

    Next: edit the spec, the status and `reconcile` in src/game.rs, then try
      cargo test
      cargo run -- --apply samples/games_v1_game.yaml
      bowline dev
    --- stderr
    ");
    insta::assert_snapshot!(folder.contents(&["games/src/game.rs", "games/samples/games_v1_game.yaml"]), @r#"
    === games/src/game.rs
    //! The kind Game (`games.example.com/v1`) and its controller.

    use bowline::prelude::*;

    /// Desired state of the kind Game.
    #[bowline::api]
    #[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
    #[serde(rename_all = "camelCase")]
    #[kube(
        group = "games.example.com",
        version = "v1",
        kind = "Game",
        namespaced,
        status = "GameStatus"
    )]
    pub struct GameSpec {
        /// Example field: replace it with your own.
        pub message: String,
    }

    /// Observed state of the kind Game.
    #[bowline::api]
    #[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
    #[serde(rename_all = "camelCase")]
    pub struct GameStatus {
        /// Generation of the spec that this status is about.
        pub observed_generation: Option<i64>,
        /// Example field: the message in capitals.
        pub echo: String,
    }

    /// Declares the kind, and adds its controller to the manager.
    pub fn register(manager: &Manager) -> Result<()> {
        manager.crd::<Game>();
        manager.controller::<Game>().register(reconcile)?;
        Ok(())
    }

    /// Drives one Game to the state that its spec describes. It is called after each change, and
    /// again after an error.
    async fn reconcile(ctx: Context, game: Arc<Game>) -> Result<Action> {
        let update = ctx.client().update_status(&game, |status| {
            status.observed_generation = game.metadata.generation;
            status.echo = game.spec.message.to_uppercase();
        });
        update.await?;
        Ok(Action::done())
    }

    #[cfg(test)]
    mod tests {
        use bowline_testing::TestEnv;

        use super::*;

        #[bowline::test]
        async fn the_status_follows_the_spec(env: TestEnv) -> Result<()> {
            env.start(register).await?;
            let spec = GameSpec {
                message: "hello".to_owned(),
            };
            env.client().create(&Game::new("example", spec)).await?;
            let has_status = |object: &Game| object.status.is_some();
            let object = env.wait_for("example", has_status).await?;
            let status = object.status.clone().unwrap_or_default();
            assert_eq!(status.observed_generation, object.metadata.generation);
            assert_eq!(status.echo, "HELLO");
            env.assert_no_failures();
            Ok(())
        }
    }
    === games/samples/games_v1_game.yaml
    apiVersion: games.example.com/v1
    kind: Game
    metadata:
      name: game-sample
    spec:
      message: hello
    "#);
    let main = folder.read("games/src/main.rs");
    let start = main.find("use bowline::prelude").unwrap();
    insta::assert_snapshot!(&main[start..main.find("#[tokio::main]").unwrap()], @"
    use bowline::prelude::*;

    mod game;

    /// Adds the controllers to the manager.
    fn operator(manager: &Manager) -> Result<()> {
        game::register(manager)?;
        Ok(())
    }
    ");
}

#[test]
fn a_second_version_is_served_and_not_stored() {
    let folder = Folder::with_project();
    folder.created("--group games --version v1 --kind ChessGame --cluster --plural chessmatches");
    insta::assert_snapshot!(folder.create("--group games --version v2 --kind ChessGame"), @"
    exit code: 0
    --- stdout
    wrote src/chess_game_v2.rs
    wrote samples/games_v2_chessgame.yaml
    changed src/main.rs

    Next: edit the spec, the status and `reconcile` in src/chess_game_v2.rs, then try
      cargo test
      cargo run -- --apply samples/games_v2_chessgame.yaml
      bowline dev
    --- stderr
    ");
    insta::assert_snapshot!(folder.contents(&["games/src/chess_game_v2.rs"]), @r#"
    === games/src/chess_game_v2.rs
    //! The kind ChessGame (`games.example.com/v2`).

    use bowline::prelude::*;

    /// Desired state of the kind ChessGame.
    #[bowline::api]
    #[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
    #[serde(rename_all = "camelCase")]
    #[kube(
        group = "games.example.com",
        version = "v2",
        kind = "ChessGame",
        plural = "chessmatches",
        storage = false,
        status = "ChessGameStatus"
    )]
    pub struct ChessGameSpec {
        /// Example field: replace it with your own.
        pub message: String,
    }

    /// Observed state of the kind ChessGame.
    #[bowline::api]
    #[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
    #[serde(rename_all = "camelCase")]
    pub struct ChessGameStatus {
        /// Generation of the spec that this status is about.
        pub observed_generation: Option<i64>,
        /// Example field: the message in capitals.
        pub echo: String,
    }

    /// Declares the kind.
    pub fn register(manager: &Manager) -> Result<()> {
        manager.crd::<ChessGame>();
        Ok(())
    }

    #[cfg(test)]
    mod tests {
        use bowline_testing::TestEnv;

        use super::*;

        #[bowline::test]
        async fn an_object_keeps_its_spec(env: TestEnv) -> Result<()> {
            env.start(crate::operator).await?;
            let spec = ChessGameSpec {
                message: "hello".to_owned(),
            };
            env.client()
                .create(&ChessGame::new("example", spec))
                .await?;
            let object = env.wait_for("example", |_: &ChessGame| true).await?;
            assert_eq!(object.spec.message, "hello");
            env.assert_no_failures();
            Ok(())
        }
    }
    "#);
}

#[test]
fn a_controller_of_a_built_in_kind_needs_no_types() {
    let folder = Folder::with_project();
    insta::assert_snapshot!(folder.create("--group apps --version v1 --kind Deployment --no-resource"), @"
    exit code: 0
    --- stdout
    wrote src/deployment.rs
    changed src/main.rs

    Next: edit `reconcile` in src/deployment.rs, then try
      cargo test
      cargo run
      bowline dev
    --- stderr
    ");
    insta::assert_snapshot!(folder.contents(&["games/src/deployment.rs"]), @r#"
    === games/src/deployment.rs
    //! A controller of the kind Deployment (`apps/v1`).

    use bowline::k8s_openapi::api::apps::v1::Deployment;
    use bowline::prelude::*;

    /// Adds the controller to the manager.
    pub fn register(manager: &Manager) -> Result<()> {
        manager.controller::<Deployment>().register(reconcile)?;
        Ok(())
    }

    /// Called with each Deployment after each change, and again after an error. `ctx.client()` reads and
    /// writes objects.
    async fn reconcile(_ctx: Context, _deployment: Arc<Deployment>) -> Result<Action> {
        Ok(Action::done())
    }

    #[cfg(test)]
    mod tests {
        use bowline::serde_json::{from_value, json};
        use bowline_testing::TestEnv;

        use super::*;

        #[bowline::test]
        async fn an_object_is_reconciled(env: TestEnv) -> Result<()> {
            env.start(register).await?;
            let object: Deployment = from_value(json!({
                "metadata": { "name": "example" },
                "spec": {
                    "selector": { "matchLabels": { "app": "example" } },
                    "template": {
                        "metadata": { "labels": { "app": "example" } },
                        "spec": { "containers": [{ "name": "main", "image": "example" }] }
                    }
                }
            }))?;
            env.client().create(&object).await?;
            let is_reconciled = async || !env.history().runs().is_empty();
            env.wait_until("a reconcile", is_reconciled).await?;
            env.assert_no_failures();
            Ok(())
        }
    }
    "#);
}

#[test]
fn a_second_controller_of_a_kind_has_a_name() {
    let folder = Folder::with_project();
    folder.created("--group games --version v1 --kind Game");
    let second = "--group games --version v1 --kind Game --no-resource";
    insta::assert_snapshot!(folder.create(second), @"
    exit code: 1
    --- stdout
    --- stderr
    error: there is a controller with the name `game` already (src/game.rs)
    hint: give the new one another name with `--controller-name`
    ");
    insta::assert_snapshot!(folder.create(&format!("{second} --controller-name audit-log")), @"
    exit code: 0
    --- stdout
    wrote src/audit_log.rs
    changed src/main.rs

    Next: edit `reconcile` in src/audit_log.rs, then try
      cargo test
      cargo run
      bowline dev
    --- stderr
    ");
    insta::assert_snapshot!(folder.contents(&["games/src/audit_log.rs"]), @r#"
    === games/src/audit_log.rs
    //! The controller `audit-log` of the kind Game (`games.example.com/v1`).

    use crate::game::Game;
    use bowline::prelude::*;

    /// Adds the controller to the manager.
    pub fn register(manager: &Manager) -> Result<()> {
        manager
            .controller::<Game>()
            .named("audit-log")
            .register(reconcile)?;
        Ok(())
    }

    /// Called with each Game after each change, and again after an error. `ctx.client()` reads and
    /// writes objects.
    async fn reconcile(_ctx: Context, _game: Arc<Game>) -> Result<Action> {
        Ok(Action::done())
    }

    #[cfg(test)]
    mod tests {
        use bowline_testing::TestEnv;

        use super::*;

        #[bowline::test]
        async fn the_controller_starts(env: TestEnv) -> Result<()> {
            env.install::<Game>().await?.start(register).await?;
            env.assert_no_failures();
            Ok(())
        }
    }
    "#);
    assert!(
        folder
            .read("games/src/main.rs")
            .contains("    game::register(manager)?;\n    audit_log::register(manager)?;\n")
    );
}

#[test]
fn the_same_kind_of_another_group_gets_names_of_its_own() {
    let folder = Folder::with_project();
    folder.created("--group games --version v1 --kind Game");
    folder.created("--group chess --version v1 --kind Game");
    folder.created("--group chess --version v2 --kind Game");
    let text = folder.read("games/src/game_chess.rs");
    assert!(text.contains(".named(\"chess-game\")") && text.contains("\"chess.example.com\""), "{text}");
    let second = folder.read("games/src/game_chess_v2.rs");
    assert!(second.contains("storage = false") && !second.contains("reconcile"), "{second}");
}

#[test]
fn a_kind_whose_module_would_be_a_keyword_gets_another_one() {
    let folder = Folder::with_project();
    for kind in ["Type", "Main", "Core", "Tests"] {
        folder.created(&format!("--group games --version v1 --kind {kind}"));
    }
    let main = folder.read("games/src/main.rs");
    assert!(main.contains("mod core_kind;\nmod main_kind;\nmod tests_kind;\nmod type_kind;\n"), "{main}");
    assert!(folder.read("games/src/type_kind.rs").contains("reconcile(ctx: Context, object: Arc<Type>)"));
}

#[test]
fn a_kind_without_a_controller_can_get_one_later() {
    let folder = Folder::with_project();
    folder.created("--group games --version v1 --kind Game --no-controller");
    assert!(!folder.read("games/src/game.rs").contains("reconcile"));
    folder.created("--group games --version v1 --kind Game --no-resource");
    let text = folder.read("games/src/game_controller.rs");
    assert!(text.contains("use crate::game::Game;") && !text.contains(".named("), "{text}");
}

#[test]
fn twice_is_an_error_that_changes_nothing() {
    let folder = Folder::with_project();
    let apis = [
        "--group games --version v1 --kind At",
        "--group games --version v2 --kind At",
        "--group core --version v1 --kind Pod --no-resource",
        "--group games --version v1 --kind At --no-resource --controller-name audit",
    ];
    for api in apis {
        folder.created(api);
    }
    let before = folder.tree();
    let results = apis.map(|api| folder.create(api));
    assert!(results.iter().all(|result| result.starts_with("exit code: 1\n--- stdout\n--- stderr\n")));
    let messages: Vec<_> = results.iter().flat_map(|result| result.lines().skip(3)).collect();
    insta::assert_snapshot!(messages.join("\n"), @"
    error: `at.games.example.com` v1 exists already (src/at.rs)
    hint: use `--force` to write it again
    error: `at.games.example.com` v2 exists already (src/at_v2.rs)
    hint: use `--force` to write it again
    error: there is a controller with the name `pod` already (src/pod.rs)
    hint: use `--force` to write it again, or give the new one a name with `--controller-name`
    error: there is a controller with the name `audit` already (src/audit.rs)
    hint: use `--force` to write it again, or give the new one a name with `--controller-name`
    ");
    folder.assert_unchanged(&before);
}

#[test]
fn force_writes_the_files_again_and_leaves_the_lines() {
    let folder = Folder::with_project();
    let apis = [
        "--group games --version v1 --kind Game --controller-name player",
        "--group games --version v2 --kind Game",
        "--group core --version v1 --kind Pod --no-resource",
    ];
    for api in apis {
        folder.created(api);
    }
    let before = folder.tree();
    for file in ["src/game.rs", "src/game_v2.rs", "src/pod.rs", "samples/games_v1_game.yaml"] {
        let file = format!("games/{file}");
        folder.write(&file, &folder.read(&file).replace("hello", "mine").replace("Ok(", "Ok ("));
    }
    assert_ne!(folder.tree(), before);
    for api in apis {
        folder.created(&format!("{api} --force"));
    }
    folder.assert_unchanged(&before);
}

#[test]
fn edits_and_comments_of_the_user_stay() {
    let folder = Folder::with_project();
    let main = "#!/usr/bin/env -S cargo run\r\n//! Mine: \"ü\".\r\n#![allow(dead_code)]\r\nuse bowline::prelude::*; // all\r\n\r\n\
                /* mod x; */ mod  helpers  ; // mine\r\n\r\n\
                pub ( crate )  fn operator(\r\n\tm: &Manager, // the manager\r\n) -> Result < () >\r\n{\r\n\
                \tlet text = \"// Ok(())\"; /* odd */\r\n\r\n\t// The end.\r\n\tOk(()) // done\r\n}\r\n\r\nfn main() {}";
    folder.write("games/src/main.rs", main);
    folder.write("games/src/helpers.rs", "");
    folder.created("--group games --version v1 --kind Game");
    let expected = main
        .replace("mod  helpers  ;", "mod game;\r\nmod  helpers  ;")
        .replace("\tOk(()) // done", "\tgame::register(m)?;\r\n\tOk(()) // done");
    assert_eq!(folder.read("games/src/main.rs"), expected);
}

#[test]
fn the_operator_may_be_in_another_file() {
    let folder = Folder::with_project();
    let main = folder.read("games/src/main.rs");
    let (start, end) = (main.find("/// Adds").unwrap(), main.find("#[tokio::main]").unwrap());
    folder.write(
        "games/src/setup.rs",
        &format!(
            "use bowline::prelude::*;\n\npub {}",
            main[start..end].replace("/// Adds the controllers to the manager.\n", "")
        ),
    );
    folder.write(
        "games/src/main.rs",
        &(main[..start].to_owned() + "mod setup;\nuse setup::operator;\n\n" + &main[end..]),
    );
    insta::assert_snapshot!(folder.create("--group games --version v1 --kind Game"), @"
    exit code: 0
    --- stdout
    wrote src/game.rs
    wrote samples/games_v1_game.yaml
    changed src/main.rs
    changed src/setup.rs

    Next: edit the spec, the status and `reconcile` in src/game.rs, then try
      cargo test
      cargo run -- --apply samples/games_v1_game.yaml
      bowline dev
    --- stderr
    ");
    insta::assert_snapshot!(folder.read("games/src/setup.rs"), @"
    use bowline::prelude::*;

    pub fn operator(manager: &Manager) -> Result<()> {
        crate::game::register(manager)?;
        Ok(())
    }
    ");
}

#[test]
fn lines_without_a_place_are_printed() {
    let folder = Folder::with_project();
    folder.write("games/src/main.rs", "use bowline::prelude::*;\n\nfn main() {}\n");
    insta::assert_snapshot!(folder.create("--group games --version v1 --kind Game"), @"
    exit code: 0
    --- stdout
    wrote src/game.rs
    wrote samples/games_v1_game.yaml
    changed src/main.rs

    Next: edit the spec, the status and `reconcile` in src/game.rs, then try
      cargo test
      cargo run -- --apply samples/games_v1_game.yaml
      bowline dev
    --- stderr
    note: add these lines to make it part of the operator:
      where controllers are registered: there is no `fn operator(manager: &Manager) -> Result<()>` in src:
        game::register(manager)?;
    ");
    assert_eq!(folder.read("games/src/main.rs"), "use bowline::prelude::*;\n\nmod game;\n\nfn main() {}\n");

    let broken = "fn main() {\n    let x = ;\n}\n";
    folder.write("games/src/main.rs", broken);
    insta::assert_snapshot!(folder.create("--group games --version v1 --kind Board"), @"
    exit code: 0
    --- stdout
    wrote src/board.rs
    wrote samples/games_v1_board.yaml

    Next: edit the spec, the status and `reconcile` in src/board.rs, then try
      cargo test
      cargo run -- --apply samples/games_v1_board.yaml
      bowline dev
    --- stderr
    note: add these lines to make it part of the operator:
      to src/main.rs, which is not valid Rust (line 2: expected an expression):
        mod board;
      to the function in src/main.rs that registers controllers:
        board::register(manager)?;
    ");
    assert_eq!(folder.read("games/src/main.rs"), broken);
    assert!(folder.path("games/src/board.rs").exists());
}

#[test]
fn outside_of_a_project_there_is_a_hint() {
    let folder = Folder::new();
    let arguments = ["create", "api", "--group", "games", "--version", "v1", "--kind", "Game"];
    insta::assert_snapshot!(folder.run(".", &arguments), @"
    exit code: 1
    --- stdout
    --- stderr
    error: there is no `bowline.toml` in [FOLDER] or in a folder above it
    hint: change into the folder of a project, or make one with `bowline init`
    ");
    assert!(folder.tree().is_empty());
}

#[test]
fn a_project_is_found_from_a_folder_below() {
    let folder = Folder::with_project();
    folder.succeed("games/src", &["create", "api", "--group", "games", "--version", "v1", "--kind", "Game"]);
    assert!(folder.path("games/src/game.rs").exists());
}

#[test]
fn a_project_file_that_is_not_valid_is_named() {
    let folder = Folder::with_project();
    folder.write("games/bowline.toml", "[operator]\nname = \"games\"\ndomain = 3\n");
    insta::assert_snapshot!(folder.create("--group games --version v1 --kind Game"), @"
    exit code: 1
    --- stdout
    --- stderr
    error: [FOLDER]/games/bowline.toml is not valid: line 3: invalid type: integer `3`, expected a string
    ");
}

#[test]
fn bad_names_are_usage_errors_that_say_the_rule() {
    let folder = Folder::with_project();
    let before = folder.tree();
    let results = [
        "--version v1 --kind Game",
        "--group Games --version v1 --kind Game",
        "--group games --version 1 --kind Game",
        "--group games --version v1 --kind game",
        "--group games --version v1 --kind Result",
        "--group games --version v1 --kind Game --plural Games",
        "--group games --version v1 --kind Game --controller-name a/b",
        "--group games --version v1 --kind Game --no-resource --no-controller",
        "--group games --version v1 --kind Game --no-resource --cluster",
        "--group games --version v1 --kind Game --namespaced --cluster",
    ]
    .map(|arguments| folder.create(arguments));
    assert!(results.iter().all(|result| result.starts_with("exit code: 2\n--- stdout\n--- stderr\n")));
    let messages: Vec<_> = results.iter().filter_map(|result| result.lines().nth(3)).collect();
    insta::assert_snapshot!(messages.join("\n"), @"
    error: the following required arguments were not provided:
    error: invalid value 'Games' for '--group <GROUP>': use lower-case letters, digits and '-', in parts with dots between them, at most 253 characters: example.com
    error: invalid value '1' for '--version <VERSION>': a version is `v` and a number, then `alpha` or `beta` and a number if it is not stable: v1, v1alpha1, v2beta3
    error: invalid value 'game' for '--kind <KIND>': a kind begins with a capital letter and has only letters and digits: Game, ChessGame
    error: invalid value 'Result' for '--kind <KIND>': the file of the kind needs this name for another type: choose a more special one
    error: invalid value 'Games' for '--plural <PLURAL>': use lower-case letters, digits and '-', a letter first, at most 63 characters: chess-games
    error: invalid value 'a/b' for '--controller-name <NAME>': use lower-case letters, digits and '-', a letter first, at most 63 characters: chess-games
    error: the argument '--no-resource' cannot be used with '--no-controller'
    error: the argument '--no-resource' cannot be used with '--cluster'
    error: the argument '--namespaced' cannot be used with '--cluster'
    ");
    folder.assert_unchanged(&before);
}

#[test]
fn what_does_not_fit_the_project_is_an_error_that_changes_nothing() {
    let folder = Folder::with_project();
    folder.created("--group games --version v1 --kind Game --cluster");
    folder.write("games/src/chess.rs", "// mine\n");
    folder.write(
        "games/src/secret.rs",
        "#[kube(group = \"games.example.com\", version = \"v1\", kind = \"Hidden\")]\nstruct HiddenSpec;\n",
    );
    let before = folder.tree();
    let results = [
        "--group games --version v1 --kind Chess",
        "--group games --version v1 --kind Chess --force",
        "--group games --version v2 --kind Game --namespaced",
        "--group games --version v2 --kind Game --plural matches",
        "--group games --version v2 --kind Game --controller",
        "--group games --version v1 --kind Play --plural games",
        "--group apps --version v2 --kind Deployment --no-resource",
        "--group games --version v2 --kind Game --no-resource",
        "--group games --version v1 --kind Nothing --no-resource",
        "--group core --version v1 --kind Binding --no-resource",
        "--group games --version v1 --kind Hidden --no-resource",
    ]
    .map(|arguments| folder.create(arguments));
    assert!(
        results.iter().all(|result| result.starts_with("exit code: 1\n--- stdout\n--- stderr\n")),
        "{results:?}"
    );
    let messages: Vec<_> = results.iter().flat_map(|result| result.lines().skip(3)).collect();
    insta::assert_snapshot!(messages.join("\n"), @"
    error: src/chess.rs exists already
    hint: give it another name, or move it away
    error: src/chess.rs exists already
    hint: give it another name, or move it away
    error: Game v1 (src/game.rs) has the scope `cluster`, and all versions have the same
    hint: leave out the option for the scope
    error: Game v1 (src/game.rs) has the plural `games`, and all versions have the same
    hint: leave out the option for the plural
    error: there is a controller with the name `game` already (src/game.rs)
    hint: give the new one another name with `--controller-name`
    error: the kind Game (src/game.rs) has the plural `games` already
    hint: choose another one with `--plural`
    error: there is no kind Deployment in `apps.example.com/v2` of this project, and none is built in as `apps/v2`
    hint: there is one in `apps/v1`
    error: there is no kind Game in `games.example.com/v2` of this project, and none is built in as `games/v2`
    hint: there is one in `games.example.com/v1`
    error: there is no kind Nothing in `games.example.com/v1` of this project, and none is built in as `games/v1`
    hint: leave out `--no-resource` to create the kind
    error: the API server cannot watch the kind Binding, so it cannot have a controller
    error: the kind Hidden is private in src/secret.rs
    hint: write `pub struct` for the spec of Hidden
    ");
    folder.assert_unchanged(&before);
}

#[test]
fn a_built_in_kind_that_is_created_anew_is_noted() {
    let folder = Folder::with_project();
    let result = folder.create("--group apps --version v1 --kind Deployment");
    let (_, notes) = result.split_once("--- stderr\n").unwrap();
    insta::assert_snapshot!(notes, @"note: Deployment of `apps/v1` is built in: use `--no-resource` for a controller of that kind");
}

#[test]
fn a_file_where_a_folder_is_needed_leaves_nothing() {
    let folder = Folder::with_project();
    folder.write("games/samples", "mine");
    let before = folder.tree();
    insta::assert_snapshot!(folder.create("--group games --version v1 --kind Game"), @"
    exit code: 1
    --- stdout
    --- stderr
    error: cannot write [FOLDER]/games/samples/games_v1_game.yaml: Not a directory (os error 20); nothing was changed
    ");
    folder.assert_unchanged(&before);
}

#[test]
#[cfg(unix)]
fn a_read_only_file_or_folder_leaves_nothing() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::with_project();
    let before = folder.tree();
    let set_mode = |path: &str, mode: u32| {
        std::fs::set_permissions(folder.path(path), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode("games/src/main.rs", 0o444);
    insta::assert_snapshot!(folder.create("--group games --version v1 --kind Game"), @"
    exit code: 1
    --- stdout
    --- stderr
    error: cannot write [FOLDER]/games/src/main.rs: the file is read-only; nothing was changed
    hint: check who may write there
    ");
    set_mode("games/src/main.rs", 0o644);
    folder.assert_unchanged(&before);
    set_mode("games/src", 0o555);
    if std::fs::write(folder.path("games/src/probe"), "").is_ok() {
        println!("skipped: this user can write to a read-only folder");
        return;
    }
    let result = folder.create("--group games --version v1 --kind Game");
    set_mode("games/src", 0o755);
    assert!(result.contains("Permission denied") && result.contains("hint: check who may write"), "{result}");
    folder.assert_unchanged(&before);
}
