//! Reading everything back, distrusting every value.

use std::{
    collections::HashMap,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use providerkit_backend::{ClusterId, HostRef, Machine, MachineId, OperationId, ShardId, State, Transition};
use rusqlite::{Connection, Row, types::FromSql};

use super::{Error, open};
use crate::{
    binding,
    idempotency::Operations,
    store::{Boot, Failure, Inputs, Mark, Record, Running, Shape, Snapshot},
};

/// Why a row cannot be what we wrote.
type Fault = Box<dyn std::error::Error + Send + Sync>;

pub(super) fn snapshot(connection: &Connection, path: &Path) -> Result<Snapshot, Error> {
    read(connection).map_err(|fault| {
        open::refused(
            path,
            "is damaged: restore it from a backup, or move it away to begin anew",
        )
        .with_source(fault)
    })
}

fn read(connection: &Connection) -> Result<Snapshot, Fault> {
    // One transaction, so that all tables are of one moment.
    let connection = connection.unchecked_transaction()?;
    let counters: HashMap<String, i64> = rows(&connection, "SELECT name, value FROM counter", |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?
    .into_iter()
    .collect();
    let counter = |name| counters.get(name).copied().unwrap_or(0).cast_unsigned();
    let boots = rows(&connection, "SELECT tag, base FROM boot ORDER BY number", |row| {
        Ok(Boot {
            tag: unsigned(row, 0)?,
            base: unsigned(row, 1)?,
        })
    })?;
    let marks = rows(
        &connection,
        "SELECT machine, shard, epoch, sequence FROM mark ORDER BY touched",
        |row| {
            let mark = Mark {
                epoch: row.get(2)?,
                sequence: row.get(3)?,
            };
            Ok((MachineId::new(text(row, 0)?)?, ShardId::new(text(row, 1)?)?, mark))
        },
    )?;
    let shapes = rows(&connection, "SELECT number, body FROM profile", |row| {
        let number = unsigned(row, 0)?;
        let profile = serde_json::from_str(text(row, 1)?)?;
        Ok((number, Arc::new(Shape::new(number, Arc::new(profile)))))
    })?;
    let mut records = machines(&connection, &shapes.into_iter().collect())?;
    for (ordinal, running) in rows(&connection, "SELECT * FROM running", running)? {
        let record = records
            .binary_search_by_key(&ordinal, |record| record.ordinal)
            .ok()
            .and_then(|at| records.get_mut(at))
            .ok_or("a transition runs on a machine that is not there")?;
        if record.machine.state != running.transition.running() {
            return Err(format!("machine `{}` does not {}", record.machine.id, running.transition).into());
        }
        record.running = Some(Arc::new(running));
    }
    if let Some(stuck) = records.iter().find(|record| {
        let transitional = Transition::ALL
            .iter()
            .any(|transition| transition.running() == record.machine.state);
        transitional != record.running.is_some()
    }) {
        return Err(format!("machine `{}` is in a transition that is not there", stuck.machine.id).into());
    }
    Ok(Snapshot {
        records,
        marks,
        boots,
        head: counter("head"),
        next_ordinal: counter("next_ordinal"),
    })
}

fn rows<T>(
    connection: &Connection,
    sql: &str,
    mut parse: impl FnMut(&Row<'_>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.push(parse(row)?);
    }
    Ok(all)
}

fn machines(connection: &Connection, shapes: &HashMap<u64, Arc<Shape>>) -> Result<Vec<Record>, Fault> {
    // Almost all machines have the same provider: one text for all.
    let mut provider: Arc<str> = "".into();
    rows(connection, "SELECT * FROM machine ORDER BY ordinal", |row| {
        let id: Arc<str> = text(row, 1)?.into();
        let host = match (optional_text(row, 8)?, optional_text(row, 9)?) {
            (Some(name), Some(reference)) => {
                if *provider != *name {
                    provider = name.into();
                }
                Some(HostRef::new(
                    Arc::clone(&provider),
                    if reference == &*id {
                        Arc::clone(&id)
                    } else {
                        reference.into()
                    },
                ))
            }
            (None, None) => None,
            _ => return Err(format!("machine `{id}` has half a host").into()),
        };
        let shape = shapes
            .get(&unsigned(row, 7)?)
            .ok_or_else(|| format!("machine `{id}` has no profile"))?;
        let mut machine = Machine::new(MachineId::new(Arc::clone(&id))?, Arc::clone(&shape.profile));
        let state: i32 = row.get(6)?;
        machine.state = State::from_number(state).ok_or_else(|| format!("machine `{id}` has state {state}"))?;
        machine.host = host;
        machine.cluster = optional_text(row, 10)?.map(ClusterId::new).transpose()?;
        machine.metadata = match optional_text(row, 11)? {
            Some(json) => Arc::new(serde_json::from_str(json)?),
            None => binding::unbound(),
        };
        machine.last_error = optional_text(row, 12)?.map(Into::into);
        let mut operations = Operations::default();
        for (column, transition) in (13..).zip(Transition::ALL) {
            let id = row.get::<_, [u8; 16]>(column)?;
            if id != [0; 16] {
                operations.accept(transition, OperationId::from_bytes(id));
            }
        }
        let failure = row
            .get::<_, Option<[u8; 16]>>(17)?
            .map(|operation| failure(row, operation))
            .transpose()?;
        if failure.is_some() != (machine.state == State::Failed) {
            return Err(format!("machine `{id}` is FAILED only in part").into());
        }
        let slot = optional_text(row, 2)?.map_or_else(|| Arc::clone(&id), Into::into);
        Ok(Record {
            ordinal: unsigned(row, 0)?,
            revision: unsigned(row, 5)?,
            returned: unsigned(row, 21)?,
            slot,
            generation: row.get(3)?,
            hosted: row.get(4)?,
            withheld: optional_text(row, 22)?.map(Into::into),
            machine,
            shape: Arc::clone(shape),
            operations,
            marks: Default::default(),
            running: None,
            failure: failure.map(Box::new),
        })
    })
}

fn failure(row: &Row<'_>, operation: [u8; 16]) -> Result<Failure, Fault> {
    Ok(Failure {
        operation: OperationId::from_bytes(operation),
        transition: transition(row.get(18)?)?,
        at: time(row.get(19)?),
        cleaned: row.get(20)?,
    })
}

fn running(row: &Row<'_>) -> Result<(u64, Running), Fault> {
    let transition = transition(row.get(2)?)?;
    let inputs = match transition {
        Transition::Configure => Inputs::Bootstrap(Bytes::copy_from_slice(row.get_ref(6)?.as_blob()?)),
        Transition::Drain => Inputs::Grace(Duration::from_secs(unsigned(row, 7)?)),
        Transition::Create | Transition::Delete => Inputs::None,
    };
    let running = Running {
        id: OperationId::from_bytes(row.get(1)?),
        transition,
        accepted: time(row.get(3)?),
        deadline: time(row.get(4)?),
        attempt: row.get(5)?,
        inputs,
    };
    Ok((unsigned(row, 0)?, running))
}

fn transition(number: u8) -> Result<Transition, Fault> {
    Transition::ALL
        .get(usize::from(number))
        .copied()
        .ok_or_else(|| format!("transition {number} is unknown").into())
}

fn time(millis: i64) -> SystemTime {
    let distance = Duration::from_millis(millis.unsigned_abs());
    if millis < 0 {
        UNIX_EPOCH - distance
    } else {
        UNIX_EPOCH + distance
    }
}

fn unsigned(row: &Row<'_>, column: usize) -> Result<u64, Fault> {
    Ok(i64::column_result(row.get_ref(column)?)?.cast_unsigned())
}

fn text<'row>(row: &'row Row<'_>, column: usize) -> Result<&'row str, Fault> {
    Ok(row.get_ref(column)?.as_str()?)
}

fn optional_text<'row>(row: &'row Row<'_>, column: usize) -> Result<Option<&'row str>, Fault> {
    Ok(row.get_ref(column)?.as_str_or_null()?)
}
