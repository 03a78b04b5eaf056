//! The answer, as text and as JSON.

use envelope::{Access, Advice, Choice, Constraint, Stream, Used, Workload, mib, size};
use serde::Serialize;

use super::question::Asked;
use crate::manage::Table;
use crate::manage::table::Facts;

/// Everything, for people.
pub(super) fn text(advice: &Advice, asked: &Asked, choice: &Choice) -> String {
    let workload = &asked.workload;
    let mut text = asked.note_lines();
    text.push_str(&question(workload).to_string());
    text.push('\n');
    if advice.options.is_empty() {
        text.push_str("Nothing carries this. What comes nearest:\n");
        text.push_str(&options(&advice.misses, workload).to_string());
    } else {
        text.push_str(&options(&advice.options, workload).to_string());
        if !advice.misses.is_empty() {
            text.push_str("\nToo small:\n");
            text.extend(advice.misses.iter().map(|miss| format!("  {}\n", missed(miss))));
        }
    }
    if !advice.left_out.is_empty() {
        text.push_str("\nNot looked at:\n");
    }
    for left_out in &advice.left_out {
        text.push_str(&format!("  {} {}\n", left_out.level, left_out.why));
    }
    let number = advice.options.iter().position(|option| option == choice);
    let heading = number.map_or("Nearest".to_owned(), |index| format!("Option {}", index + 1));
    text.push_str(&format!("\n{heading}: {}\n", what(choice)));
    text.push_str(&details(choice, workload).to_string());
    text.push_str(
        "\nNext: \"plimsoll size explain\" with the same flags shows the arithmetic, \"apply\" makes it.\n",
    );
    text
}

/// What was asked, a line each.
pub(super) fn question(workload: &Workload) -> Facts {
    let mut facts = Facts::default();
    let growth = match workload.growth_percent {
        0 => String::new(),
        percent => format!(", {} with {percent} % growth", size(workload.planned())),
    };
    facts.add("Capacity", format!("{}{growth}", size(workload.capacity)));
    for stream in &workload.streams {
        facts.add("Load", of_stream(stream));
    }
    if workload.streams.is_empty() {
        facts.add("Load", "none is asked for: capacity alone");
    } else {
        let average = match workload.average_percent {
            100 => String::new(),
            percent => format!(", {percent} % of it on average"),
        };
        facts.add("Headroom", format!("{} % over the peak{average}", workload.headroom_percent));
    }
    let clients = workload.clients.map_or("any number".to_owned(), |clients| clients.to_string());
    facts.add("Clients", format!("{clients} over {}", api::model::Protocol::from(workload.protocol)));
    facts.maybe("Latency", workload.latency_us.map(ms));
    facts
}

/// `120000 IOPS of 8 KiB random, 70 % reads: 937.5 MiB/s`.
fn of_stream(stream: &Stream) -> String {
    let reads = stream.read_thousandths;
    let tenth = if reads.is_multiple_of(10) { String::new() } else { format!(".{}", reads % 10) };
    let kind = match stream.access {
        Access::Eda => "of an EDA design flow".to_owned(),
        access => format!("of {} {}, {}{tenth} % reads", size(stream.block), access.name(), reads / 10),
    };
    format!("{} {kind}: {}", stream.iops(), mib(stream.rate))
}

fn ms(us: u64) -> String {
    if us.is_multiple_of(1000) { format!("{} ms", us / 1000) } else { format!("{us} µs") }
}

fn options(choices: &[Choice], workload: &Workload) -> Table {
    let priced = choices.iter().any(|choice| choice.cost.is_some());
    let mut heads = vec![
        ">#",
        "LEVEL",
        "POOLS",
        "VOLUMES",
        "SET",
        ">CARRIES",
        ">IOPS",
        ">AT PEAK",
        "BOUND BY",
        "STANDS ON",
    ];
    heads.extend(priced.then_some(">A MONTH"));
    let mut table = Table::new(&heads);
    for (choice, number) in choices.iter().zip(1..) {
        let (rate, iops) = choice
            .carries(workload)
            .map_or_else(Default::default, |(rate, iops)| (mib(rate), iops.0.to_string()));
        let cells = [
            format!("{number}"),
            choice.level().to_string(),
            times(choice.pools, &size(choice.pool.size)),
            volumes(choice),
            choice.settings().unwrap_or_default(),
            rate,
            iops,
            choice.at_peak(workload).map_or_else(String::new, |used| used.to_string()),
            choice.binding().map_or_else(String::new, |bound| bound.kind.name().to_owned()),
            choice.evidence.name().to_owned(),
        ];
        let cost = choice.cost.as_ref().map_or_else(|| "no price".to_owned(), ToString::to_string);
        table.row(cells.into_iter().chain(priced.then_some(cost)));
    }
    table
}

fn times(count: u32, each: &str) -> String {
    if count == 1 { each.to_owned() } else { format!("{count} × {each}") }
}

fn volumes(choice: &Choice) -> String {
    let large = if choice.volume.settings.large { " large" } else { "" };
    if choice.level().info().is_instance {
        return "the same".to_owned();
    }
    times(choice.volumes(), &size(choice.volume.size)) + large
}

/// What it is, in a line.
pub(super) fn what(choice: &Choice) -> String {
    let pools = times(choice.pools, &format!("a pool of {}", size(choice.pool.size)));
    if choice.level().info().is_instance {
        let instances = times(choice.pools, &format!("an instance of {}", size(choice.pool.size)));
        return format!("{}, {instances}", choice.level());
    }
    let kind = if choice.volume.settings.large { "large volume" } else { "volume" };
    let volumes = times(choice.volumes_per_pool, &format!("a {kind} of {}", size(choice.volume.size)));
    format!("{}, {pools}, in it {volumes}", choice.level())
}

/// By how much something misses, and at what.
pub(super) fn missed(miss: &Choice) -> String {
    let bound = miss.binding().map_or_else(String::new, |bound| {
        let over = Used(bound.used.0.saturating_sub(Used::ALL.0));
        format!(" misses by {over} at the {}: {}", bound.kind.name(), bound.formula)
    });
    format!("{}{bound}", what(miss))
}

fn details(choice: &Choice, workload: &Workload) -> Facts {
    let mut facts = Facts::default();
    facts.maybe("Set", choice.settings());
    if let Some((rate, iops)) = choice.carries(workload) {
        facts.add("Carries", format!("{} of this mix, {iops}", mib(rate)));
        facts.maybe("Error band", choice.bottleneck().and_then(|bound| band(bound, rate)));
    }
    if let Some((peak, average)) = choice.at_peak(workload).zip(choice.at_average(workload)) {
        let average =
            if workload.average_percent == 100 { String::new() } else { format!(", {average} on average") };
        facts.add("Used", format!("{peak} at the peak{average}"));
    }
    facts.maybe("Bound by", choice.binding().map(bound));
    facts.maybe("Bottleneck", choice.bottleneck().filter(|one| Some(*one) != choice.binding()).map(bound));
    facts.maybe("Next", choice.next_bottleneck().map(bound));
    facts.maybe("A month", choice.cost.as_ref());
    facts.add("Mount with", &choice.mount.options);
    for why in choice.mount.why.iter().chain(&choice.clients) {
        facts.add("", format!("{}: {} [{}]", why.what, why.why, why.source.tag));
    }
    for caveat in &choice.caveats {
        facts.add("Mind", caveat);
    }
    facts
}

fn bound(constraint: &Constraint) -> String {
    format!("{}, {}: {}", constraint.kind.name(), constraint.used, constraint.formula)
}

/// Between what the ceiling may lie, if it is the envelope that sets it.
fn band(constraint: &Constraint, ceiling: envelope::BytesPerSecond) -> Option<String> {
    let band = constraint.band?;
    let at = |thousandths: u32| mib(envelope::BytesPerSecond(ceiling.0 / 1000 * u64::from(thousandths)));
    let doubtful = constraint.used.0 > Used::ALL.0 / 1000 * u64::from(band.low_thousandths);
    let note = if doubtful { "; at its lower end the headroom is gone" } else { "" };
    Some(format!("{} to {}{note}", at(band.low_thousandths), at(band.high_thousandths)))
}

/// Everything, for programs.
#[derive(Serialize)]
pub(super) struct Json<'a> {
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    notes: &'a [String],
    workload: &'a Workload,
    options: Vec<JsonChoice<'a>>,
    misses: Vec<JsonChoice<'a>>,
    left_out: &'a [envelope::LeftOut],
}

#[derive(Serialize)]
struct JsonChoice<'a> {
    #[serde(flatten)]
    choice: &'a Choice,
    carries_bytes_per_second: Option<u64>,
    carries_operations_per_second: Option<u64>,
    used_at_peak_billionths: Option<Used>,
    used_at_average_billionths: Option<Used>,
    binding: Option<&'a Constraint>,
    bottleneck: Option<&'a Constraint>,
    next_bottleneck: Option<&'a Constraint>,
}

pub(super) fn json<'a>(advice: &'a Advice, asked: &'a Asked) -> Json<'a> {
    let workload = &asked.workload;
    let all = |choices: &'a [Choice]| choices.iter().map(|choice| JsonChoice::of(choice, workload)).collect();
    Json {
        notes: &asked.notes,
        workload,
        options: all(&advice.options),
        misses: all(&advice.misses),
        left_out: &advice.left_out,
    }
}

impl<'a> JsonChoice<'a> {
    fn of(choice: &'a Choice, workload: &Workload) -> Self {
        let carries = choice.carries(workload);
        Self {
            choice,
            carries_bytes_per_second: carries.map(|(rate, _)| rate.0),
            carries_operations_per_second: carries.map(|(_, iops)| iops.0),
            used_at_peak_billionths: choice.at_peak(workload),
            used_at_average_billionths: choice.at_average(workload),
            binding: choice.binding(),
            bottleneck: choice.bottleneck(),
            next_bottleneck: choice.next_bottleneck(),
        }
    }
}
