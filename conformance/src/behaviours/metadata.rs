//! MD: what the shard notes on a binding comes back byte for byte (contract §7).

use std::time::Duration;

use bigfleet_proto::MachineState as S;
use tonic::Code;

use crate::{
    Context, Outcome,
    behaviour::{Area, Behaviour},
    call::{Binding, Metadata, free, only},
    expect::{operation, refused_with},
    outcome::{Stop, ensure_eq},
    walk::{bound, by_id, clean},
};

const AREA: Area = Area::Metadata;

pub(super) const ALL: &[Behaviour] = &[
    Behaviour::new(
        "B501",
        AREA,
        [
            "Odd metadata comes back byte for byte, from Get and List",
            "the shard rebuilds its assignments from this and from nothing else",
            "55 keys (NUL in key and values, C0 and C1 controls, emoji, empty, trailing spaces): the same on 4 Gets and \
             on List(CONFIGURED) through a client of 128 MiB",
        ],
        |cx| Box::pin(b501(cx)),
    ),
    Behaviour::new(
        "B502",
        AREA,
        [
            "A drain clears the metadata, and the next Configure replaces it whole",
            "a note of one binding on the next protects the wrong workload",
            "3 keys echoed; Drain 5 -> no metadata, no cluster; Configure with 2 other keys: exactly those, the new \
             cluster",
        ],
        |cx| Box::pin(b502(cx)),
    ),
    Behaviour::new(
        "B503",
        AREA,
        [
            "Two mebibytes of metadata are kept whole or refused whole",
            "metadata cut short is worse than none",
            "256 keys of 8 KiB: OK -> CONFIGURED within 30 s, verbatim through a client of 4 MiB, Drain 0 -> IDLE within \
             30 s; or INVALID_ARGUMENT -> IDLE for 300 ms without metadata",
        ],
        |cx| Box::pin(b503(cx)),
    ),
    Behaviour::new(
        "B504",
        AREA,
        [
            "The metadata is there as soon as the machine is bound",
            "a shard that restarts during a Configure would forget why it was made",
            "3 keys; a look each 1 ms during Configure: verbatim in every CONFIGURING sample, and at CONFIGURED",
        ],
        |cx| Box::pin(b504(cx)),
    ),
    Behaviour::new(
        "B505",
        AREA,
        [
            "What the caller does with its own map afterwards changes nothing",
            "an alias of a request is a race with the caller",
            "after the ack the caller changes, removes and adds keys in its map; two Gets still show the original",
        ],
        |cx| Box::pin(b505(cx)),
    ),
];

fn three() -> Binding {
    Binding::to("first")
        .with("bigfleet.lucy.sh/assigned-priority", "100")
        .with("bigfleet.lucy.sh/assigned-group", "a\0b")
        .with("empty", "")
}

/// 55 keys that somebody will mangle.
fn odd() -> Metadata {
    let mut odd: Metadata = [
        ("nul\0key", "v"),
        ("nul-value", "a\0b\0"),
        ("only-nul", "\0"),
        ("controls", "\u{1}\u{7}\u{8}\t\n\u{b}\u{c}\r\u{1b}\u{1f}\u{7f}"),
        ("c1", "\u{80}\u{85}\u{9f}"),
        ("emoji", "🚀👩‍👩‍👧‍👦🏳️‍🌈"),
        ("🗝", "an astral key"),
        ("empty", ""),
        ("spaces", "  both ends  "),
        ("trailing ", "key with a space"),
        ("newline\n", "\n"),
        ("greek", "Ελληνικά"),
        ("combining", "e\u{301} is not é"),
        ("rtl", "\u{202e}abc\u{202c}"),
        ("bom", "\u{feff}x"),
        ("noncharacter", "\u{ffff}\u{10ffff}"),
        ("quotes", "\"'`\\"),
        ("json", "{\"a\":[1,2,null]}"),
        ("xml", "<a b=\"c\">&amp;</a>"),
        ("format", "%s %n {} ${HOME} $(id)"),
        ("path", "../../etc/passwd"),
        ("number", "1e309"),
        ("UPPER", "Upper"),
        ("upper", "lower"),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect();
    for n in odd.len()..55 {
        odd.insert(format!("key-{n}"), format!("value {n} \u{0} {}", "ü".repeat(n)));
    }
    odd
}

async fn b501(cx: &Context) -> Outcome {
    let binding = Binding::to("odd").metadata(odd());
    ensure_eq!("keys of the harness", binding.metadata.len(), 55);
    let id = cx.configured(&binding).await?;
    for _ in 0..4 {
        bound(&cx.get(&id).await?, &binding)?;
    }
    let list = cx.small(128 << 20).list(only(&[S::Configured])).await?;
    match by_id(list.machines)?.get(&id) {
        Some(machine) => bound(machine, &binding),
        None => Err(Stop::failed(format!("`{id}` in List(CONFIGURED)"), "it is not there")),
    }
}

async fn b502(cx: &Context) -> Outcome {
    let id = cx.configured(&three()).await?;
    bound(&cx.get(&id).await?, &three())?;
    cx.release(&id, 5).await?;
    clean(&cx.get(&id).await?, S::Idle)?;
    let second = Binding::to("second").with("other", "1").with("another", "2");
    cx.bind(&id, &second).await?;
    bound(&cx.get(&id).await?, &second)
}

async fn b503(cx: &Context) -> Outcome {
    let metadata: Metadata = (0..256).map(|n| (format!("key-{n:03}"), "y".repeat(8 << 10))).collect();
    let (id, binding, long) = (
        cx.idle().await?,
        Binding::to("c").metadata(metadata),
        Duration::from_secs(30),
    );
    let answer = cx.configure(&id, &binding, &free()).await;
    if answer.is_err() {
        refused_with(
            &answer,
            Code::InvalidArgument,
            "2 MiB of metadata, where it is not taken,",
        )?;
        cx.stays(&id, S::Idle, Duration::from_millis(300)).await?;
        return clean(&cx.get(&id).await?, S::Idle);
    }
    cx.reach_within(&id, S::Configured, long).await?;
    bound(&cx.small(4 << 20).get(&id).await?, &binding)?;
    operation(cx.drain(&id, 0, &free()).await, "Drain")?;
    cx.reach_within(&id, S::Idle, long).await?;
    Ok(())
}

async fn b504(cx: &Context) -> Outcome {
    let (id, binding) = (cx.idle().await?, three());
    operation(cx.configure(&id, &binding, &free()).await, "Configure")?;
    for machine in cx.trace(&id, S::Configured).await? {
        if matches!(machine.state(), S::Configuring | S::Configured) {
            bound(&machine, &binding)?;
        }
    }
    Ok(())
}

async fn b505(cx: &Context) -> Outcome {
    let (id, original) = (cx.idle().await?, three());
    let mut mine = original.clone();
    operation(cx.configure(&id, &mine, &free()).await, "Configure")?;
    mine.metadata.remove("empty");
    mine = mine
        .with("bigfleet.lucy.sh/assigned-priority", "1")
        .with("added", "later");
    cx.reach(&id, S::Configured).await?;
    for _ in 0..2 {
        let machine = cx.get(&id).await?;
        bound(&machine, &original)?;
        let changed = machine.shard_metadata == mine.metadata;
        ensure_eq!("the map that was changed after the ack is shown", changed, false);
    }
    Ok(())
}
