//! The subject `bowline`: our own controller with default settings, but for how many reconciles there are at once. The
//! only file of the scenarios that knows it.

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::Arc;

use bowline_runtime::transport::{self, TransportOptions};
use bowline_runtime::{Action, Cluster, Context, ControllerBuilder, Watch, handler, source};
use kube::core::{ObjectMeta, PartialObjectMeta, PartialObjectMetaExt as _};

use super::latency::{self, Entered};
use super::subject::Run;
use super::throughput::{self, Counter};
use crate::apiserver::load::Failure;
use crate::replay::widget::{self, Widget};
use crate::subject::Measured;

pub(super) async fn throughput(run: &Run) -> Result<Measured, Failure> {
    let cluster = cluster(run)?;
    let counter = Arc::new(Counter::new(run));
    let (sender, triggers) = source::channel("bench");
    let entered = counter.clone();
    // It is handed the object: its controller has looked it up.
    let controller = widgets(run, &cluster)?.watches(Watch::new(triggers, handler::object())).build(
        move |_: Context, _: Arc<Widget>| {
            entered.enter();
            std::future::ready(Ok::<_, Infallible>(Action::done()))
        },
    )?;
    controller.start()?;
    let objects: Vec<_> = (0..run.n).map(named).collect();
    let trigger = |number: usize| {
        let sent = sender.send(objects[number].clone());
        async { Ok(sent.await?) }
    };
    throughput::measure(run, &counter, trigger).await
}

pub(super) async fn latency(run: &Run) -> Result<Measured, Failure> {
    let cluster = cluster(run)?;
    let entered = Arc::new(Entered::new(run));
    let told = entered.clone();
    let controller = widgets(run, &cluster)?.build(move |_: Context, widget: Arc<Widget>| {
        told.with(told.now(), &widget);
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

fn widgets(run: &Run, cluster: &Cluster) -> Result<ControllerBuilder<Widget>, Failure> {
    let workers = NonZeroUsize::new(run.workers).ok_or("there are no workers")?;
    Ok(cluster.controller().concurrency(workers))
}

/// What is known of the widget with this number: what it is called.
fn named(number: usize) -> PartialObjectMeta<Widget> {
    let metadata = ObjectMeta {
        name: Some(widget::name(number)),
        namespace: Some(widget::namespace(number)),
        ..ObjectMeta::default()
    };
    PartialObjectMeta { types: None, ..metadata.into_response_partial() }
}
