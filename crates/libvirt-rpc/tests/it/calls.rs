//! Calls: cancelled, late, lost, refused, many at once.

use std::{sync::Arc, time::Duration};

use libvirt_rpc::{
    Connection, Kind, Options, Reason,
    api::AgentTimeout,
    fake::{Daemon, Effect, ExecResult, Fault, Guest},
    wire::constant::{
        domain::{ConnectListAllDomainsFlags, DomainCreateFlags, DomainDefineFlags, DomainState, DomainXMLFlags},
        error::ErrorNumber,
    },
};

use crate::support::{define, soon};

#[tokio::test]
async fn a_domain_lives_its_life() {
    let daemon = Daemon::new();
    let connection = daemon.connect().await.unwrap();
    let domain = define(&connection, "web").await;
    assert_eq!(domain.id, -1);
    let domain = connection
        .domain_create(&domain, DomainCreateFlags::empty())
        .await
        .unwrap();
    assert!(domain.id > 0);
    assert_eq!(
        connection.domain_state(&domain).await.unwrap().state,
        DomainState::RUNNING
    );
    assert_eq!(connection.domain_info(&domain).await.unwrap().memory_kib, 128 << 10);
    let xml = connection.domain_xml(&domain, DomainXMLFlags::empty()).await.unwrap();
    assert!(
        xml.contains(&domain.uuid.to_string()) && xml.contains("state='connected'"),
        "{xml}"
    );
    assert_eq!(
        connection.domains(ConnectListAllDomainsFlags::ACTIVE).await.unwrap(),
        std::slice::from_ref(&domain)
    );
    connection.domain_destroy(&domain, Default::default()).await.unwrap();
    connection.domain_undefine(&domain, Default::default()).await.unwrap();
    let error = connection.domain_lookup_by_name("web").await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    assert_eq!(error.code(), Some(ErrorNumber::ERR_NO_DOMAIN));
}

/// Row 4: go-libvirt#105, #182. Row 5: go-libvirt#97.
#[tokio::test]
async fn a_call_without_answer_ends_at_its_deadline_and_its_late_answer_confuses_nobody() {
    let daemon = Daemon::new();
    let connection = daemon.connect().await.unwrap();
    daemon.inject(Fault::on("connect_get_hostname", Effect::Delay(Duration::from_millis(120))).times(1));
    let hasty = connection.with_deadline(Duration::from_millis(20));
    let error = soon(hasty.hostname()).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.maybe_executed()),
        (Kind::Deadline, true),
        "{error}"
    );
    for _ in 0..50 {
        assert_eq!(soon(connection.hypervisor_type()).await.unwrap(), "QEMU");
        assert_eq!(soon(connection.hostname()).await.unwrap(), "fake");
    }
}

#[tokio::test]
async fn dropping_a_call_leaves_the_connection_as_it_was() {
    let daemon = Daemon::new();
    let connection = daemon.connect().await.unwrap();
    daemon.set_latency(Duration::from_millis(5));
    for _ in 0..20 {
        let call = tokio::time::timeout(Duration::from_millis(1), connection.hostname());
        assert!(call.await.is_err());
    }
    daemon.set_latency(Duration::ZERO);
    assert_eq!(soon(connection.hypervisor_type()).await.unwrap(), "QEMU");
}

/// Row 27: shakenfist#3304, kubevirt#16276: five slow calls would stop the daemon from reading.
#[tokio::test]
async fn slow_calls_never_block_fast_ones() {
    let daemon = Daemon::new();
    let connection = daemon.connect().await.unwrap();
    daemon.inject(Fault::on("connect_get_capabilities", Effect::Silence));
    for _ in 0..20 {
        let slow = connection.clone();
        tokio::spawn(async move { slow.capabilities().await });
    }
    while daemon.calls("connect_get_capabilities") < 3 {
        tokio::task::yield_now().await;
    }
    for _ in 0..10 {
        assert_eq!(soon(connection.hostname()).await.unwrap(), "fake");
    }
    assert_eq!(
        daemon.calls("connect_get_capabilities"),
        3,
        "the rest waits on our side"
    );
    let error = connection
        .with_deadline(Duration::from_millis(20))
        .capabilities()
        .await
        .unwrap_err();
    assert!(!error.maybe_executed(), "{error}");
}

/// Row 6: go-libvirt#132, #133, #88, #120.
#[tokio::test]
async fn a_daemon_that_dies_fails_all_that_wait_and_says_what_was_sent() {
    let daemon = Daemon::new();
    let connection = daemon.connect().await.unwrap();
    daemon.inject(Fault::on("connect_get_capabilities", Effect::Silence));
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let connection = connection.clone();
            tokio::spawn(async move { connection.capabilities().await.unwrap_err() })
        })
        .collect();
    while daemon.calls("connect_get_capabilities") < 3 {
        tokio::task::yield_now().await;
    }
    daemon.restart();
    let mut sent = 0;
    for call in calls {
        let error = soon(call).await.unwrap();
        assert_eq!(error.kind(), Kind::Disconnected, "{error}");
        sent += usize::from(error.maybe_executed());
    }
    assert_eq!(sent, 3, "only what was written may have been executed");
    assert!(matches!(soon(connection.closed()).await, Reason::Eof));
    assert!(connection.is_closed());
    assert!(!connection.hostname().await.unwrap_err().maybe_executed());
}

#[tokio::test]
async fn a_cut_after_execution_is_told_from_one_before_a_call() {
    let daemon = Daemon::new();
    let connection = daemon.connect().await.unwrap();
    daemon.inject(Fault::on("domain_define_xml_flags", Effect::CutAfter));
    let error = connection
        .domain_define("<domain><name>x</name></domain>", DomainDefineFlags::empty())
        .await
        .unwrap_err();
    assert!(error.maybe_executed() && error.is_retryable());
    assert_eq!(daemon.domains(), ["x"]);
}

/// Row 19: vagrant-libvirt#716, webvirtcloud#230.
#[tokio::test]
async fn an_old_daemon_is_asked_the_old_way() {
    let daemon = Daemon::new();
    let connection = daemon.connect().await.unwrap();
    daemon.inject(Fault::on("domain_define_xml_flags", Effect::Unknown));
    daemon.inject(Fault::on("domain_create_with_flags", Effect::Unknown));
    let domain = define(&connection, "old").await;
    let domain = connection
        .domain_create(&domain, DomainCreateFlags::empty())
        .await
        .unwrap();
    assert!(domain.id > 0);
    let error = connection
        .domain_define("<domain/>", DomainDefineFlags::VALIDATE)
        .await
        .unwrap_err();
    assert!(error.is_unsupported(), "{error}");
}

#[tokio::test]
async fn the_agent_runs_commands_when_it_is_there() {
    let daemon = Daemon::new();
    daemon.set_guest(Guest::new().disable("guest-file-open").on_exec(|exec| ExecResult {
        exit: i32::from(exec.path != "/bin/true"),
        stdout: exec.args.join(" ").into_bytes(),
        ..ExecResult::default()
    }));
    let connection = daemon.connect().await.unwrap();
    let domain = define(&connection, "guest").await;
    let timeout = AgentTimeout::new(Duration::from_secs(1));
    let ask = |command: &'static str| connection.domain_agent_command(&domain, command, timeout);
    assert!(
        !ask(r#"{"execute":"guest-ping"}"#)
            .await
            .unwrap_err()
            .is_agent_unavailable(),
        "it is not running"
    );
    connection
        .domain_create(&domain, DomainCreateFlags::empty())
        .await
        .unwrap();
    assert_eq!(
        ask(r#"{"execute":"guest-ping"}"#).await.unwrap().unwrap(),
        r#"{"return":{}}"#
    );
    let started =
        ask(r#"{"execute":"guest-exec","arguments":{"path":"/bin/true","arg":["a","b"],"capture-output":true}}"#);
    assert_eq!(started.await.unwrap().unwrap(), r#"{"return":{"pid":1}}"#);
    let status = r#"{"execute":"guest-exec-status","arguments":{"pid":1}}"#;
    let done = ask(status).await.unwrap().unwrap();
    assert!(done.contains(r#""exitcode":0"#) && done.contains("YSBi"), "{done}");
    assert!(ask(status).await.is_err(), "the first answer is the last");
    let refused = ask(r#"{"execute":"guest-file-open","arguments":{"path":"/x"}}"#)
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("disabled"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_boots_has_no_agent_yet() {
    let daemon = Daemon::new();
    daemon.set_guest(Guest::new().boot_time(Duration::from_secs(30)));
    let connection = daemon.connect_with(Options::new().without_keepalive()).await.unwrap();
    let domain = define(&connection, "slow").await;
    connection
        .domain_create(&domain, DomainCreateFlags::empty())
        .await
        .unwrap();
    let ping = r#"{"execute":"guest-ping"}"#;
    let timeout = AgentTimeout::new(Duration::from_secs(1));
    assert!(
        connection
            .domain_agent_command(&domain, ping, timeout)
            .await
            .unwrap_err()
            .is_agent_unavailable()
    );
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::task::yield_now().await;
    connection.domain_agent_command(&domain, ping, timeout).await.unwrap();
}

#[tokio::test]
async fn a_host_without_memory_starts_nothing() {
    let daemon = Daemon::new();
    daemon.set_capacity(4, 200 << 10);
    let connection = daemon.connect().await.unwrap();
    let (first, second) = (define(&connection, "a").await, define(&connection, "b").await);
    connection
        .domain_create(&first, DomainCreateFlags::empty())
        .await
        .unwrap();
    let error = connection
        .domain_create(&second, DomainCreateFlags::empty())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("Cannot allocate memory"), "{error}");
    assert_eq!(connection.node_info().await.unwrap().model, "x86_64");
}

/// Row 29: kubevirt#1630, cloudstack#8437: nothing of ours has to be polled for the connection to live.
#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_dead_after_a_while_and_a_living_one_is_not() {
    let options = || Options::new().keepalive(Duration::from_secs(1), 3);
    let living = Daemon::new().connect_with(options()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!living.is_closed());

    let (near, far) = tokio::io::duplex(1 << 16);
    let opening = tokio::spawn(Connection::open_on(
        libvirt_rpc::transport::plain(near),
        "test:///default",
        options().deadline(None).connect_timeout(Duration::from_secs(3600)),
    ));
    let error = opening.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("silent"), "{error}");
    drop(far);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_tasks_share_a_connection() {
    let daemon = Daemon::new();
    let connection = Arc::new(daemon.connect().await.unwrap());
    let domain = define(&connection, "one").await;
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let (connection, domain) = (Arc::clone(&connection), domain.clone());
            tokio::spawn(async move {
                for _ in 0..50 {
                    assert_eq!(connection.domain_lookup_by_uuid(domain.uuid).await.unwrap(), domain);
                }
            })
        })
        .collect();
    for task in tasks {
        soon(task).await.unwrap();
    }
}
