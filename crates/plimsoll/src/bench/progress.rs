//! Progress of a measurement: one live line on a terminal, one line for each measurement elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant, SystemTime};

use bench::engine::LayoutProgress;
use bench::run::{Measured, Phase, Progress, ProgressListener, RunPlan, Written};
use indicatif::{ProgressBar, ProgressStyle};
use report::document::table::separated;
use report::document::words;
use report::result::Measurement;

use crate::terminal::{self, Tone, fold, unpainted};

pub(super) struct Screen<'a> {
    bar: ProgressBar,
    /// The targets or cases, by their names.
    arms: &'a [&'a str],
    remaining: Duration,
    /// The last line about files, without a terminal.
    layout_told: Option<Instant>,
}

/// Between two lines about the files of one layout, without a terminal.
const LAYOUT_EVERY: Duration = Duration::from_secs(10);

impl<'a> Screen<'a> {
    pub(super) fn new(arms: &'a [&'a str]) -> Self {
        Self { bar: live_line(), arms, remaining: Duration::ZERO, layout_told: None }
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Prints the beginning of a layout that writes, and later lines at intervals.
    fn layout(&mut self, progress: &Progress<'_>) {
        let Phase::Layout(layout) = progress.status.phase else {
            self.layout_told = None;
            return;
        };
        let is_due = self.layout_told.is_none_or(|told| told.elapsed() >= LAYOUT_EVERY);
        if layout.written > 0 && is_due {
            self.layout_told = Some(Instant::now());
            self.print(&format!("{}  {}: {}", now(), filling(layout), progress.label));
        }
    }

    fn print(&self, line: &str) {
        if terminal::note("progress", line) {
            return;
        }
        if self.bar.is_hidden() {
            // No reader is left if even this fails.
            let _ = writeln!(anstream::stderr(), "{line}");
        } else {
            self.bar.println(if terminal::has_color() { line.to_owned() } else { unpainted(line) });
        }
    }
}

/// A line that is drawn anew; hidden if the standard error is not a terminal.
pub(super) fn live_line() -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
    ProgressBar::new_spinner().with_style(style)
}

/// Shows a text in the live line, cut to the terminal: a line that wraps cannot be drawn anew.
pub(super) fn show(bar: &ProgressBar, text: &str) {
    bar.set_message(cut(text, terminal::columns_of_errors()));
    bar.tick();
}

impl ProgressListener for Screen<'_> {
    fn planned(&mut self, plan: &RunPlan) {
        for line in announcement(plan) {
            let lines = match self.bar.is_hidden() {
                true => vec![line],
                false => fold(&line, terminal::columns_of_errors()),
            };
            lines.iter().for_each(|line| self.print(line));
        }
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        self.remaining = progress.remaining;
        if self.bar.is_hidden() {
            self.layout(progress);
        }
        show(&self.bar, &live(progress));
    }

    fn measured(&mut self, measured: &Measured<'_>) {
        let arm = self.arms.get(measured.arm).filter(|_| self.arms.len() > 1);
        let arm = arm.map_or_else(String::new, |name| format!("{name}: "));
        let count = measured.count;
        let mut line = format!(
            "{} of {}  {arm}{}: {}",
            count.done,
            count.planned,
            measured.label,
            figures(measured.measurement)
        );
        if self.bar.is_hidden() {
            line = format!("{}  {line}", now());
        }
        for caveat in &measured.measurement.caveats {
            line.push_str(&format!("\n  {}", Tone::Warning.paint(&caveat.text)));
        }
        self.print(&line);
    }
}

fn now() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    words::time(now.as_secs_f64())
}

/// The cost of a run, before it starts.
fn announcement(plan: &RunPlan) -> Vec<String> {
    let about = if plan.is_estimate { "about " } else { "" };
    let mut parts = vec![format!("{about}{}", counted(plan.measurements, "measurement"))];
    if plan.searches > 0 {
        let what = if plan.is_estimate { "the largest load" } else { "the number of calls in flight" };
        let searches =
            if plan.searches == 1 { "1 search".to_owned() } else { format!("{} searches", plan.searches) };
        parts.push(format!("{searches} for {what}"));
    }
    let mut lines = vec![format!("This takes about {}: {}.", length(plan.duration), parts.join(", "))];
    let mut written = Vec::new();
    if plan.file_bytes > 0 {
        written.push(format!(
            "fills {} of files, unless an earlier run left them",
            size(plan.file_bytes as f64)
        ));
    }
    if plan.writing > Duration::ZERO {
        written.push(match plan.written {
            Some(Written { bytes, at_rates }) => {
                let bound = if at_rates { "rate of the scenario" } else { "limit of the volume" };
                format!("writes about {} while it measures, at the {bound}", size(bytes))
            }
            None => {
                format!("writes for {} as fast as the target takes it", length(plan.writing))
            }
        });
    }
    if !written.is_empty() {
        lines.push(format!("It {}.", written.join(", and ")));
    }
    lines
}

/// The live line: the counts and times first, since the end is cut.
fn live(progress: &Progress<'_>) -> String {
    let status = progress.status;
    let doing = match status.phase {
        Phase::Layout(layout) => filling(layout),
        _ if progress.is_probe => "searching for the best load".to_owned(),
        Phase::WarmUp => "warming up".to_owned(),
        Phase::Measuring(_) => "measuring".to_owned(),
    };
    let count = progress.count;
    let number = (count.done + 1).min(count.planned);
    // It is not at its end before it ends.
    let percent = (progress.done * 100.0).min(99.0);
    let left = clock(progress.remaining);
    let rate = match status.phase {
        Phase::Layout(_) => String::new(),
        Phase::WarmUp | Phase::Measuring(_) => {
            let (ops, mib) = (separated(status.ops_per_s, 0), separated(status.mib_per_s, 0));
            format!("{ops} ops/s, {mib} MiB/s · ")
        }
    };
    let (planned, label) = (count.planned, progress.label);
    format!("{number} of {planned} · {percent:.0} % · {left} left · {rate}{doing}: {label}")
}

/// `filling files, 3 of 8, 37 %`.
pub(super) fn filling(layout: LayoutProgress) -> String {
    let doing = if layout.written > 0 { "filling" } else { "checking" };
    let count = match layout.files {
        0 => String::new(),
        files => format!("{} of {}, ", separated(layout.whole as f64, 0), separated(files as f64, 0)),
    };
    // It is not at its end before every file is whole.
    let percent = (layout.done * 100.0).min(if layout.whole < layout.files { 99.0 } else { 100.0 });
    format!("{doing} files, {count}{percent:.0} %")
}

fn figures(measurement: &Measurement) -> String {
    let seconds = measurement.seconds;
    let ops = measurement.ops(None) as f64 / seconds;
    let mib = measurement.bytes(None) as f64 / seconds / f64::from(1 << 20);
    let latency = measurement.service(None).latency();
    let mut text = format!(
        "{ops:.0} ops/s, {mib:.1} MiB/s, mean {:.3} ms, p99 {:.3} ms",
        latency.mean_ms, latency.p99_ms
    );
    if measurement.is_scheduled() {
        let response = measurement.response().latency();
        text.push_str(&format!(
            "; from when due: mean {:.3} ms, p99 {:.3} ms",
            response.mean_ms, response.p99_ms
        ));
    }
    text
}

fn counted(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// `1:05`, `2:00:00`.
pub(super) fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// `50 s`, `7 min`, `2 h 10 min`.
fn length(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let minutes = (seconds / 60.0).round();
    match seconds {
        short if short < 99.5 => format!("{:.0} s", short.max(1.0)),
        middle if middle < 99.5 * 60.0 => format!("{minutes:.0} min"),
        _ => format!("{:.0} h {:.0} min", (minutes / 60.0).floor(), minutes % 60.0),
    }
}

fn size(bytes: f64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB")];
    let (shift, unit) =
        units.into_iter().find(|(shift, _)| bytes >= (1u64 << shift) as f64).unwrap_or((10, "KiB"));
    let value = bytes / (1u64 << shift) as f64;
    if value >= 10.0 { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") }
}

/// Leaves the last column free, where a cursor may stand.
fn cut(text: &str, columns: usize) -> String {
    let room = columns.saturating_sub(1).max(1);
    if text.chars().count() <= room {
        return text.to_owned();
    }
    text.chars().take(room - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench::run::{Count, PhaseStatus};

    fn progress(phase: Phase, is_probe: bool) -> String {
        let status = PhaseStatus { phase, ops_per_s: 16_384.4, mib_per_s: 128.0 };
        live(&Progress {
            arm: 0,
            label: "Flex: 8 KiB random, 75 % reads, 6 clients, 16 connections",
            count: Count { done: 6, planned: 30 },
            is_probe,
            done: 0.234,
            remaining: Duration::from_secs(312),
            status,
        })
    }

    #[test]
    fn live_line_fits_and_begins_with_the_counts() {
        let line = progress(Phase::Measuring(0.5), false);
        assert!(line.starts_with("7 of 30 · 23 % · 5:12 left · 16,384 ops/s, 128 MiB/s · measuring: Flex"));
        let shown = cut(&line, 80);
        assert_eq!(shown.chars().count(), 79);
        assert!(shown.ends_with('…') && cut("short", 80) == "short");
        assert!(progress(Phase::WarmUp, true).contains("searching for the best load"));
        let layout = LayoutProgress { done: 0.5, whole: 3, files: 8, written: 1 };
        let line = progress(Phase::Layout(layout), true);
        assert!(line.contains(" left · filling files, 3 of 8, 50 %: Flex"), "{line}");
        let checked = LayoutProgress { written: 0, ..layout };
        assert!(progress(Phase::Layout(checked), true).contains("checking files, 3 of 8, 50 %"));
        let uncounted = LayoutProgress { whole: 0, files: 0, ..layout };
        assert!(progress(Phase::Layout(uncounted), true).contains("filling files, 50 %"));
    }

    #[test]
    fn cost_is_announced_with_time_and_bytes() {
        let plan = RunPlan {
            measurements: 30,
            is_estimate: false,
            searches: 1,
            duration: Duration::from_secs(429),
            file_bytes: 768 << 20,
            writing: Duration::from_secs(96),
            written: None,
        };
        let lines = announcement(&plan);
        assert_eq!(
            lines,
            [
                "This takes about 7 min: 30 measurements, 1 search for the number of calls in flight.",
                "It fills 768 MiB of files, unless an earlier run left them, and writes for 96 s as fast as the target takes \
                 it."
            ]
        );
        let written = |at_rates| {
            let written = Some(Written { bytes: 3.0 * f64::from(1 << 30), at_rates });
            announcement(&RunPlan { file_bytes: 0, written, ..plan }).remove(1)
        };
        assert_eq!(written(true), "It writes about 3.0 GiB while it measures, at the rate of the scenario.");
        assert_eq!(written(false), "It writes about 3.0 GiB while it measures, at the limit of the volume.");
    }

    #[test]
    fn times_and_sizes_are_short() {
        let seconds = Duration::from_secs;
        assert_eq!([5, 65, 7200].map(|time| clock(seconds(time))), ["0:05", "1:05", "2:00:00"]);
        assert_eq!([5, 420, 7800].map(|time| length(seconds(time))), ["5 s", "7 min", "2 h 10 min"]);
        assert_eq!([1.5e9, 5e7].map(size), ["1.4 GiB", "48 MiB"]);
    }
}
