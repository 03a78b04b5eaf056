//! Tables of the options, and each option in words.

use envelope::{
    Advice, BytesPerSecond, Catalog, Choice, Constraint, Iops, RaiseStep, SkippedLevel, Utilization,
    Workload, size_to_buy,
};

use super::super::facts::Fact;
use super::super::table::{Row, RowKind, Table, Value};
use super::question::ceiling_in_mib;

pub(super) fn title(choice: &Choice, index: usize) -> String {
    format!("Option {}: {}, {}", index + 1, kind(choice), pools(choice))
}

/// The recommended option in a sentence, with its cost.
pub(super) fn recommendation(choice: &Choice) -> String {
    let cost = choice.cost.as_ref().map_or_else(String::new, |cost| format!(": {cost} a month"));
    format!("{}, {}{cost}.", kind(choice), pools(choice))
}

/// The share that the peak takes of the load that the choice carries, and its tightest bound.
pub(super) fn carried(choice: &Choice, workload: &Workload) -> String {
    let bottleneck = choice.binding().map_or_else(String::new, |one| {
        let headroom = workload.headroom_in_words(one.kind);
        format!("Bottleneck: {}, {} used{headroom}.", one.kind.name(), one.used)
    });
    let Some((load, peak)) = carried_in_words(choice, workload).zip(choice.at_peak(workload)) else {
        return bottleneck;
    };
    format!("Without headroom, the peak takes {peak} of its limit: {load}. {bottleneck}")
}

fn load_in_words(rate: BytesPerSecond, iops: Iops) -> String {
    format!("{} MiB/s or {} IOPS of this mix", ceiling_in_mib(rate), Value::count(iops.0))
}

/// The load that a choice carries; its reads and writes too where the level limits them apart.
fn carried_in_words(choice: &Choice, workload: &Workload) -> Option<String> {
    let (rate, iops) = choice.maximum_load(workload)?;
    let part = |(rate, iops): (BytesPerSecond, Iops)| {
        format!("{} MiB/s or {} IOPS", ceiling_in_mib(rate), Value::count(iops.0))
    };
    let apart = choice.maximum_apart(workload).map_or_else(String::new, |[reads, writes]| {
        format!(" (reads {}, writes {}, which the level limits apart)", part(reads), part(writes))
    });
    Some(load_in_words(rate, iops) + &apart)
}

pub(super) fn kind(choice: &Choice) -> String {
    let large = if choice.volume.settings.large { ", large" } else { "" };
    format!("{}{large}", choice.level())
}

pub(super) fn share(used: Utilization) -> Value {
    Value::Share(used.ratio(), used.to_string())
}

pub(super) fn tables(advice: &Advice, chosen: usize) -> Vec<Table> {
    let title =
        if advice.is_priced() { "Options, the cheapest first" } else { "Options, the smallest first" };
    let tables = [options_table(advice, title, advice.leading_count(), chosen), misses_table(advice)];
    tables.into_iter().filter(|table| !table.rows.is_empty()).map(without_empty).collect()
}

/// Gives the reason for each rank. Empty if all options lead.
pub(super) fn all(advice: &Advice, chosen: usize) -> Vec<Table> {
    let count = advice.options.len();
    if count <= advice.leading_count() {
        return Vec::new();
    }
    let mut why = Table::new("Why the others come after them", &["Option", "Why"]);
    for (index, choice) in advice.options.iter().enumerate().skip(advice.leading_count()) {
        if let Some(reason) = advice.reason_for_rank(index) {
            why.row(numbered(choice, index), vec![reason.into()]);
        }
    }
    vec![without_empty(options_table(advice, "", count, chosen)), why]
}

pub(super) fn without_empty(mut table: Table) -> Table {
    let is_empty = |value: &Value| value.plain().is_empty();
    for column in (1..table.head.len()).rev() {
        if table.rows.iter().all(|row| is_empty(&row.cells[column - 1])) {
            table.head.remove(column);
            table.rows.iter_mut().for_each(|row| drop(row.cells.remove(column - 1)));
        }
    }
    table
}

fn options_table(advice: &Advice, title: &str, count: usize, chosen: usize) -> Table {
    // Use and cost stand first: on a small screen they are what fits.
    let head = [
        "Option",
        "At peak",
        "Cost a month",
        "Pools",
        "Volumes",
        "Set",
        "Carries MiB/s",
        "IOPS",
        "At average",
        "Bottleneck",
        "Next",
        "Evidence",
        "Latency target",
    ];
    let mut table = Table::new(title, &head);
    for (index, choice) in advice.options.iter().enumerate().take(count) {
        let [peak, average] = used(choice, &advice.workload);
        let mut cells =
            vec![peak, choice.cost.as_ref().map_or(Value::Nothing, |cost| cost.to_string().into())];
        cells.extend(purchase_columns(choice));
        cells.extend(maximum_columns(choice, &advice.workload));
        cells.extend([
            average,
            choice.binding().map_or(Value::Nothing, |one| one.kind.name().into()),
            choice.next_binding().map_or(Value::Nothing, |one| one.kind.name().into()),
            evidence(choice, &advice.workload).map_or(Value::Nothing, Value::from),
            choice.latency.map_or(Value::Nothing, |check| check.name().into()),
        ]);
        let kind = if index == chosen { RowKind::Page } else { RowKind::Measured };
        table.rows.push(Row { kind, label: numbered(choice, index), cells });
    }
    table
}

fn numbered(choice: &Choice, index: usize) -> String {
    format!("{}. {}", index + 1, kind(choice))
}

fn misses_table(advice: &Advice) -> Table {
    let head = [
        "Nearest choices",
        "Needed of it, with headroom",
        "Misses at",
        "Pools",
        "Volumes",
        "Set",
        "Carries MiB/s",
        "IOPS",
    ];
    let mut table = Table::new("Choices that do not fit, the nearest first", &head);
    for miss in &advice.misses {
        let mut missed: Vec<&str> = Vec::new();
        for one in miss.constraints.iter().filter(|one| !one.used.fits()) {
            if !missed.contains(&one.kind.name()) {
                missed.push(one.kind.name());
            }
        }
        let used = miss.binding().map_or(Value::Nothing, |one| share(one.used));
        let mut cells = vec![used, missed.join(", ").into()];
        cells.extend(purchase_columns(miss));
        cells.extend(maximum_columns(miss, &advice.workload));
        table.row(kind(miss), cells);
    }
    table
}

fn purchase_columns(choice: &Choice) -> Vec<Value> {
    let words = [pools(choice), volumes(choice), choice.settings().unwrap_or_default()];
    words.map(Value::from).to_vec()
}

pub(super) fn pools(choice: &Choice) -> String {
    format!("{} × {}", choice.pools, size_to_buy(choice.pool.size))
}

pub(super) fn volumes(choice: &Choice) -> String {
    format!("{} × {}", choice.volumes(), size_to_buy(choice.volume.size))
}

pub(super) fn maximum_columns(choice: &Choice, workload: &Workload) -> [Value; 2] {
    let Some((rate, iops)) = choice.maximum_load(workload) else { return [Value::Nothing, Value::Nothing] };
    match choice.maximum_apart(workload) {
        None => [ceiling_in_mib(rate), Value::count(iops.0)],
        Some([reads, writes]) => [
            format!("{} read + {} write", ceiling_in_mib(reads.0), ceiling_in_mib(writes.0)).into(),
            format!("{} read + {} write", Value::count(reads.1.0), Value::count(writes.1.0)).into(),
        ],
    }
}

/// The use at the peak and on average.
fn used(choice: &Choice, workload: &Workload) -> [Value; 2] {
    let average = choice.at_average(workload).filter(|_| workload.average_percent < 100);
    [choice.at_peak(workload), average].map(|used| used.map_or(Value::Nothing, share))
}

fn evidence(choice: &Choice, workload: &Workload) -> Option<&'static str> {
    (!workload.streams.is_empty()).then(|| choice.evidence.name())
}

pub(super) fn facts(choice: &Choice, workload: &Workload, catalog: &Catalog) -> Vec<Fact> {
    let pool = if choice.level().info().is_instance { "Instances" } else { "Pools" };
    let large = if choice.volume.settings.large { ", large ones" } else { "" };
    let carries = carried_in_words(choice, workload);
    let raisable = choice.raisable_load(workload);
    let raisable =
        raisable.map(|(rate, iops)| format!("to {}, by its settings alone", load_in_words(rate, iops)));
    let raises = choice.cost.as_ref().map_or_else(Vec::new, |_| choice.raises(workload, catalog));
    let raise = |step| {
        let raise = raises.iter().find(|raise| raise.step == step)?;
        let more = raise.more.as_ref().map_or("no price".to_owned(), |more| format!("{more} a month more"));
        Some(format!("{}, {}: {more}", kind(&raise.choice), pools(&raise.choice)))
    };
    let average = choice.at_average(workload).filter(|_| workload.average_percent < 100);
    let used = choice.at_peak(workload).map(|peak| match average {
        Some(average) => format!("{peak} at the peak, {average} on average, without headroom"),
        None => format!("{peak} at the peak, without headroom"),
    });
    let in_words = |one: &Constraint| {
        let headroom = workload.headroom_in_words(one.kind);
        format!("{}, {}{headroom}: {}", one.kind.name(), one.used, one.formula)
    };
    let all = [
        (pool, Some(pools(choice))),
        ("Volumes", Some(format!("{}{large}", volumes(choice)))),
        ("Set", choice.settings()),
        ("Carries", carries),
        ("Can be raised", raisable),
        ("Used", used),
        ("Bottleneck", choice.binding().map(in_words)),
        ("Next", choice.next_binding().map(in_words)),
        ("Evidence", evidence(choice, workload).map(str::to_owned)),
        ("Latency target", choice.latency.map(|check| format!("{}: {}", check.name(), check.why()))),
        ("Cost a month", choice.cost.as_ref().map(ToString::to_string)),
        ("Next size", raise(RaiseStep::Size)),
        ("Next level", raise(RaiseStep::Level)),
        ("Mount with", Some(choice.mount.options.clone())),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Levels with the same reason share a line.
pub(super) fn skipped_levels(skipped: &[SkippedLevel]) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for one in skipped {
        match reasons.iter_mut().find(|(why, _)| *why == one.why) {
            Some((_, levels)) => levels.push(one.level.name()),
            None => reasons.push((&one.why, vec![one.level.name()])),
        }
    }
    reasons.into_iter().map(|(why, levels)| format!("{}: {why}", levels.join(", "))).collect()
}
