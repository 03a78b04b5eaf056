//! `plimsoll size explain`: the arithmetic of an option, line by line.

use envelope::{Choice, Constraint, Stream, Utilization, Workload, mib, mib_within, size};

use super::answer;
use super::question::SizingRequest;
use crate::manage::Table;
use crate::terminal::folded;

/// All steps of the arithmetic, with the page of each figure.
pub(super) fn explained(choice: &Choice, asked: &SizingRequest, columns: Option<usize>) -> String {
    let inner = columns.map(|columns| columns - INDENT.len());
    let line = |text: &str| folded(INDENT, text, columns);
    let workload = &asked.workload;
    let mut text = asked.note_lines(columns);
    text.push_str("The workload\n");
    text.push_str(&indented(&answer::question(workload).fit(inner)));
    text.push_str("\nThe load that ceilings must carry\n");
    text.push_str(&line(&format!("capacity  {}", capacity(workload))));
    let counted = choice.needed(workload);
    for ((stream, needed), counted) in workload.streams.iter().zip(workload.needed()).zip(counted) {
        let percent = workload.headroom_percent;
        let sum = format!("{} + {percent} % headroom = {}", mib(stream.rate), mib(needed.rate));
        text.push_str(&format!("  load      {sum}, {:#} of {}\n", needed.iops(), size(stream.block)));
        if counted.block != needed.block {
            let sum = format!("{:#} of {} = {}", counted.iops(), size(counted.block), mib(counted.rate));
            text.push_str(&line(&format!("counted   {sum}, as measured on such volumes: see the caveats")));
        }
    }
    text.push_str(&format!("\n{}\n", answer::what(choice)));
    for origin in &choice.origins {
        text.push_str(&line(&format!("{}: {} [{}]", origin.what, origin.formula, origin.source)));
    }
    text.push_str("\nEvery bound, and how much of it is taken with headroom\n");
    let mut table = Table::new(&["BOUND", ">TAKEN", "ARITHMETIC", "BAND", "SOURCE"])
        .folding(&["ARITHMETIC", "SOURCE"])
        .leaving_out(&["BAND"]);
    let binding = choice.binding();
    for one in &choice.constraints {
        let mark = if Some(one) == binding { " ←" } else { "" };
        let band = one.band.map_or_else(String::new, |band| {
            let off = |thousandths: u32| f64::from(thousandths) / 10.0 - 100.0;
            format!("{:+.0} to {:+.0} %", off(band.low_thousandths), off(band.high_thousandths))
        });
        table.row([
            format!("{}{mark}", one.kind.name()),
            one.used.to_string(),
            one.formula.clone(),
            band,
            one.source.clone(),
        ]);
    }
    text.push_str(&indented(&table.fit(inner)));
    text.push_str(&conclusion(choice, asked, columns));
    if !choice.caveats.is_empty() {
        text.push_str("\nCaveats\n");
    }
    text.extend(choice.caveats.iter().map(|caveat| line(caveat)));
    text.push_str(&format!("\nMount with\n  {}\n", choice.mount.options));
    text.extend(choice.mount.why.iter().chain(&choice.clients).map(|why| line(&answer::reason(why))));
    text.push_str("\nThe effect of each mount option\n");
    let mut table = Table::new(&["OPTION", "EFFECT", "SOURCE"]).folding(&["EFFECT", "SOURCE"]);
    for why in choice.mount.meanings() {
        table.row([why.what, why.why, why.source.to_string()]);
    }
    text.push_str(&indented(&table.fit(inner)));
    text.push_str("\nSources\n");
    text.extend(choice.sources().into_iter().map(|source| line(&format!("{source:#}"))));
    text
}

/// The sum that the volumes must hold, with the reason for its headroom.
fn capacity(workload: &Workload) -> String {
    let years =
        if workload.years == 1 { String::new() } else { format!(" a year over {} years", workload.years) };
    let grown = format!(
        "{} + {} % growth{years} = {}",
        size(workload.capacity),
        workload.growth_percent,
        size(workload.planned())
    );
    match workload.capacity_headroom_percent {
        0 => grown,
        percent => format!(
            "{grown}; + {percent} % headroom = {}: {} [{}], assumed of all services",
            size(workload.needed_capacity()),
            envelope::CAPACITY_HEADROOM_WHY,
            envelope::CAPACITY_HEADROOM_SOURCE
        ),
    }
}

fn conclusion(choice: &Choice, asked: &SizingRequest, columns: Option<usize>) -> String {
    let workload = &asked.workload;
    let verdict = match choice.binding() {
        Some(bound) if bound.used > Utilization::ALL => {
            format!("it does not fit: {}", answer::missed(choice, workload))
        }
        Some(bound) => {
            format!("it fits; nothing smaller fits, because of the {}", bound.kind.name())
        }
        None => "it fits".to_owned(),
    };
    let mut lines = vec![verdict];
    if let (Some((rate, iops)), Some(bottleneck)) = (choice.maximum_load(workload), choice.bottleneck()) {
        let (needed, _) = Stream::total(&choice.needed(workload));
        lines.push(format!(
            "{} ÷ {} of the {} = {} of this mix, {iops:#}",
            mib(needed),
            bottleneck.used,
            bottleneck.kind.name(),
            mib_within(rate),
        ));
    }
    let next = |next: &Constraint| format!("next would be the {}: {}", next.kind.name(), next.formula);
    lines.extend(choice.next_binding().map(next));
    let lines: String = lines.iter().map(|line| folded(INDENT, line, columns)).collect();
    format!("\nConclusion\n{lines}")
}

/// The indentation below a heading.
const INDENT: &str = "  ";

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("{INDENT}{line}\n")).collect()
}
