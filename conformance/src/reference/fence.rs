//! Fencing: a mark for each pair of shard and machine (contract §4).

use tonic::Status;

use super::{
    Rules,
    engine::Call,
    world::{Kind, World},
};

type Token = (i64, i64);

/// Whether the token is newer than the mark.
fn newer(token: Token, mark: Token, rules: &Rules) -> bool {
    match rules.mutant() {
        "fence-accepts-equal" => token >= mark,
        "fence-ignores-epoch" => token.1 > mark.1,
        "fence-ignores-sequence" => token.0 >= mark.0,
        "fence-needs-both" => token.1 > mark.1 && token.0 >= mark.0,
        "fence-unsigned" => {
            let unsigned = |(epoch, sequence): Token| (epoch.cast_unsigned(), sequence.cast_unsigned());
            unsigned(token) > unsigned(mark)
        }
        "fence-overflows" => token > mark || mark == (i64::MAX, i64::MAX),
        _ => token > mark,
    }
}

fn key(call: &Call, rules: &Rules) -> (String, String) {
    match rules.mutant() {
        "fence-per-shard" => (call.shard.clone(), String::new()),
        "fence-per-machine" => (String::new(), call.id.clone()),
        _ => (call.shard.clone(), call.id.clone()),
    }
}

fn is_fenced(call: &Call, rules: &Rules) -> bool {
    let zero = call.shard.is_empty() && call.token == (0, 0);
    let skipped = call.kind == Kind::Configure && rules.breaks("fence-not-for-configure")
        || call.kind == Kind::Drain && rules.breaks("fence-not-for-drain");
    (!zero || rules.breaks("fence-zero-token")) && !skipped
}

/// Lets a token pass and makes it the mark, or refuses it and leaves the mark.
pub(super) fn check(world: &mut World, call: &Call, rules: &Rules) -> Result<(), Status> {
    if !is_fenced(call, rules) {
        return Ok(());
    }
    if call.token.0 < 0 || call.token.1 < 0 {
        match rules.mutant() {
            "fence-negative-internal" => return Err(Status::internal("a negative token")),
            "fence-negative-invalid" => return Err(Status::invalid_argument("a negative token")),
            _ => {}
        }
    }
    let key = key(call, rules);
    let mark = world.marks.get(&key).copied();
    let mut passes = mark.is_none_or(|mark| newer(call.token, mark, rules));
    if call.shard.is_empty() && rules.breaks("fence-empty-shard-erratic") {
        passes |= mark == Some(call.token);
    }
    if mark.is_none() && call.token.0 < 2 {
        passes &= !rules.breaks("fence-first-contact-one");
        passes &= !(world.restarted && rules.breaks("restart-trusts-nobody"));
    }
    if passes {
        if !rules.breaks("fence-after-refusal") {
            world.marks.insert(key, call.token);
        }
        return Ok(());
    }
    if rules.breaks("fence-lowers-mark") {
        world.marks.insert(key, call.token);
    }
    Err(Status::failed_precondition(format!(
        "token {:?} of shard `{}` is not newer than its mark for machine `{}`",
        call.token, call.shard, call.id
    )))
}

/// What the mutant that marks late does after a call that was not refused.
pub(super) fn succeeded(world: &mut World, call: &Call, rules: &Rules) {
    if rules.breaks("fence-after-refusal") && is_fenced(call, rules) {
        world.marks.insert(key(call, rules), call.token);
    }
}
