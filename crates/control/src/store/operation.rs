//! The table of operations.

use super::{from_text, to_text, unreadable, word};
use crate::job::{Job, JobProgress, JobSpec};
use crate::kind::Kind;
use crate::operation::{Actor, OPERATIONS_KEPT, Operation, OperationId, Outcome, Verb};
use rusqlite::{Connection, OptionalExtension, Result, Row, named_params, params};

pub(crate) struct NewOperation<'a> {
    pub(crate) actor: &'a Actor,
    pub(crate) verb: Verb,
    pub(crate) kind: Kind,
    pub(crate) name: &'a str,
    pub(crate) detail: &'a str,
    /// The work of a job.
    pub(crate) spec: Option<JobSpec>,
}

/// Records the start of an operation and deletes the oldest beyond the limit.
/// An object has one running operation besides jobs: an earlier unfinished one was abandoned.
pub(crate) fn begin(connection: &Connection, begun: &NewOperation<'_>, now_ms: u64) -> Result<Operation> {
    connection.execute(
        "UPDATE operation SET outcome = 'failed', reason = 'given up', ended_ms = ?3
         WHERE kind = ?1 AND name = ?2 AND outcome = 'running' AND spec IS NULL",
        params![begun.kind.as_str(), begun.name, now_ms],
    )?;
    connection.execute(
        "INSERT INTO operation (actor, verb, kind, name, detail, started_ms, outcome, reason, spec)
         VALUES (:actor, :verb, :kind, :name, :detail, :started, 'running', '', :spec)",
        named_params! {
            ":actor": begun.actor.as_str(), ":verb": begun.verb.as_str(), ":kind": begun.kind.as_str(),
            ":name": begun.name, ":detail": begun.detail, ":started": now_ms,
            ":spec": begun.spec.as_ref().map(to_text).transpose()?,
        },
    )?;
    let id = connection.last_insert_rowid().cast_unsigned();
    let oldest = id.saturating_sub(OPERATIONS_KEPT);
    connection.execute("DELETE FROM operation WHERE id <= ?1 AND outcome <> 'running'", [oldest])?;
    Ok(Operation {
        id: OperationId(id),
        actor: begun.actor.clone(),
        verb: begun.verb,
        kind: begun.kind,
        name: begun.name.to_owned(),
        detail: begun.detail.to_owned(),
        started_ms: now_ms,
        ended_ms: None,
        outcome: Outcome::Running,
        spec: begun.spec,
        progress: None,
        is_cancelled: false,
    })
}

pub(crate) fn end(
    connection: &Connection,
    operation: Operation,
    outcome: Outcome,
    now_ms: u64,
) -> Result<Operation> {
    let (word, reason) = match &outcome {
        Outcome::Running => ("running", ""),
        Outcome::Succeeded => ("succeeded", ""),
        Outcome::Failed(reason) => ("failed", reason.as_str()),
        Outcome::Cancelled => ("cancelled", ""),
    };
    connection.execute(
        "UPDATE operation SET outcome = ?2, reason = ?3, ended_ms = ?4 WHERE id = ?1",
        params![operation.id.0, word, reason, now_ms],
    )?;
    Ok(Operation { outcome, ended_ms: Some(now_ms), ..operation })
}

/// The unfinished operation of an object.
pub(crate) fn running(connection: &Connection, kind: Kind, name: &str) -> Result<Option<Operation>> {
    let select = "SELECT * FROM operation WHERE kind = ?1 AND name = ?2 AND outcome = 'running'";
    connection.query_one(select, [kind.as_str(), name], read).optional()
}

/// The unfinished jobs, the oldest first.
pub(crate) fn jobs(connection: &Connection) -> Result<Vec<Job>> {
    let mut select = connection
        .prepare("SELECT * FROM operation WHERE outcome = 'running' AND spec IS NOT NULL ORDER BY id")?;
    let found = select.query_map([], read)?.collect::<Result<Vec<_>>>()?;
    Ok(found.into_iter().filter_map(|one| Some(Job { id: one.id, spec: one.spec? })).collect())
}

/// Records the progress of a job.
pub(crate) fn record(connection: &Connection, id: OperationId, progress: JobProgress) -> Result<()> {
    connection.execute(
        "UPDATE operation SET done = ?2, total = ?3 WHERE id = ?1",
        params![id.0, progress.done, progress.total],
    )?;
    Ok(())
}

/// Records that somebody asked to cancel a job.
pub(crate) fn cancel(connection: &Connection, id: OperationId) -> Result<()> {
    connection.execute("UPDATE operation SET cancels = 1 WHERE id = ?1", [id.0])?;
    Ok(())
}

/// Newest first, before `before`.
pub(crate) fn list(connection: &Connection, before: OperationId, most: usize) -> Result<Vec<Operation>> {
    let mut select = connection.prepare("SELECT * FROM operation WHERE id < ?1 ORDER BY id DESC LIMIT ?2")?;
    select.query_map(params![before.0, most], read)?.collect()
}

pub(crate) fn find(connection: &Connection, id: OperationId) -> Result<Option<Operation>> {
    connection.query_one("SELECT * FROM operation WHERE id = ?1", [id.0], read).optional()
}

fn read(row: &Row<'_>) -> Result<Operation> {
    let reason: String = row.get("reason")?;
    let spec: Option<String> = row.get("spec")?;
    let spec = spec.map(|text| from_text::<JobSpec>(&text).ok_or_else(|| unreadable("spec", text)));
    let spec = spec.transpose()?;
    let done: Option<u64> = row.get("done")?;
    let total = row.get("total")?;
    let progress =
        done.zip(spec).map(|(done, spec)| JobProgress { done, total, unit: spec.unit(), per_second: None });
    Ok(Operation {
        id: OperationId(row.get("id")?),
        actor: Actor::new(row.get::<_, String>("actor")?),
        verb: word(row, "verb", Verb::of)?,
        kind: word(row, "kind", Kind::of)?,
        name: row.get("name")?,
        detail: row.get("detail")?,
        started_ms: row.get("started_ms")?,
        ended_ms: row.get("ended_ms")?,
        outcome: word(row, "outcome", |text| match text {
            "running" => Some(Outcome::Running),
            "succeeded" => Some(Outcome::Succeeded),
            "failed" => Some(Outcome::Failed(reason.clone())),
            "cancelled" => Some(Outcome::Cancelled),
            _ => None,
        })?,
        spec,
        progress,
        is_cancelled: row.get("cancels")?,
    })
}
