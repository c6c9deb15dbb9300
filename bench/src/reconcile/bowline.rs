//! The subject `bowline`: our own controller with its defaults, except the number of workers. The only file of the
//! scenarios that uses it.

use std::convert::Infallible;
use std::sync::Arc;

use bowline_runtime::source::{self, FunctionSource, Sink};
use bowline_runtime::transport::{self, TransportOptions};
use bowline_runtime::{Action, Cluster, Context, ControllerBuilder, Request, Watch, handler};
use tokio::sync::{Mutex, mpsc};

use super::latency::{self, Entered};
use super::subject::Run;
use super::throughput::{self, Counter, TRIGGERS_AHEAD};
use crate::apiserver::load::Failure;
use crate::replay::widget::{self, Widget};
use crate::subject::Measured;

pub(super) async fn throughput(run: &Run) -> Result<Measured, Failure> {
    let cluster = cluster(run)?;
    let counter = Arc::new(Counter::new(run));
    let (sender, receiver) = mpsc::channel(TRIGGERS_AHEAD);
    let entered = counter.clone();
    // It is handed the object: its controller has looked it up.
    let controller = widgets(run, &cluster)
        .watches(Watch::new(received(receiver), handler::object()))
        .build(move |_: Context, _: Arc<Widget>| {
            entered.enter();
            std::future::ready(Ok::<_, Infallible>(Action::done()))
        })?;
    controller.start()?;
    let request = |number: usize| Request::new(&widget::namespace(number), &widget::name(number));
    let requests: Vec<_> = (0..run.n).map(request).collect();
    let trigger = |number: usize| {
        let sent = sender.send(requests[number].clone());
        async { Ok(sent.await?) }
    };
    throughput::measure(run, &counter, trigger).await
}

pub(super) async fn latency(run: &Run) -> Result<Measured, Failure> {
    let cluster = cluster(run)?;
    let entered = Arc::new(Entered::new(run));
    let recorder = entered.clone();
    let controller = widgets(run, &cluster).build(move |_: Context, widget: Arc<Widget>| {
        recorder.with(recorder.now(), &widget);
        std::future::ready(Ok::<_, Infallible>(Action::done()))
    })?;
    controller.start()?;
    latency::measure(run, &entered).await
}

fn cluster(run: &Run) -> Result<Cluster, Failure> {
    let client = transport::client(&run.endpoint.config()?, &TransportOptions::new(run.clock()))?;
    let cluster = Cluster::new(&run.scope.spawner(), client)?;
    cluster.start();
    Ok(cluster)
}

fn widgets(run: &Run, cluster: &Cluster) -> ControllerBuilder<Widget> {
    cluster.controller().concurrency(run.workers)
}

/// Triggers from outside: names of objects, as with kube-rs.
fn received(receiver: mpsc::Receiver<Request>) -> FunctionSource<Widget> {
    let receiver = Arc::new(Mutex::new(receiver));
    source::function("bench", move |mut sink: Sink<Widget>| {
        let receiver = receiver.clone();
        async move {
            let (mut receiver, mut taken) = (receiver.lock().await, Vec::new());
            while receiver.recv_many(&mut taken, TRIGGERS_AHEAD).await > 0 {
                sink.requests(taken.drain(..));
            }
        }
    })
}
