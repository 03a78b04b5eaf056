//! The answer, as JSON.

use envelope::{
    Advice, Choice, Constraint, Level, PoolRaise, RaiseStep, Recommendation, SkippedLevel, Utilization,
    Workload, Year,
};
use serde::Serialize;

use super::question::SizingRequest;

/// The name and version of the JSON format.
const FORMAT: &str = "plimsoll-size/1";

/// The whole answer, for programs.
#[derive(Serialize)]
pub(super) struct Json<'a> {
    format: &'static str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    notes: &'a [String],
    workload: &'a Workload,
    options: Vec<JsonChoice<'a>>,
    misses: Vec<JsonChoice<'a>>,
    left_out: &'a [SkippedLevel],
    /// The years of the selected option.
    #[serde(skip_serializing_if = "Option::is_none")]
    years: Option<&'a [Year]>,
}

/// One option, for programs.
#[derive(Serialize)]
pub(super) struct JsonOne<'a> {
    format: &'static str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    notes: &'a [String],
    workload: &'a Workload,
    option: JsonChoice<'a>,
    mount_options: Vec<Recommendation>,
}

#[derive(Serialize)]
pub(super) struct JsonChoice<'a> {
    #[serde(flatten)]
    choice: &'a Choice,
    carries_bytes_per_second: Option<u64>,
    carries_operations_per_second: Option<u64>,
    /// The parts of that, if the level limits reads and writes apart.
    carries_read_bytes_per_second: Option<u64>,
    carries_read_operations_per_second: Option<u64>,
    carries_write_bytes_per_second: Option<u64>,
    carries_write_operations_per_second: Option<u64>,
    used_at_peak_billionths: Option<Utilization>,
    used_at_average_billionths: Option<Utilization>,
    bottleneck: Option<&'a Constraint>,
    next: Option<&'a Constraint>,
    /// The reason why the option ranks below a better one.
    behind_because: Option<String>,
    /// The load that it carries with its settings at their maximum.
    raisable_bytes_per_second: Option<u64>,
    raisable_operations_per_second: Option<u64>,
    /// The next size and the next level with their additional cost, if there are prices.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    raises: Vec<JsonRaise>,
}

#[derive(Serialize)]
pub(super) struct JsonRaise {
    step: RaiseStep,
    level: Level,
    pool_bytes: u64,
    more_millionths: Option<u64>,
}

impl JsonRaise {
    pub(super) fn of_pool(raise: &PoolRaise) -> Self {
        Self {
            step: raise.step,
            level: raise.pool.level,
            pool_bytes: raise.pool.size.0,
            more_millionths: raise.more.as_ref().map(|more| more.millionths),
        }
    }
}

pub(super) fn of_advice<'a>(
    advice: &'a Advice,
    asked: &'a SizingRequest,
    years: Option<&'a [Year]>,
) -> Json<'a> {
    let workload = &asked.workload;
    let option = |(index, choice)| JsonChoice {
        behind_because: advice.reason_for_rank(index),
        ..JsonChoice::of(choice, asked)
    };
    Json {
        format: FORMAT,
        notes: &asked.notes,
        workload,
        options: advice.options.iter().enumerate().map(option).collect(),
        misses: advice.misses.iter().map(|miss| JsonChoice::of(miss, asked)).collect(),
        left_out: &advice.left_out,
        years,
    }
}

pub(super) fn of_choice<'a>(choice: &'a Choice, asked: &'a SizingRequest) -> JsonOne<'a> {
    JsonOne {
        format: FORMAT,
        notes: &asked.notes,
        workload: &asked.workload,
        option: JsonChoice::of(choice, asked),
        mount_options: choice.mount.meanings(),
    }
}

impl<'a> JsonChoice<'a> {
    pub(super) fn of(choice: &'a Choice, asked: &SizingRequest) -> Self {
        let workload = &asked.workload;
        let carries = choice.maximum_load(workload);
        let [reads, writes] = choice
            .maximum_apart(workload)
            .map_or([None, None], |[reads, writes]| [Some(reads), Some(writes)]);
        let raisable = choice.raisable_load(workload);
        let raises = choice.cost.iter().flat_map(|_| choice.raises(workload, &asked.catalog));
        Self {
            choice,
            carries_bytes_per_second: carries.map(|(rate, _)| rate.0),
            carries_operations_per_second: carries.map(|(_, iops)| iops.0),
            carries_read_bytes_per_second: reads.map(|(rate, _)| rate.0),
            carries_read_operations_per_second: reads.map(|(_, iops)| iops.0),
            carries_write_bytes_per_second: writes.map(|(rate, _)| rate.0),
            carries_write_operations_per_second: writes.map(|(_, iops)| iops.0),
            used_at_peak_billionths: choice.at_peak(workload),
            used_at_average_billionths: choice.at_average(workload),
            bottleneck: choice.binding(),
            next: choice.next_binding(),
            behind_because: None,
            raisable_bytes_per_second: raisable.map(|(rate, _)| rate.0),
            raisable_operations_per_second: raisable.map(|(_, iops)| iops.0),
            raises: raises
                .map(|raise| JsonRaise {
                    step: raise.step,
                    level: raise.choice.level(),
                    pool_bytes: raise.choice.pool.size.0,
                    more_millionths: raise.more.map(|more| more.millionths),
                })
                .collect(),
        }
    }
}
