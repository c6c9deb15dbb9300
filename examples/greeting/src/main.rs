//! The operator of the README: a Greeting gets a `ConfigMap` with its text.

use bowline::k8s_openapi::api::core::v1::ConfigMap;
use bowline::prelude::*;

#[bowline::api]
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "demo.example.com", version = "v1", kind = "Greeting", namespaced, status = "GreetingStatus")]
struct GreetingSpec {
    name: String,
}

#[bowline::api]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
struct GreetingStatus {
    text: String,
}

/// Drives one Greeting's `ConfigMap` and status to the desired state.
async fn reconcile(ctx: Context, greeting: Arc<Greeting>) -> Result<Action> {
    let text = format!("Hello, {}!", greeting.spec.name);
    let set = |map: &mut ConfigMap| map.data = Some([("text".to_owned(), text.clone())].into());
    ctx.client().ensure(greeting.child::<ConfigMap>(greeting.name_any()), set).await?;
    ctx.client().update_status(&greeting, |status| status.text.clone_from(&text)).await?;
    Ok(Action::done())
}

fn operator(manager: &Manager) -> Result<()> {
    manager.crd::<Greeting>();
    manager.controller::<Greeting>().owns::<ConfigMap>().register(reconcile)?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let manager = bowline::args::<()>().manager().await?;
    operator(&manager)?;
    Ok(manager.run().await?)
}

#[cfg(test)]
mod tests {
    use bowline_testing::TestEnv;

    use super::*;

    #[bowline::test]
    async fn a_greeting_gets_a_config_map(env: TestEnv) -> Result<()> {
        env.start(operator).await?;
        env.client().create(&Greeting::new("hello", GreetingSpec { name: "world".to_owned() })).await?;
        let map = env.wait_for::<ConfigMap>("hello", |map| map.data.is_some()).await?;
        assert_eq!(map.data.as_ref().unwrap()["text"], "Hello, world!");
        Ok(())
    }
}
