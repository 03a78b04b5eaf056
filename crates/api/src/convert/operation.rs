//! The record of changes.

use super::ToBody;
use api_client::model::{Operation, Progress, Timestamp};

impl ToBody for control::Operation {
    type Body = Operation;

    fn to_body(&self) -> Operation {
        let (outcome, reason) = match &self.outcome {
            control::Outcome::Running => ("running", None),
            control::Outcome::Succeeded => ("succeeded", None),
            control::Outcome::Failed(reason) => ("failed", Some(reason.clone())),
            control::Outcome::Cancelled => ("cancelled", None),
        };
        Operation {
            id: self.id.0,
            actor: self.actor.to_string(),
            verb: self.verb.to_string(),
            kind: self.kind.to_string(),
            name: self.name.clone(),
            detail: self.detail.clone(),
            started: Timestamp::from_ms(self.started_ms),
            ended: self.ended_ms.map(Timestamp::from_ms),
            outcome: outcome.to_owned(),
            reason,
            progress: self.progress.map(|progress| Progress {
                done: progress.done,
                total: progress.total,
                unit: progress.unit.to_owned(),
                per_second: progress.per_second,
                seconds_left: progress.seconds_left(),
            }),
            cancellable: self.can_be_cancelled(),
            cancel_requested: self.is_cancelled,
        }
    }
}
