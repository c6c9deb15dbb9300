//! The `sample-controller` program: flags, a manager, the operator, until a signal comes.

mod flags;

use bowline::prelude::*;
use sample_controller::{Foo, operator};

use crate::flags::Flags;

#[tokio::main]
async fn main() -> Result<()> {
    let args = bowline::args::<Flags>()
        .sample(include_str!("../samples/foo.yaml"))
        .hint(r#"kubectl patch foo example-foo --type merge -p '{"spec":{"replicas":3}}'"#)
        .hint("kubectl delete deployment example-foo");
    if args.own.crd {
        return print(&bowline::serde_json::to_string_pretty(&Foo::crd())?);
    }
    let manager = args.manager().await?;
    operator(&manager)?;
    Ok(manager.run().await?)
}

fn print(text: &str) -> Result<()> {
    Ok(std::io::Write::write_all(&mut std::io::stdout(), format!("{text}\n").as_bytes())?)
}
