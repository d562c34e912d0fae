use providerkit_runtime::config::Error;

use super::*;
use crate::config::{Fake, Settings, Substrate};

fn parsed(arguments: &[&str]) -> Result<Invocation, clap::Error> {
    let all = ["libvirt-provider"].iter().chain(arguments);
    parse(all.map(OsString::from), "1.2.3")
}

fn settings(arguments: &[&str]) -> Result<Settings, Error> {
    parsed(arguments).unwrap().load("T", []).finish(Settings::parse)
}

fn fake(settings: &Settings) -> Option<Fake> {
    match &settings.substrate {
        Substrate::Fake(plan) => Some(plan.fake),
        Substrate::Libvirt(_) => None,
    }
}

#[test]
fn a_value_may_come_after_a_sign_or_after_a_space_and_with_one_dash_or_two() {
    for spelling in [
        &["--addr=:1"][..],
        &["--addr", ":1"],
        &["-addr=:1"],
        &["-addr", ":1"],
        &["serve", "-addr=:1"],
    ] {
        let arguments: Vec<_> = spelling.iter().copied().chain(["--use-fake-backend"]).collect();
        let settings = settings(&arguments).unwrap();
        assert_eq!(settings.runtime.listen.address.to_string(), ":1", "{spelling:?}");
    }
}

#[test]
fn the_command_line_of_the_certification_is_understood() {
    let settings = settings(&[
        "--addr=127.0.0.1:9099",
        "--provider=certify",
        "--use-fake-backend",
        "--seed-count=256",
        "--state=/tmp/durable-state.json",
    ])
    .unwrap();
    assert_eq!(
        (&*settings.runtime.provider, fake(&settings).unwrap().seed_count),
        ("certify", 256)
    );
    assert_eq!(
        settings.runtime.state.unwrap().to_str(),
        Some("/tmp/durable-state.json")
    );
}

#[test]
fn switches_are_bare_or_have_a_value_as_go_spells_it() {
    for (arguments, reflection, is_fake) in [
        (&["--connect=qemu:///system", "--image=i"][..], true, false),
        (&["--reflection", "--use-fake-backend"], true, true),
        (&["--reflection=false", "--use-fake-backend=true"], false, true),
        (&["-reflection=F", "-use-fake-backend=1"], false, true),
        (
            &[
                "--use-fake-backend",
                "--use-fake-backend=0",
                "--connect=qemu:///system",
                "--image=i",
            ],
            true,
            false,
        ),
    ] {
        let settings = settings(arguments).unwrap();
        let found = (settings.runtime.listen.reflection, fake(&settings).is_some());
        assert_eq!(found, (reflection, is_fake), "{arguments:?}");
    }
}

#[test]
fn one_time_limit_for_all_gives_way_to_one_of_its_own() {
    let settings = settings(&["--use-fake-backend", "--drain-timeout=7s", "--transition-timeout=2s"]).unwrap();
    let limits = settings.runtime.transitions;
    let seconds = [limits.create, limits.configure, limits.drain, limits.delete].map(|limit| limit.as_secs());
    assert_eq!(seconds, [2, 2, 7, 2]);
}

#[test]
fn an_unknown_flag_comes_with_the_one_that_was_meant() {
    for flag in ["--sed-count=3", "--sed-count"] {
        let error = parsed(&[flag]).unwrap_err();
        let text = error.to_string();
        assert!(
            error.use_stderr() && text.contains("--sed-count") && text.contains("'--seed-count'"),
            "{text}"
        );
    }
}

#[test]
fn the_flags_of_the_reference_describe_real_hosts() {
    let connect = "--connect=rack1=qemu+ssh://bf@a/system?keyfile=/k,rack2=qemu+tls://b/system";
    let settings = settings(&[
        connect,
        "--image=golden.qcow2",
        "--storage-pool=fast",
        "--network=bridge:br0",
        "--seed-count=6",
        "--prices=kvm.small=0.5",
        "--capacity-type=bare_metal",
        "--reconcile-interval=30s",
    ]);
    let Substrate::Libvirt(hosts) = settings.unwrap().substrate else {
        panic!("there are hosts")
    };
    assert_eq!(
        hosts.zones.keys().map(|zone| &**zone).collect::<Vec<_>>(),
        ["rack1", "rack2"]
    );
    assert_eq!(
        (hosts.machine.image.as_str(), hosts.machine.pool.as_str()),
        ("golden.qcow2", "fast")
    );
    assert_eq!(hosts.offerings.iter().map(|offering| offering.count).sum::<u32>(), 6);
    assert!(
        hosts.offerings.iter().all(|offering| offering.price_per_hour == 0.0),
        "bare metal costs nothing"
    );
}

#[test]
fn without_a_host_the_way_to_one_is_shown() {
    let error = settings(&["--image=golden.qcow2"]).unwrap_err().to_string();
    assert!(
        error.contains("--connect") && error.contains("--use-fake-backend"),
        "{error}"
    );
}

#[test]
fn every_mistake_about_hosts_and_capacity_is_told_at_once() {
    let error = settings(&[
        "--connect=rack1=qemu+tcp://a/system",
        "--capacity-type=spot",
        "--prices=kvm.tiny=1,x",
        "--storage-pool=/var/pool",
    ]);
    let error = error.unwrap_err().to_string();
    for word in ["plaintext", "machine.image", "not a path"] {
        assert!(error.contains(word), "{word}: {error}");
    }
    let error = settings(&[
        "--connect=qemu:///system",
        "--image=i",
        "--capacity-type=spot",
        "--prices=kvm.tiny=1,x",
    ]);
    let error = error.unwrap_err().to_string();
    for word in [
        "never taken away",
        "`kvm.tiny`, which is not in the catalogue",
        "has `x`",
    ] {
        assert!(error.contains(word), "{word}: {error}");
    }
}

#[test]
fn every_wrong_value_is_blamed_on_its_flag() {
    let wrong = [
        "--use-fake-backend",
        "--seed-count=many",
        "--reflection=maybe",
        "--on-restart=retry",
        "--set",
        "fake.dealy=1s",
    ];
    let error = settings(&wrong).unwrap_err();
    let found: Vec<_> = error.findings().iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "flag --seed-count: `capacity.seed_count` must be a whole number from 0 to 1000000, but is the text `many`",
            "flag --set fake.dealy: `fake.dealy` is not a known key; did you mean `fake.delay`?",
            "flag --reflection: `listen.reflection` must be `true` or `false`, but is the text `maybe`",
            "flag --on-restart: `transitions.on_restart` must be one of `resume`, `fail`, but is the text `retry`",
        ]
    );
}

#[test]
fn version_and_help_are_no_mistakes() {
    for (arguments, expected) in [
        (["--version"], "libvirt-provider 1.2.3"),
        (["-help"], "--use-fake-backend"),
    ] {
        let answer = parsed(&arguments).unwrap_err();
        assert!(!answer.use_stderr());
        assert!(answer.to_string().contains(expected), "{answer}");
    }
}

#[test]
fn flags_win_over_the_environment() {
    let variables = [("T__PROVIDER", "env"), ("T__FAKE__DELAY", "3s")].map(|(name, value)| (name.into(), value.into()));
    let loaded = parsed(&["--provider=flag", "--use-fake-backend"])
        .unwrap()
        .load("T", variables);
    let settings = loaded.finish(Settings::parse).unwrap();
    assert_eq!(
        (&*settings.runtime.provider, fake(&settings).unwrap().delay.as_secs()),
        ("flag", 3)
    );
}
