//! One commit: one transaction.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use providerkit_backend::Transition;
use rusqlite::{Connection, Transaction, params};

use crate::{
    revision::REMEMBERED_BOOTS,
    store::{Change, Inputs, Record, Running},
};

/// Writes the changes; says whether inputs of a transition were erased.
pub(super) fn commit(connection: &mut Connection, changes: &[Change]) -> rusqlite::Result<bool> {
    let transaction = connection.transaction()?;
    let mut erased = false;
    for change in changes {
        erased |= apply(&transaction, change)?;
    }
    transaction.commit()?;
    Ok(erased)
}

fn apply(transaction: &Transaction<'_>, change: &Change) -> rusqlite::Result<bool> {
    let run = |sql: &str, values: &[&dyn rusqlite::ToSql]| transaction.prepare_cached(sql)?.execute(values);
    match change {
        Change::Put(record) => {
            put(transaction, record)?;
            return match &record.running {
                Some(running) => begin(transaction, record.ordinal, running).map(|()| false),
                None => end(transaction, record.ordinal),
            };
        }
        Change::Remove { ordinal } => {
            run("DELETE FROM machine WHERE ordinal = ?1", params![ordinal.cast_signed()])?;
            return end(transaction, *ordinal);
        }
        Change::Mark { machine, shard, mark } => run(
            "INSERT INTO mark (machine, shard, epoch, sequence, touched)
             VALUES (?1, ?2, ?3, ?4, (SELECT value FROM counter WHERE name = 'touched'))
             ON CONFLICT DO UPDATE SET epoch = ?3, sequence = ?4, touched = excluded.touched",
            params![machine.as_str(), shard.as_str(), mark.epoch, mark.sequence],
        ),
        Change::ForgetMark { machine, shard } => run(
            "DELETE FROM mark WHERE machine = ?1 AND shard = ?2",
            params![machine.as_str(), shard.as_str()],
        ),
        Change::Shape(shape) => {
            let body = serde_json::to_string(&*shape.profile)
                .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
            run(
                "INSERT OR REPLACE INTO profile (number, body) VALUES (?1, ?2)",
                params![shape.number.cast_signed(), body],
            )
        }
        Change::ForgetShape { number } => run("DELETE FROM profile WHERE number = ?1", params![number.cast_signed()]),
        Change::Boot(boot) => {
            run(
                "INSERT INTO boot (tag, base, started_ms) VALUES (?1, ?2, ?3)",
                params![
                    boot.tag.cast_signed(),
                    boot.base.cast_signed(),
                    millis(SystemTime::now())
                ],
            )?;
            run(
                "DELETE FROM boot WHERE number <= (SELECT max(number) FROM boot) - ?1",
                params![REMEMBERED_BOOTS as i64],
            )
        }
        Change::Counters { head, next_ordinal } => run(
            // `touched` orders marks by commit: fine enough for forgetting the longest unused.
            "INSERT INTO counter (name, value) VALUES ('head', ?1), ('next_ordinal', ?2), ('touched', 1)
             ON CONFLICT DO UPDATE SET value = iif(name = 'touched', value + 1, excluded.value)",
            params![head.cast_signed(), next_ordinal.cast_signed()],
        ),
    }?;
    Ok(false)
}

fn put(transaction: &Transaction<'_>, record: &Record) -> rusqlite::Result<()> {
    let machine = &record.machine;
    let metadata = (!machine.metadata.is_empty())
        .then(|| serde_json::to_string(&*machine.metadata))
        .transpose()
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    // Zeros where there is none, so that a row keeps its size when a machine is first used: rows that grow split pages.
    let operation = |transition| record.operations.last(transition).map_or([0; 16], |id| *id.as_bytes());
    let failure = record.failure.as_deref();
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO machine VALUES
             (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22,
              ?23)",
        )?
        .execute(params![
            record.ordinal.cast_signed(),
            machine.id.as_str(),
            (*record.slot != *machine.id.as_str()).then_some(&*record.slot),
            record.generation,
            record.hosted,
            record.revision.cast_signed(),
            machine.state as u8,
            record.shape.number.cast_signed(),
            machine.host.as_ref().map(|host| &*host.provider),
            machine.host.as_ref().map(|host| &*host.reference),
            machine.cluster.as_ref().map(|cluster| cluster.as_str()),
            metadata,
            machine.last_error.as_deref(),
            operation(Transition::Create),
            operation(Transition::Configure),
            operation(Transition::Drain),
            operation(Transition::Delete),
            failure.map(|failure| *failure.operation.as_bytes()),
            failure.map(|failure| failure.transition as u8),
            failure.map(|failure| millis(failure.at)),
            failure.map(|failure| failure.cleaned),
            record.returned.cast_signed(),
            record.withheld.as_deref(),
        ])?;
    Ok(())
}

fn begin(transaction: &Transaction<'_>, ordinal: u64, running: &Running) -> rusqlite::Result<()> {
    let (bootstrap, grace) = match &running.inputs {
        Inputs::None => (None, None),
        Inputs::Bootstrap(blob) => (Some(&blob[..]), None),
        Inputs::Grace(grace) => (None, Some(seconds(*grace))),
    };
    transaction
        .prepare_cached("INSERT OR REPLACE INTO running VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?
        .execute(params![
            ordinal.cast_signed(),
            running.id.as_bytes(),
            running.transition as u8,
            millis(running.accepted),
            millis(running.deadline),
            running.attempt,
            bootstrap,
            grace,
        ])?;
    Ok(())
}

/// Ends a transition; says whether it had a secret.
fn end(transaction: &Transaction<'_>, ordinal: u64) -> rusqlite::Result<bool> {
    let mut delete =
        transaction.prepare_cached("DELETE FROM running WHERE ordinal = ?1 RETURNING bootstrap IS NOT NULL")?;
    let mut rows = delete.query(params![ordinal.cast_signed()])?;
    let mut erased = false;
    while let Some(row) = rows.next()? {
        erased |= row.get::<_, bool>(0)?;
    }
    Ok(erased)
}

/// Milliseconds since 1970; before it, negative.
pub(super) fn millis(time: SystemTime) -> i64 {
    let number = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => number(since),
        Err(before) => -number(before.duration()),
    }
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}
