//! The subject `kube-rs`: its `Controller` with its defaults. For throughput, the number of concurrent reconciles is
//! set; by default there is no limit.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;

use futures::{Stream, StreamExt as _, stream};
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Api, Client};
use tokio::sync::mpsc;

use super::latency::{self, Entered};
use super::subject::Run;
use super::throughput::{self, Counter, TRIGGERS_AHEAD};
use crate::apiserver::load::Failure;
use crate::replay::widget::{self, Widget};
use crate::subject::Measured;

pub(super) async fn throughput(run: &Run) -> Result<Measured, Failure> {
    let counter = Arc::new(Counter::new(run));
    let (sender, receiver) = mpsc::channel(TRIGGERS_AHEAD);
    let config = Config::default().concurrency(u16::try_from(run.workers)?);
    let controller = controller(run)?.with_config(config).reconcile_on(received(receiver));
    // The controller looks up the object.
    let running = controller.run(
        async |_: Arc<Widget>, counter: Arc<Counter>| {
            counter.enter();
            Ok::<_, Infallible>(Action::await_change())
        },
        |_, _, _| Action::await_change(),
        counter.clone(),
    );
    run.scope.spawn("controller", running.for_each(|_| ready(())));
    let key =
        |number: usize| ObjectRef::<Widget>::new(&widget::name(number)).within(&widget::namespace(number));
    let keys: Vec<_> = (0..run.n).map(key).collect();
    let trigger = |number: usize| {
        let sent = sender.send(keys[number].clone());
        async { Ok(sent.await?) }
    };
    throughput::measure(run, &counter, trigger).await
}

pub(super) async fn latency(run: &Run) -> Result<Measured, Failure> {
    let entered = Arc::new(Entered::new(run));
    let running = controller(run)?.run(
        async |widget: Arc<Widget>, entered: Arc<Entered>| {
            entered.with(entered.now(), &widget);
            Ok::<_, Infallible>(Action::await_change())
        },
        |_, _, _| Action::await_change(),
        entered.clone(),
    );
    run.scope.spawn("controller", running.for_each(|_| ready(())));
    latency::measure(run, &entered).await
}

fn controller(run: &Run) -> Result<Controller<Widget>, Failure> {
    let client = Client::try_from(run.endpoint.config()?)?;
    Ok(Controller::new(Api::all(client), watcher::Config::default()))
}

fn received<T: Send + 'static>(receiver: mpsc::Receiver<T>) -> impl Stream<Item = T> + Send + 'static {
    stream::unfold(receiver, async |mut receiver| Some((receiver.recv().await?, receiver)))
}
