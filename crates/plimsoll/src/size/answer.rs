//! The answer, as text.

use std::collections::BTreeSet;

use envelope::{
    Access, Advice, Bound, Bytes, BytesPerSecond, Choice, Constraint, Evidence, Iops, LatencyCheck, Provider,
    RaiseStep, Recommendation, SkippedLevel, Stream, Workload, grouped, mib, mib_within, size, size_to_buy,
};
use report::document::sizing::Years;

use super::question::SizingRequest;
use crate::manage::Table;
use crate::manage::table::{Cell, Facts};
use crate::terminal::{Tone, folded};

/// Random operations below this size are shown in IOPS, larger ones in bytes per second.
const SMALL: Bytes = Bytes(64 << 10);

/// An answer, with the options of its display.
pub(super) struct SizingOutput<'a> {
    pub(super) advice: &'a Advice,
    pub(super) request: &'a SizingRequest,
    /// The option to show in full.
    pub(super) choice: &'a Choice,
    /// Whether to show all options, and not only the leading ones.
    pub(super) all: bool,
    /// The greatest width of a line; `None` for no limit.
    pub(super) columns: Option<usize>,
}

impl SizingOutput<'_> {
    /// The answer as text: the leading options, with the reasons against the others, or all options.
    pub(super) fn text(&self) -> String {
        let Self { advice, request: asked, choice, all, columns } = *self;
        let workload = &asked.workload;
        let mut text = asked.note_lines(columns);
        text.push_str(&question(workload).fit(columns));
        text.push('\n');
        if advice.options.is_empty() {
            text.push_str("No option carries this workload. The nearest options:\n");
            text.push_str(&options(&advice.misses, asked).fit(columns));
        } else {
            let shown = if all { advice.options.len() } else { advice.leading_count() };
            text.push_str(&format!("{}:\n", order(advice)));
            text.push_str(&options(&advice.options[..shown], asked).fit(columns));
            text.push_str(&self.others(shown));
            text.push_str(&self.too_small());
        }
        text.push_str(&self.left_out());
        let number = advice.options.iter().position(|option| option == choice);
        let heading = number.map_or("Nearest".to_owned(), |index| format!("Option {}", index + 1));
        text.push_str(&format!("\n{heading}: {}\n", what(choice)));
        text.push_str(&details(choice, asked).fit(columns));
        text
    }

    /// The reasons why the other options rank lower, with the options of each reason.
    fn others(&self, shown: usize) -> String {
        let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
        let first = if self.all { 1 } else { shown };
        for (index, option) in self.advice.options.iter().enumerate().skip(first) {
            let Some(why) = self.advice.reason_for_rank(index) else { continue };
            let is_twice = self.advice.options.iter().filter(|other| kind(other) == kind(option)).count() > 1;
            let bought = times(option.pools, &size_to_buy(option.pool.size));
            let bought = if is_twice { format!(" ({bought})") } else { String::new() };
            let name = format!("{} {}{bought}", index + 1, kind(option));
            match reasons.iter_mut().find(|(known, _)| *known == why) {
                Some((_, names)) => names.push(name),
                None => reasons.push((why, vec![name])),
            }
        }
        if reasons.is_empty() {
            return String::new();
        }
        let mut table = Table::new(&["WHY THE OTHERS COME AFTER THEM", "OPTIONS"])
            .folding(&["OPTIONS", "WHY THE OTHERS COME AFTER THEM"]);
        reasons.into_iter().for_each(|(why, names)| table.row([why, names.join(", ")]));
        format!("\n{}", table.fit(self.columns))
    }

    fn too_small(&self) -> String {
        if self.advice.misses.is_empty() {
            return String::new();
        }
        let say = |miss: &Choice| match self.all {
            true => missed(miss, &self.request.workload),
            false => missed_in_short(miss, &self.request.workload),
        };
        let lines: String =
            self.advice.misses.iter().map(|miss| folded("  ", &say(miss), self.columns)).collect();
        format!("\nToo small:\n{lines}")
    }

    /// The skipped levels. Plimsoll's own levels are listed only with `--all`.
    fn left_out(&self) -> String {
        let is_shown = |one: &&SkippedLevel| self.all || one.level.info().provider != Provider::Plimsoll;
        let shown = self.advice.left_out.iter().filter(is_shown);
        let lines: String =
            shown.map(|one| folded("  ", &format!("{} {}", one.level, one.why), self.columns)).collect();
        if lines.is_empty() { lines } else { format!("\nSkipped:\n{lines}") }
    }
}

/// The order of the options, in words.
fn order(advice: &Advice) -> &'static str {
    let providers: BTreeSet<&str> =
        advice.options.iter().filter_map(|one| one.level().name().split('/').next()).collect();
    match (advice.is_priced(), providers.len()) {
        (true, _) => "Cheapest first",
        (false, 1) => "Smallest first",
        (false, _) => "Smallest first, the best of each provider before the others",
    }
}

/// The workload, a line each property.
pub(super) fn question(workload: &Workload) -> Facts {
    let mut facts = Facts::default();
    let growth = match (workload.growth_percent, workload.years) {
        (0, _) => String::new(),
        (percent, 1) => format!(", {} with {percent} % growth", size(workload.planned())),
        (percent, years) => {
            format!(", {} with {percent} % growth a year over {years} years", size(workload.planned()))
        }
    };
    facts.add("Capacity", format!("{}{growth}", size(workload.capacity)));
    for stream in &workload.streams {
        facts.add("Load", of_stream(stream));
    }
    if workload.streams.is_empty() {
        facts.add("Load", "none is asked for: capacity alone");
    }
    facts.maybe("Headroom", headroom(workload));
    let clients = workload.clients.map_or("any number".to_owned(), |clients| clients.to_string());
    facts.add("Clients", format!("{clients} over {}", workload.protocol.name()));
    facts.maybe("Latency", workload.latency_us.map(ms));
    facts
}

/// `30 % over the peak, 20 % over the data: 48 TiB`; `None` without any.
fn headroom(workload: &Workload) -> Option<String> {
    let average = match workload.average_percent {
        100 => String::new(),
        percent => format!(", which is {percent} % of it on average"),
    };
    let of_load = (!workload.streams.is_empty())
        .then(|| format!("{} % over the peak{average}", workload.headroom_percent));
    let of_data = (workload.capacity_headroom_percent > 0).then(|| {
        let needed = size(workload.needed_capacity());
        format!("{} % over the data, for snapshots: {needed}", workload.capacity_headroom_percent)
    });
    let all: Vec<String> = of_load.into_iter().chain(of_data).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// `120,000 IOPS of 8 KiB random, 70 % reads: 937.5 MiB/s`.
pub(super) fn of_stream(stream: &Stream) -> String {
    let reads = stream.read_thousandths;
    let tenth = if reads.is_multiple_of(10) { String::new() } else { format!(".{}", reads % 10) };
    let iops = grouped(stream.iops().0);
    match stream.access {
        Access::Metadata => format!("{iops} metadata operations a second"),
        Access::Eda => format!("{iops} IOPS of an EDA design flow: {}", mib(stream.rate)),
        access => format!(
            "{iops} IOPS of {} {}, {}{tenth} % reads: {}",
            size(stream.block),
            access.name(),
            reads / 10,
            mib(stream.rate)
        ),
    }
}

fn ms(us: u64) -> String {
    if us.is_multiple_of(1000) { format!("{} ms", us / 1000) } else { format!("{us} µs") }
}

fn options(choices: &[Choice], asked: &SizingRequest) -> Table {
    let workload = &asked.workload;
    let priced = choices.iter().any(|choice| choice.cost.is_some());
    let mut heads = vec![">#", "LEVEL", "BUY", ">CARRIES", ">AT PEAK", "BOTTLENECK", "EVIDENCE"];
    heads.extend(workload.latency_us.map(|_| "LATENCY"));
    heads.extend(priced.then_some([">A MONTH", ">NEXT SIZE", ">NEXT LEVEL"]).into_iter().flatten());
    let left_out = ["EVIDENCE", "LATENCY", "BOTTLENECK", "NEXT LEVEL", "NEXT SIZE", "AT PEAK"];
    let mut table = Table::new(&heads).folding(&["EVIDENCE"]).leaving_out(&left_out);
    for (choice, number) in choices.iter().zip(1..) {
        let cells = [
            format!("{number}"),
            kind(choice),
            times(choice.pools, &size_to_buy(choice.pool.size)),
            carries(choice, workload).unwrap_or_default(),
            choice.at_peak(workload).map_or_else(String::new, |used| used.to_string()),
            choice.binding().map_or_else(String::new, |bound| bound.kind.name().to_owned()),
            choice.evidence.name().to_owned(),
        ];
        let cost = choice.cost.as_ref().map_or_else(|| "no price".to_owned(), ToString::to_string);
        let more = |step| {
            let raises = choice.raises(workload, &asked.catalog);
            let more = raises.into_iter().find(|raise| raise.step == step).and_then(|raise| raise.more);
            more.map_or_else(|| "-".to_owned(), |more| format!("+{}", more.amount()))
        };
        let costs = || [cost.clone(), more(RaiseStep::Size), more(RaiseStep::Level)];
        let latency = choice.latency.map(|check| check.name().to_owned());
        table.row(cells.into_iter().chain(latency).chain(priced.then(costs).into_iter().flatten()));
    }
    table
}

/// The level, and whether its volumes are large ones.
pub(super) fn kind(choice: &Choice) -> String {
    let large = if choice.volume.settings.large { " large" } else { "" };
    format!("{}{large}", choice.level())
}

/// The greatest load that an option carries: in IOPS if operations are small or of a fixed mix, else in bytes per second.
/// Reads and writes apart where the level limits them apart.
pub(super) fn carries(choice: &Choice, workload: &Workload) -> Option<String> {
    let counted = |stream: &Stream| match stream.access {
        Access::Eda | Access::Metadata => true,
        Access::Random => stream.block < SMALL,
        Access::Sequential => false,
    };
    let of_iops = workload.streams.iter().all(counted);
    let unit = if of_iops { "IOPS" } else { "MiB/s" };
    let number = |(rate, iops): (BytesPerSecond, Iops)| {
        if of_iops {
            return grouped(iops.0);
        }
        // Rounded down: never more than it carries.
        let tenths = u64::try_from((u128::from(rate.0) * 10) >> 20).unwrap_or(u64::MAX);
        match tenths {
            0..1000 => format!("{}.{}", tenths / 10, tenths % 10),
            _ => grouped(tenths / 10),
        }
    };
    if let Some([reads, writes]) = choice.maximum_apart(workload) {
        return Some(format!("{} read + {} write {unit}", number(reads), number(writes)));
    }
    Some(format!("{} {unit}", number(choice.maximum_load(workload)?)))
}

/// The latency target, and whether a figure confirms it.
fn latency(target: u64, check: LatencyCheck) -> String {
    format!("{}, {}: {}", ms(target), check.name(), check.why())
}

/// The reads and the writes of a load.
fn apart([reads, writes]: [(BytesPerSecond, Iops); 2]) -> String {
    let part =
        |(rate, iops): (BytesPerSecond, Iops)| format!("{}, {} IOPS", mib_within(rate), grouped(iops.0));
    format!("reads {}; writes {}: the level limits them apart", part(reads), part(writes))
}

pub(super) fn times(count: u32, each: &str) -> String {
    if count == 1 { each.to_owned() } else { format!("{count} × {each}") }
}

/// An option in a line: level, pools and volumes.
pub(super) fn what(choice: &Choice) -> String {
    let pools = times(choice.pools, &format!("a pool of {}", size_to_buy(choice.pool.size)));
    if choice.level().info().is_instance {
        let instances = times(choice.pools, &format!("an instance of {}", size_to_buy(choice.pool.size)));
        return format!("{}, {instances}", choice.level());
    }
    let kind = if choice.volume.settings.large { "large volume" } else { "volume" };
    let volumes = times(choice.volumes_per_pool, &format!("a {kind} of {}", size_to_buy(choice.volume.size)));
    format!("{}, {pools}, in it {volumes}", choice.level())
}

/// An option that is too small, with the share of the bound that it misses, without the arithmetic.
fn missed_in_short(miss: &Choice, workload: &Workload) -> String {
    let bound = miss.binding().map_or_else(String::new, |bound| {
        let headroom = workload.headroom_in_words(bound.kind);
        format!(": {} of its {}{headroom}", bound.used, bound.kind.name())
    });
    format!("{}, {}{bound}", kind(miss), times(miss.pools, &size_to_buy(miss.pool.size)))
}

/// An option that is too small, with the excess over the bound that it misses.
pub(super) fn missed(miss: &Choice, workload: &Workload) -> String {
    let bound = miss.binding().map_or_else(String::new, |bound| {
        let (over, headroom) = (bound.used.excess(), workload.headroom_in_words(bound.kind));
        format!(" misses by {over}{headroom} at the {}: {}", bound.kind.name(), bound.formula)
    });
    format!("{}{bound}", what(miss))
}

fn details(choice: &Choice, asked: &SizingRequest) -> Facts {
    let workload = &asked.workload;
    let mut facts = Facts::default();
    facts.maybe("Set", choice.settings());
    if let Some((rate, iops)) = choice.maximum_load(workload) {
        let iops = format!("{} IOPS", grouped(iops.0));
        facts.add(
            "Carries",
            match workload.streams.iter().all(|stream| stream.access == Access::Metadata) {
                true => iops,
                false => format!("{} of this mix, {iops}", mib_within(rate)),
            },
        );
        facts.maybe("", choice.maximum_apart(workload).map(apart));
        facts.maybe(
            "Can be raised",
            choice
                .raisable_load(workload)
                .map(|(rate, iops)| format!("to {}, {iops:#}, by its settings alone", mib_within(rate))),
        );
        facts.maybe("Error band", choice.bottleneck().and_then(|bound| band(bound, rate)));
    }
    if let Some((peak, average)) = choice.at_peak(workload).zip(choice.at_average(workload)) {
        let average =
            if workload.average_percent == 100 { String::new() } else { format!(", {average} on average") };
        facts.add("Used", format!("{peak} at the peak{average}, without headroom"));
    }
    let bound = |constraint: &Constraint| {
        let headroom = workload.headroom_in_words(constraint.kind);
        format!("{}, {}{headroom}: {}", constraint.kind.name(), constraint.used, constraint.formula)
    };
    facts.maybe("Bottleneck", choice.binding().map(bound));
    facts.maybe("Next", choice.next_binding().map(bound));
    let cited = |one: &Constraint| format!("{}, {}", choice.evidence.name(), one.source);
    let envelope = choice.of_kind(Bound::Envelope).filter(|_| choice.evidence != Evidence::Limits);
    let evidence = envelope.map_or_else(|| choice.evidence.name().to_owned(), cited);
    facts.maybe("Evidence", (!workload.streams.is_empty()).then_some(evidence));
    facts.maybe(
        "Latency",
        workload.latency_us.zip(choice.latency).map(|(target, check)| latency(target, check)),
    );
    facts.maybe("Cost a month", choice.cost.as_ref());
    if choice.cost.is_some() {
        for raise in choice.raises(workload, &asked.catalog) {
            let name = if raise.step == RaiseStep::Size { "Next size" } else { "Next level" };
            let more = raise.more.map_or("no price".to_owned(), |more| format!("{more} a month more"));
            let load =
                carries(&raise.choice, workload).map_or(String::new(), |load| format!(", carries {load}"));
            facts.add(name, format!("{}: {more}{load}", what(&raise.choice)));
        }
    }
    facts.verbatim("Mount with", &choice.mount.options);
    for why in choice.mount.why.iter().chain(&choice.clients) {
        facts.add("", reason(why));
    }
    for caveat in &choice.caveats {
        facts.add_cell("Caveat", Cell::from(caveat.as_str()).tone(Tone::Warning));
    }
    facts
}

/// The next commands, each with the flags of the question.
pub(super) fn next(commands: &[String], all: bool) -> String {
    let lines: String = commands.iter().map(|command| format!("  {command}\n")).collect();
    let more = if all { "" } else { "\"--all\" lists every option.\n" };
    format!("\nNext, for this option with the same flags:\n{lines}{more}")
}

/// The need of each year, and whether the option still carries it.
pub(super) fn years(years: &Years, priced: bool, columns: Option<usize>) -> String {
    let mut heads = vec![">YEAR", ">DATA", "NEEDS"];
    heads.extend(priced.then_some(">A MONTH"));
    heads.push("THIS OPTION");
    let mut table = Table::new(&heads).folding(&["THIS OPTION"]);
    for row in &years.rows {
        let cells = [&row.year, &row.data, &row.needs].map(String::clone).into_iter();
        let cost = row.cost.clone().unwrap_or_else(|| "no price".to_owned());
        table.row(cells.chain(priced.then_some(cost)).chain([row.state.clone()]));
    }
    format!("\n{}\n{}{}\n", years.growth, table.fit(columns), years.verdict)
}

/// A recommendation with its reason, and with its source if that is not this project.
pub(super) fn reason(why: &Recommendation) -> String {
    let source = why.source.to_string();
    let cited = if why.source.page.is_empty() { String::new() } else { format!(" [{source}]") };
    format!("{}: {}{cited}", why.what, why.why)
}

/// The error band of the ceiling, if the envelope sets the ceiling.
fn band(constraint: &Constraint, ceiling: BytesPerSecond) -> Option<String> {
    let band = constraint.band?;
    let at = |thousandths: u32| mib_within(BytesPerSecond(ceiling.0 / 1000 * u64::from(thousandths)));
    let doubtful = !constraint.used.fits_in(band.low_thousandths);
    let note = if doubtful { "; at its lower end the headroom is gone" } else { "" };
    Some(format!("{} to {}{note}", at(band.low_thousandths), at(band.high_thousandths)))
}
