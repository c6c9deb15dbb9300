//! The `sample-controller` program: flags, a manager, the operator, until it is asked to end.

mod flags;
mod plane;

use bowline::prelude::*;
use sample_controller::{Foo, operator};

use crate::flags::Flags;
use crate::plane::Plane;

#[tokio::main]
async fn main() -> Result<()> {
    let mut args = bowline::args::<Flags>();
    if args.own.crd {
        return print(&serde_json::to_string_pretty(&Foo::crd())?);
    }
    // Without a cluster, on one of its own.
    let plane = if args.flags.names_cluster() { None } else { Some(Plane::start(&mut args).await?) };
    let manager = args.manager().await?;
    operator(&manager)?;
    if let Some(plane) = &plane {
        print(plane.greeting())?;
    }
    let outcome = manager.start().await;
    if let Some(plane) = plane {
        plane.stop().await;
    }
    Ok(outcome?)
}

fn print(text: &str) -> Result<()> {
    Ok(std::io::Write::write_all(&mut std::io::stdout(), format!("{text}\n").as_bytes())?)
}
