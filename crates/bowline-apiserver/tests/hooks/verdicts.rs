//! Requests and frames that a hook refuses, skips or cuts.

use bowline_clock::Simulation;

use super::*;

#[tokio::test]
async fn what_is_refused_before_is_not_done() {
    let world = World::new();
    for (agent, method, path) in [
        ("fail before", Method::POST, MAPS),
        ("cut before", Method::POST, MAPS),
        ("fail before", Method::GET, "/healthz"),
        ("cut before", Method::GET, "/apis"),
        ("fail before", Method::PUT, PODS),
    ] {
        let answer = world.send(agent, None, method, path, &named("a")).await;
        let refused = answer.map(|(code, status)| (code, status["message"].clone()));
        let expected =
            if agent.starts_with("cut") { Err(Disconnected) } else { Ok((418, json!("the hook says no"))) };
        assert_eq!(refused, expected, "{agent} {path}");
        assert_eq!(world.moments(), ["before"]);
    }
    world.done(Method::GET, &format!("{MAPS}/a"), Value::Null, 404).await;
}

#[tokio::test]
async fn what_is_refused_when_committed_is_done_all_the_same() {
    let world = World::new();
    for (agent, name) in [("fail committed", "a"), ("cut committed", "b")] {
        let answer = world.send(agent, None, Method::POST, MAPS, &named(name)).await;
        let expected = if name == "b" { Err(Disconnected) } else { Ok(418) };
        assert_eq!(answer.map(|(code, _)| code), expected);
        assert_eq!(world.moments(), ["before", "committed"]);
        world.done(Method::GET, &format!("{MAPS}/{name}"), Value::Null, 200).await;
        // A hook has nothing to say about what was not written.
        let path = format!("{MAPS}/{name}");
        let read = world.send(agent, None, Method::GET, &path, &Value::Null).await;
        assert_eq!(read.map(|(code, _)| code), Ok(200));
        world.seen();
    }
}

#[tokio::test]
async fn the_verdict_on_what_was_committed_goes_before_the_error_that_follows() {
    let world = World::new();
    let first = world.done(Method::POST, MAPS, named("a"), 201).await;
    world.done(Method::POST, MAPS, named("b"), 201).await;
    let options = json!({"preconditions": {"uid": first["metadata"]["uid"]}});
    let answer = world.send("cut committed", None, Method::DELETE, MAPS, &options).await;
    assert_eq!(answer, Err(Disconnected));
}

/// The names that a watch tells of, and whether it ended in order.
async fn received(world: &World, names: &[&str]) -> (Vec<String>, Result<(), Disconnected>) {
    let revision = world.server.revision();
    for name in names {
        world.done(Method::POST, MAPS, named(name), 201).await;
    }
    let path = format!("{MAPS}?watch=true&timeoutSeconds=5&resourceVersion={revision}");
    let request = Request::get(path).body(Full::<Bytes>::default()).expect("a request can be made");
    let mut body = world.server.handle(request).await.expect("the watch begins").into_body();
    let mut names_seen = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return (names_seen, Err(Disconnected)) };
        let bytes = frame.into_data().expect("it has data");
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let event: Value = serde_json::from_slice(line).expect("it is an event");
            names_seen.push(event["object"]["metadata"]["name"].as_str().unwrap_or_default().to_owned());
        }
    }
    (names_seen, Ok(()))
}

#[test]
fn a_frame_can_be_lost_end_its_watch_or_cut_it() {
    for (verdict, expected, ends, seconds) in [
        ("send", &["a", "send", "z"][..], Ok(()), 5),
        ("skip", &["a", "z"], Ok(()), 5),
        ("close", &["a"], Ok(()), 0),
        ("cut", &["a"], Err(Disconnected), 0),
    ] {
        Simulation::new(0).run(async |clock| {
            let (world, start) = (World::on(clock.clone()), clock.now());
            let seen = received(&world, &["a", verdict, "z"]).await;
            assert_eq!(seen, (expected.iter().map(ToString::to_string).collect(), ends), "{verdict}");
            assert_eq!(clock.now().duration_since(start).as_secs(), seconds, "{verdict}");
            // All are written, whatever the watch received.
            let list = world.done(Method::GET, MAPS, Value::Null, 200).await;
            assert_eq!(list["items"].as_array().map(Vec::len), Some(3));
        });
    }
}

#[test]
fn a_hook_that_takes_its_time_delays_only_its_own_request() {
    for (moment, there_meanwhile) in [("before", 404), ("committed", 200)] {
        Simulation::new(0).run(async |clock| {
            let (world, start) = (World::on(clock.clone()), clock.now());
            let elapsed = || clock.now().duration_since(start).as_secs();
            let slow = async {
                let agent = format!("slow {moment}");
                let answer = world.send(&agent, None, Method::POST, MAPS, &named("a")).await;
                (answer.map(|(code, _)| code), elapsed())
            };
            let quick = async {
                clock.sleep(Duration::from_secs(1)).await;
                world.done(Method::GET, &format!("{MAPS}/a"), Value::Null, there_meanwhile).await;
                world.done(Method::POST, MAPS, named("b"), 201).await;
                elapsed()
            };
            assert_eq!(futures::join!(slow, quick), ((Ok(201), 10), 1), "{moment}");
        });
    }
}
