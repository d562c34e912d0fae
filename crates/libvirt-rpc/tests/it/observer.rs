//! Who is told of calls.

use std::sync::{Arc, Mutex};

use libvirt_rpc::{Ended, Observer, Options, fake::Daemon};

use crate::support::soon;

#[derive(Debug, Default)]
struct Heard {
    begun: Mutex<Vec<&'static str>>,
    ended: Mutex<Vec<(&'static str, &'static str)>>,
}

impl Observer for Heard {
    fn begins(&self, call: &'static str) {
        self.begun.lock().unwrap().push(call);
    }

    fn ended(&self, call: &Ended<'_>) {
        let how = match (call.dropped, call.error, call.queued) {
            (true, None, None) => "dropped",
            (false, Some(error), None) if error.is_not_found() => "refused",
            (false, None, Some(queued)) if queued <= call.took => "answered",
            other => panic!("{other:?}"),
        };
        self.ended.lock().unwrap().push((call.call, how));
    }
}

#[tokio::test]
async fn an_observer_hears_of_every_call_and_how_it_ended() {
    let heard = Arc::new(Heard::default());
    let options = Options::new().observer(Arc::clone(&heard) as Arc<dyn Observer>);
    let c = soon(Daemon::new().connect_with(options)).await.unwrap();
    // What the connection asked to get open.
    heard.begun.lock().unwrap().clear();
    heard.ended.lock().unwrap().clear();

    soon(c.hypervisor_type()).await.unwrap();
    soon(c.domain_lookup_by_name("nobody")).await.unwrap_err();
    tokio::select! {
        biased;
        answer = c.node_info() => panic!("answered before it was sent: {answer:?}"),
        () = std::future::ready(()) => {}
    }
    let calls = ["connect_get_type", "domain_lookup_by_name", "node_get_info"];
    assert_eq!(*heard.begun.lock().unwrap(), calls);
    let ends = ["answered", "refused", "dropped"];
    let ended: Vec<_> = calls.into_iter().zip(ends).collect();
    assert_eq!(*heard.ended.lock().unwrap(), ended);
}
